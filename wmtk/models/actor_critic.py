"""The actor and the critic, and what they learn from imagined steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wmtk.models.actions import Actions
from wmtk.models.imagination import Players, StartStates, Trajectory, World, frozen, imagine
from wmtk.models.networks import MLP, initialize
from wmtk.models.returns import lambda_targets, step_weights


@dataclass(frozen=True)
class Objective:
    """What is learned from a dream; the paper's symbols."""

    horizon: int = 15  # H
    trace: float = 0.95  # λ
    reinforce: float = 1.0  # ρ: 1 is Reinforce, 0 is backpropagation through the dynamics
    entropy: float = 1e-3  # η
    long_term_entropy: bool = False  # whether the entropy of later actions counts as a reward


class ActorCritic(nn.Module):
    """An actor, its critic and a slow copy of the critic, for features of a given size."""

    def __init__(self, feat_size: int, actions: Actions, layers: int, units: int) -> None:
        super().__init__()
        self.actions = actions
        self.actor = MLP(feat_size, actions.stats_size, layers, units)
        self.critic = MLP(feat_size, 1, layers, units)
        self.slow = MLP(feat_size, 1, layers, units).requires_grad_(False)
        initialize(self)
        self.renew_slow()

    def renew_slow(self) -> None:
        """Make the slow critic a copy of the critic."""
        with torch.no_grad():
            for old, new in zip(self.slow.parameters(), self.critic.parameters(), strict=True):
                old.copy_(new)

    def act(self, feat: Tensor, *, sample: bool = True) -> Tensor:
        """An action for features (…, F): drawn, or the most likely one."""
        stats = self.actor(feat)
        return self.actions.sample(stats) if sample else self.actions.mode(stats)

    def imagine(self, world: World, starts: StartStates, objective: Objective) -> Trajectory:
        players = Players(self.actions, self.actor, self.critic, self.slow)
        through = objective.reinforce < 1
        return imagine(world, players, starts, objective.horizon, through=through)

    def losses(
        self, dream: Trajectory, objective: Objective, reward: Tensor | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """The losses of the actor and of the critic, and what to log.

        `reward` (H, N) is learned from instead of the dream's own, if it is given.
        """
        entropy = self.actions.entropy(dream.stats)  # (H, N)
        reward = dream.reward if reward is None else reward
        if objective.long_term_entropy:
            reward = reward + objective.entropy * self._entropy_there(dream)
        weight = step_weights(dream.discount.detach())
        target = lambda_targets(reward, dream.discount, dream.following, objective.trace)
        fixed = target.detach()
        advantage = fixed - dream.value.detach()
        gain = objective.entropy * entropy
        if rho := objective.reinforce:
            log_prob = self.actions.log_prob(dream.stats, dream.action.detach())
            gain = gain + rho * log_prob * advantage
        if rho < 1:
            gain = gain + (1 - rho) * target
        actor_loss = -(weight * gain).mean()
        critic_loss = 0.5 * (weight * (dream.value - fixed).square()).mean()
        metrics = {"loss/actor": actor_loss.detach(), "loss/critic": critic_loss.detach()}
        with torch.no_grad():
            metrics |= {
                "entropy/actor": entropy.mean(),
                "actor/advantage": advantage.std(correction=0),
                "critic/value": dream.value.mean(),
                "critic/target": fixed.mean(),
            }
            metrics |= _imagined(dream, weight)
            summary = self.actions.summary(dream.stats.detach())
            metrics |= {f"actor/{name}": value for name, value in summary.items()}
        return actor_loss, critic_loss, metrics

    def _entropy_there(self, dream: Trajectory) -> Tensor:
        """The entropy of the actions at each state as a reward for having come there: (H, N).

        Its gradient by the actor is a term of its own in the loss; here, what led there is to
        blame, by way of the dynamics if those are recorded.
        """
        with frozen(self.actor):
            return self.actions.entropy(self.actor(dream.path))


def _imagined(dream: Trajectory, weight: Tensor) -> dict[str, Tensor]:
    """What to log of a dream itself."""
    metrics = {
        "imagined/reward": dream.reward.mean(),
        "imagined/discount": dream.discount.mean(),
        "imagined/weight": weight.mean(),
    }
    if len(weight) > 1:  # two rows know both what a step brings and what both critics say
        metrics["imagined/return"] = (weight * dream.reward)[1:].sum(0).mean()
        metrics["critic/slow_gap"] = (dream.value[1:] - dream.following[:-1]).abs().mean()
    return metrics
