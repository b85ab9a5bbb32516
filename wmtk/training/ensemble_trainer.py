"""Updates of an ensemble of one-step predictors, which tells what the data says nothing about."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from wmtk.models.ensemble import Ensemble, transitions
from wmtk.models.imagination import Trajectory
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
    """An ensemble with its optimizer, for the states of a world model."""

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
        """One gradient step from the recorded steps of a batch (B, T, …); what to log."""
        loss, metrics = self.ensemble.loss(transitions(post, inputs))
        require_finite(step, metrics, {}, self.ensemble)
        norm = metrics["gradient/ensemble"] = self.optimizer.update(loss, step)
        require_finite(step, {"gradient/ensemble": norm}, {}, self.ensemble)
        return metrics

    def judge(self, dream: Trajectory) -> Tensor:
        """How much is unknown of each imagined step: (H, N)."""
        return self.ensemble.judge(dream)

    def tensors(self) -> dict[str, Tensor]:
        weights = module_state("ensemble", self.ensemble)
        return weights | optimizer_state("adam/ensemble", self.optimizer.adam)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        load_module_state("ensemble", self.ensemble, tensors)
        load_optimizer_state("adam/ensemble", self.optimizer.adam, tensors)
