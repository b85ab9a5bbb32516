"""Training of an ensemble of one-step predictors, whose disagreement measures uncertainty."""

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
        """Load the weights and the moments of the optimizer."""
        load_module_state("ensemble", self.ensemble, tensors)
        load_optimizer_state("adam/ensemble", self.optimizer.adam, tensors)


# Alignment of disagreement and rewards. u_t is the uncertainty of the step from z_t by a_t; the
# other symbols are those of wmtk.models.returns:
#
#     state          z0 ───a0──▶ z1 ───a1──▶ z2       a_t is chosen at z_t and leads to z_{t+1}
#     uncertainty         u0          u1
#     reward         r0          r1          r2       r_t is received on arriving at z_t
#
# The penalty P·u_t is not subtracted from r_{t+1}: it is no function of z_{t+1}, which other steps
# reach with other uncertainties, so the critic could not learn it, and the last step, whose r_{t+1}
# is unused, would have no penalty. It is subtracted from r_t instead, with the discount:
#
#     V_t = (r_t − d_t·P·u_t) + d_t·((1−λ)·v_{t+1} + λ·V_{t+1})
#
# V_t is the return of a_t, so a_t and the actions before it get the full penalty, for any λ. After
# the end of an episode (d_t = 0) there is no penalty.


def penalized(trajectory: Trajectory, uncertainty: Tensor, penalty: float) -> Tensor:
    """The rewards of a trajectory minus the penalty on its uncertainty (N, H): (N, H)."""
    return trajectory.reward - penalty * trajectory.discount * uncertainty


def novelty(trajectory: Trajectory, uncertainty: Tensor) -> Tensor:
    """Uncertainty (N, H) as the reward of an explorer: (N, H)."""
    return trajectory.discount * uncertainty
