"""Training of an ensemble of one-step predictors, whose disagreement measures uncertainty."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from wmtk.models.ensemble import Ensemble, transitions
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.state_dict import (
    load_module_state,
    load_optimizer_state,
    module_state,
    optimizer_state,
)
from wmtk.runs.training_config import EnsembleConfig
from wmtk.training.health import require_finite
from wmtk.training.optim import Optimizer


class EnsembleTrainer:
    """An ensemble and its optimizer, for the states of a world model."""

    def __init__(
        self, config: EnsembleConfig, model: WorldModel, action_size: int, layers: int, units: int
    ) -> None:
        ensemble = Ensemble(
            model.rssm.latent,
            model.rssm.feat_size + action_size,
            members=config.members,
            layers=config.layers or layers,
            units=config.units or units,
        )
        self.ensemble = ensemble.to(next(model.parameters()).device)
        self.optimizer = Optimizer(config, self.ensemble.parameters())

    def update(self, post: State, inputs: Inputs, step: int) -> dict[str, Tensor]:
        """One gradient step on the transitions of a batch (B, T, …); returns metrics."""
        loss, metrics = self.ensemble.loss(transitions(post, inputs))
        require_finite(step, metrics, {}, self.ensemble)
        norm = metrics["grad_norm/ensemble"] = self.optimizer.update(loss, step)
        require_finite(step, {"grad_norm/ensemble": norm}, {}, self.ensemble)
        return metrics

    def state_dict(self) -> dict[str, Tensor]:
        """The weights and the moments of the optimizer."""
        weights = module_state("ensemble", self.ensemble)
        return weights | optimizer_state("adam/ensemble", self.optimizer.adam)

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue with saved weights and moments."""
        load_module_state("ensemble", self.ensemble, tensors)
        load_optimizer_state("adam/ensemble", self.optimizer.adam, tensors)
