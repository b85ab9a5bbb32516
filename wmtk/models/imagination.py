"""Imagination: rollouts of an actor in a world model, without observations."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from wmtk.models.actor_critic import ActorCritic
from wmtk.models.kernels import enabled, onehot_rollout
from wmtk.models.networks import frozen
from wmtk.models.rssm import State
from wmtk.models.world_model import WorldModel
from wmtk.reprs import brief_repr


class StartStates(NamedTuple):
    """N states to imagine from, and their true discounts: γ, or 0 for terminal states."""

    state: State  # (N, …)
    discount: Tensor  # (N,)


class Trajectory(NamedTuple):
    """H imagined steps from N start states; wmtk.models.returns shows their alignment.

    In memory time comes first, so that all states of one step are contiguous.
    """

    feat: Tensor  # (N, H+1, F), without gradient
    action: Tensor  # (N, H, A)
    dist_params: Tensor  # (N, H, …) the actor's outputs that the actions were sampled from
    reward: Tensor  # (N, H) of states 0 … H−1
    discount: Tensor  # (N, H) of states 0 … H−1
    value: Tensor  # (N, H) the critic at states 0 … H−1
    next_value: Tensor  # (N, H) the target critic at states 1 … H
    grad_feat: Tensor  # (N, H, F) states 0 … H−1, differentiable with `backprop_dynamics`

    def __repr__(self) -> str:
        return brief_repr(self)


def imagine(
    model: WorldModel,
    actor_critic: ActorCritic,
    start_states: StartStates,
    horizon: int,
    *,
    backprop_dynamics: bool,
) -> Trajectory:
    """Act for `horizon` steps from each start state.

    `dist_params` is differentiable in the actor and `value` in the critic, with the states as
    constants. With `backprop_dynamics`, actions are differentiable in the actor, and rewards,
    discounts and next values in the actions, through the dynamics. The world model's weights get no
    gradient.
    """
    # Gathering rows of weights is faster than dense products on the CPU only.
    pays = start_states.discount.device.type == "cpu"
    applies = not backprop_dynamics and onehot_rollout.applies(model, actor_critic)
    if enabled(applies, pays):
        fields = onehot_rollout.imagine(model, actor_critic, *start_states, horizon)
        return Trajectory(*(x.transpose(0, 1) for x in fields))
    state = start_states.state
    feats, actions, outputs = [state.feat], [], []
    with frozen(model), torch.set_grad_enabled(backprop_dynamics):
        for _ in range(horizon):
            # States are constant inputs of the actor: its gradient does not flow through them.
            outputs.append(actor_critic.actor(feats[-1].detach()))
            actions.append(actor_critic.actions.sample(outputs[-1]))
            state = model.rssm.imagine_step(state, actions[-1])
            feats.append(state.feat)
        # Two stacks rather than two slices of one: the gradient of a slice is padded with zeros.
        before, after = torch.stack(feats[:-1]), torch.stack(feats[1:])  # (H, N, F)
        reward, discount = model.reward(before), model.discount(before)
        next_value = actor_critic.target_critic(after).squeeze(-1)
    feat = before.detach()
    fields = Trajectory(
        feat=torch.cat([feat, feats[-1].detach()[None]]),
        action=torch.stack(actions),
        dist_params=torch.stack(outputs) if backprop_dynamics else actor_critic.actor(feat),
        reward=reward,
        discount=torch.cat([start_states.discount[None], discount[1:]]),
        value=actor_critic.critic(feat).squeeze(-1),
        next_value=next_value,
        grad_feat=before,
    )
    return Trajectory(*(x.transpose(0, 1) for x in fields))
