"""Imagined steps: an actor plays inside of a world model.

Time first here, (H, N, …), unlike elsewhere: a step, and all steps but one, are then contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from wmtk.models.actions import Actions
from wmtk.models.distributions import Categorical
from wmtk.models.kernels.elu import elu
from wmtk.models.kernels.onehot_mlp import (
    GatheredLinear,
    GatheredMLP,
    draw_rows,
    first_rows,
    one_hot_rows,
    with_gradient,
)
from wmtk.models.networks import MLP
from wmtk.models.rssm import State
from wmtk.models.world_model import WorldModel
from wmtk.reprs import brief_repr

_PIECE = 4096  # states that heads judge at a time


class StartStates(NamedTuple):
    """N states to imagine from, and their true discounts: γ, or 0 where an episode ended."""

    state: State  # (N, …)
    discount: Tensor  # (N,)

    def __repr__(self) -> str:
        return brief_repr(self)


class Trajectory(NamedTuple):
    """H imagined steps from N starts; wmtk.models.returns shows what belongs to which state."""

    feat: Tensor  # (H+1, N, F), without gradient
    action: Tensor  # (H, N, A)
    stats: Tensor  # (H, N, …) the actor's outputs that the actions were drawn from
    reward: Tensor  # (H, N) of states 0 … H−1
    discount: Tensor  # (H, N) of states 0 … H−1
    value: Tensor  # (H, N) the critic at states 0 … H−1
    following: Tensor  # (H, N) the slow critic at states 1 … H
    path: Tensor  # (H, N, F) states 0 … H−1; with `through`, differentiable in the actions

    def __repr__(self) -> str:
        return brief_repr(self)


class Players(NamedTuple):
    """Who acts in imagination, and who judges."""

    actions: Actions
    actor: MLP
    critic: MLP
    slow: MLP


class Dynamics(Protocol):
    def imagine_step(self, state: State, action: Tensor) -> State: ...


class World(Protocol):
    """What imagination needs of a world model."""

    @property
    def rssm(self) -> Dynamics: ...

    def reward(self, feat: Tensor) -> Tensor: ...

    def discount(self, feat: Tensor) -> Tensor: ...


def imagine(
    world: World, players: Players, starts: StartStates, horizon: int, *, through: bool
) -> Trajectory:
    """Play `horizon` steps from each start.

    `stats` is differentiable in the actor and `value` in the critic, both with the states taken
    as given. With `through`, the actions are differentiable in the actor, and rewards, discounts
    and following values in the actions, by way of the dynamics. The weights of the world never
    get a gradient.
    """
    if through:
        with frozen(world):
            return _imagine(world, players, starts, horizon, through=True)
    on_cpu = starts.discount.device.type == "cpu"  # elsewhere, products are cheaper than steps
    if on_cpu and isinstance(world, WorldModel) and isinstance(world.rssm.latent, Categorical):
        return _imagine_gathered(world, world.rssm.latent, players, starts, horizon)
    return _imagine(world, players, starts, horizon, through=False)


@contextmanager
def frozen(world: object) -> Iterator[None]:
    """Within, the weights of a world are constants of whatever is computed with them."""
    weights = list(world.parameters()) if isinstance(world, nn.Module) else []
    learned = [weight for weight in weights if weight.requires_grad]
    for weight in learned:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in learned:
            weight.requires_grad_(True)


def _imagine(
    world: World, players: Players, starts: StartStates, horizon: int, *, through: bool
) -> Trajectory:
    """In plain steps, for any world."""
    actions, actor, critic, slow = players
    state = starts.state
    feats, chosen, outputs = [state.feat], [], []
    with torch.set_grad_enabled(through):
        for _ in range(horizon):
            # The actor sees states as they are; it is not to change them by looking.
            outputs.append(actor(feats[-1].detach()))
            chosen.append(actions.sample(outputs[-1]))
            state = world.rssm.imagine_step(state, chosen[-1])
            feats.append(state.feat)
        # Two stacks rather than two slices of one: the gradient of a slice is padded with zeros.
        visited, reached = torch.stack(feats[:-1]), torch.stack(feats[1:])  # (H, N, F)
        reward, discount = world.reward(visited), world.discount(visited)
        following = slow(reached).squeeze(-1)
    seen = visited.detach()
    return Trajectory(
        feat=torch.cat([seen, feats[-1].detach()[None]]),
        action=torch.stack(chosen),
        stats=torch.stack(outputs) if through else actor(seen),
        reward=reward,
        discount=torch.cat([starts.discount[None], discount[1:]]),
        value=critic(seen).squeeze(-1),
        following=following,
        path=visited,
    )


def _imagine_gathered(
    model: WorldModel, latent: Categorical, players: Players, starts: StartStates, horizon: int
) -> Trajectory:
    """The same for one-hot states and without a graph through the dynamics, several times faster.

    One-hot states are multiplied by gathering, the actor's outputs are those of the rollout, and
    all heads see all states at once.
    """
    H, N, D = horizon, len(starts.discount), model.rssm.config.deter
    with torch.no_grad():
        feat, rows, action, outputs = _roll_out(model, latent, players, starts, horizon)
        deter, rows = feat[..., :D].flatten(0, 1), rows.flatten(0, 1)  # (H+1 · N, …)

        def judge(mlp: MLP, begin: int, end: int) -> Tensor:
            """What a perceptron makes of states `begin` up to `end`."""
            part = slice(begin * N, end * N)
            return _judge(mlp, latent, deter[part], rows[part])[-1].view(end - begin, N)

        reward, following = judge(model.reward_head, 0, H), judge(players.slow, 1, H + 1)
        values = _judge(players.critic, latent, deter[:-N], rows[:-N], keep=True)
        discount = starts.discount.new_full((H, N), model.config.discount)
        if model.discount_head is not None and H > 1:
            discount[1:] = torch.sigmoid(judge(model.discount_head, 1, H))
        discount[0] = starts.discount
    seen = feat[:-1].flatten(0, 1)
    stats = with_gradient(players.actor, seen, outputs)
    value = with_gradient(players.critic, seen, values)
    return Trajectory(
        feat=feat,
        action=action,
        stats=stats.view(H, N, -1),
        reward=reward,
        discount=discount,
        value=value.view(H, N),
        following=following,
        path=feat[:-1],
    )


def _judge(
    mlp: MLP, latent: Categorical, deter: Tensor, rows: Tensor, *, keep: bool = False
) -> list[Tensor]:
    """What a perceptron makes of states: deter (M, D), rows (M, S) → (M, …) of each layer.

    A piece after the other, since what stays in the cache is faster; `keep` the hidden layers of
    all of them, or only of the last piece.
    """
    M, D = deter.shape
    gathered = GatheredMLP(mlp, D)
    layer = GatheredLinear([gathered.of_stoch], [gathered.bias], latent.classes)
    hidden = gathered.room(M if keep else min(_PIECE, M))[:-1]
    out = deter.new_empty(M, mlp.out.out_features)
    for start in range(0, M, _PIECE):
        piece = slice(start, min(start + _PIECE, M))
        within = piece if keep else slice(piece.stop - start)
        room = [*(x[within] for x in hidden), out[piece]]
        (of_stoch,) = layer(rows[piece])
        gathered(deter[piece], of_stoch, room)
    return [*hidden, out]


def _roll_out(
    model: WorldModel, latent: Categorical, players: Players, starts: StartStates, horizon: int
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """feat (H+1, N, F), rows (H+1, N, S), action (H, N, A), the actor's layers (H·N, …) each."""
    rssm, D = model.rssm, model.rssm.config.deter
    N = len(starts.discount)
    actor, to_cell = GatheredMLP(players.actor, D), rssm.from_action
    both = [rssm.from_stoch.weight, actor.of_stoch], [to_cell.bias, actor.bias]
    layer, of_action = GatheredLinear(*both, latent.classes), to_cell.weight.t()
    feat = starts.state.deter.new_zeros(horizon + 1, N, rssm.feat_size)
    deter, rows = starts.state.deter, one_hot_rows(latent, starts.state.stoch)
    firsts = first_rows(latent, rows.device)
    all_rows, all_actions = [rows], []
    outputs = actor.room(horizon, N)
    feat[0, :, :D] = deter
    for t in range(horizon):
        projected, seen = layer(rows)
        action = players.actions.sample(actor(deter, seen, [x[t] for x in outputs]))
        deter = rssm.cell(elu(torch.addmm(projected, action, of_action)), deter)
        rows = draw_rows(latent, rssm.prior(deter), firsts)
        feat[t + 1, :, :D] = deter
        all_rows.append(rows)
        all_actions.append(action)
    stacked = torch.stack(all_rows)
    feat[..., D:].scatter_(-1, stacked, 1.0)
    return feat, stacked, torch.stack(all_actions), [x.flatten(0, 1) for x in outputs]
