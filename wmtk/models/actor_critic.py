"""The actor and the critic, and their losses on imagined trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor, nn

from wmtk.config import Config, Depth, Width
from wmtk.models.distributions import ActionDistribution
from wmtk.models.networks import MLP, frozen, initialize
from wmtk.models.returns import lambda_targets, step_weights
from wmtk.schedules import Scale, Schedule, value

if TYPE_CHECKING:
    from wmtk.models.imagination import Trajectory


class ActorCriticConfig(Config):
    """Networks, imagination and losses of actor and critic. The defaults are the paper's for Atari.

    The discount γ belongs to the world model: model.discount.
    """

    layers: Depth = 4
    units: Width = 400
    horizon: int = Field(15, ge=1)  # H
    # N: start states drawn from each batch; null uses every row of the batch.
    imagination_starts: int | None = Field(None, ge=1)
    lambda_: float = Field(0.95, ge=0, le=1)  # λ
    # ρ: 1 is Reinforce, 0 is backpropagation through the dynamics; null is 1 for discrete actions
    # and 0 for continuous ones.
    reinforce_mix: Schedule | None = 1.0
    entropy: Scale = 1e-3  # η
    long_term_entropy: bool = False  # add the entropy of later actions to the reward
    target_update_every: int = Field(100, ge=1)  # updates between copies of the critic


class ActorCritic(nn.Module):
    """An actor, a critic and a target critic, for features of a given size."""

    def __init__(
        self, config: ActorCriticConfig, feat_size: int, actions: ActionDistribution
    ) -> None:
        super().__init__()
        self.config, self.actions = config, actions
        L, U = config.layers, config.units
        self.actor = MLP(feat_size, actions.params_size, L, U)
        self.critic = MLP(feat_size, 1, L, U)
        self.target_critic = MLP(feat_size, 1, L, U).requires_grad_(False)
        initialize(self)
        self.update_target()

    @torch.no_grad()
    def update_target(self) -> None:
        """Copy the critic to the target critic."""
        self.target_critic.load_state_dict(self.critic.state_dict())

    def act(self, feat: Tensor, *, sample: bool = True) -> Tensor:
        """Actions for features (…, F): sampled, or the most likely ones."""
        dist_params = self.actor(feat)
        return self.actions.sample(dist_params) if sample else self.actions.mode(dist_params)

    def rho(self, step: int) -> float:
        """The mix ρ of both gradients at update `step`."""
        rho = self.config.reinforce_mix
        return float(self.actions.discrete) if rho is None else value(rho, step)

    def losses(
        self, trajectory: Trajectory, step: int, reward: Tensor | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """The losses of the actor and of the critic at an update, and metrics.

        `reward` (N, H) replaces the trajectory's own rewards in the losses, if it is given.
        """
        rho, eta = self.rho(step), value(self.config.entropy, step)
        entropy = self.actions.entropy(trajectory.dist_params)  # (N, H)
        reward = trajectory.reward if reward is None else reward
        if self.config.long_term_entropy:
            # The term η·entropy of the loss has the gradient in the actor's weights. As a reward,
            # the entropy is a function of the state only, differentiable through the dynamics.
            with frozen(self.actor):
                reward = reward + eta * self.actions.entropy(self.actor(trajectory.grad_feat))
        discount = trajectory.discount
        weight = step_weights(discount.detach())
        target = lambda_targets(reward, discount, trajectory.next_value, self.config.lambda_)
        fixed = target.detach()
        advantage = fixed - trajectory.value.detach()
        gain = eta * entropy
        if rho:
            log_prob = self.actions.log_prob(trajectory.dist_params, trajectory.action.detach())
            gain = gain + rho * log_prob * advantage
        if rho < 1:
            gain = gain + (1 - rho) * target
        actor_loss = -(weight * gain).mean()
        critic_loss = 0.5 * (weight * (trajectory.value - fixed).square()).mean()
        with torch.no_grad():
            metrics = {
                "loss/actor": actor_loss.detach(),
                "loss/critic": critic_loss.detach(),
                "entropy/actor": entropy.mean(),
                "actor/advantage": advantage.std(correction=0),
                "critic/value": trajectory.value.mean(),
                "critic/target": fixed.mean(),
                "imagined/reward": trajectory.reward.mean(),
                "imagined/discount": discount.mean(),
                "imagined/weight": weight.mean(),
            }
            if weight.shape[1] > 1:  # with a single step, no state has both critics' values
                metrics["imagined/return"] = (weight * trajectory.reward)[:, 1:].sum(1).mean()
                gap = trajectory.value[:, 1:] - trajectory.next_value[:, :-1]
                metrics["critic/target_gap"] = gap.abs().mean()
            summary = self.actions.metrics(trajectory.dist_params)
            metrics |= {f"actor/{name}": number for name, number in summary.items()}
        return actor_loss, critic_loss, metrics
