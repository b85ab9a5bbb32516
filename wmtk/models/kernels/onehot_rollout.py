"""Imagined steps of one-hot states, without a graph through the dynamics: several times faster.

Products with one-hot states are sums of gathered rows, the actor's outputs are computed once, in
the rollout, and each head evaluates all states at once. The plain definition is
`imagination.imagine`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wmtk.models.actor_critic import ActorCritic
from wmtk.models.distributions import Categorical
from wmtk.models.kernels.elu import elu_
from wmtk.models.kernels.onehot_mlp import (
    GatheredLinear,
    GatheredMLP,
    draw_rows,
    first_rows,
    one_hot_rows,
    with_gradient,
)
from wmtk.models.networks import MLP
from wmtk.models.rssm import RSSM, State
from wmtk.models.world_model import WorldModel

_CHUNK = 4096  # states per evaluation of a head, which stay in the cache


def applies(model: WorldModel, actor_critic: ActorCritic) -> bool:
    """Whether latents are one-hot and all parts are the standard ones, not subclasses."""
    networks = actor_critic.actor, actor_critic.critic, actor_critic.target_critic
    return (
        isinstance(model, WorldModel)
        and type(model.rssm) is RSSM
        and type(model.rssm.latent) is Categorical
        and type(model).reward is WorldModel.reward
        and type(model).discount is WorldModel.discount
        and type(model.reward_head) is MLP
        and type(model.discount_head) in (MLP, type(None))
        and all(type(network) is MLP for network in networks)
    )


def imagine(
    model: WorldModel, actor_critic: ActorCritic, start: State, discount: Tensor, horizon: int
) -> tuple[Tensor, ...]:
    """The fields of `imagination.Trajectory`, time first, from N states and their discounts."""
    H, N, D = horizon, len(discount), model.rssm.config.deter
    latent = model.rssm.latent
    assert isinstance(latent, Categorical), latent
    heads = model.reward_head, model.discount_head
    reward_head, discount_head = (head if isinstance(head, MLP) else None for head in heads)
    assert reward_head is not None
    with torch.no_grad():
        feat, rows, action, outputs = _roll_out(model, latent, actor_critic, start, H)
        deter, rows = feat[..., :D].flatten(0, 1), rows.flatten(0, 1)  # (H+1 · N, …)

        def evaluate(head: MLP, first: int, last: int) -> Tensor:
            """Outputs of a head at states `first` … `last` − 1: (last − first, N)."""
            part = slice(first * N, last * N)
            return evaluate_head(head, latent, deter[part], rows[part])[-1].view(last - first, N)

        reward = evaluate(reward_head, 0, H)
        next_value = evaluate(actor_critic.target_critic, 1, H + 1)
        values = evaluate_head(actor_critic.critic, latent, deter[:-N], rows[:-N], keep=True)
        discounts = discount.new_full((H, N), model.config.discount)
        if discount_head is not None and H > 1:
            discounts[1:] = torch.sigmoid(evaluate(discount_head, 1, H))
        discounts[0] = discount
    before = feat[:-1].flatten(0, 1)
    dist_params = with_gradient(actor_critic.actor, before, outputs).view(H, N, -1)
    value = with_gradient(actor_critic.critic, before, values).view(H, N)
    return feat, action, dist_params, reward, discounts, value, next_value, feat[:-1]


def evaluate_head(
    mlp: MLP, latent: Categorical, deter: Tensor, rows: Tensor, *, keep: bool = False
) -> list[Tensor]:
    """The outputs of each layer: deter (M, D), rows (M, S) → (M, …) each.

    States are evaluated in chunks. Outputs of hidden layers are those of all states with `keep`,
    else those of the last chunk.
    """
    M, D = deter.shape
    gathered = GatheredMLP(mlp, D)
    layer = GatheredLinear([gathered.of_stoch], [gathered.bias], latent.classes[0])
    hidden = gathered.buffers(M if keep else min(_CHUNK, M))[:-1]
    out = deter.new_empty(M, mlp.out.out_features)
    for start in range(0, M, _CHUNK):
        chunk = slice(start, min(start + _CHUNK, M))
        within = chunk if keep else slice(chunk.stop - start)
        (of_stoch,) = layer(rows[chunk])
        gathered(deter[chunk], of_stoch, [*(x[within] for x in hidden), out[chunk]])
    return [*hidden, out]


def _roll_out(
    model: WorldModel, latent: Categorical, actor_critic: ActorCritic, start: State, horizon: int
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """feat (H+1, N, F), rows (H+1, N, S), action (H, N, A), the actor's layers (H·N, …) each."""
    rssm, D = model.rssm, model.rssm.config.deter
    N = len(start.deter)
    actor, to_cell = GatheredMLP(actor_critic.actor, D), rssm.from_action
    weights, biases = [rssm.from_stoch.weight, actor.of_stoch], [to_cell.bias, actor.bias]
    layer, of_action = GatheredLinear(weights, biases, latent.classes[0]), to_cell.weight.t()
    feat = start.deter.new_zeros(horizon + 1, N, rssm.feat_size)
    deter, rows = start.deter, one_hot_rows(latent, start.stoch)
    firsts = first_rows(latent, rows.device)
    all_rows, all_actions = [rows], []
    outputs = actor.buffers(horizon, N)
    feat[0, :, :D] = deter
    for t in range(horizon):
        projected, gathered = layer(rows)
        action = actor_critic.actions.sample(actor(deter, gathered, [x[t] for x in outputs]))
        deter = rssm.cell(elu_(torch.addmm(projected, action, of_action)), deter)
        rows = draw_rows(latent, rssm.prior(deter), firsts)
        feat[t + 1, :, :D] = deter
        all_rows.append(rows)
        all_actions.append(action)
    stacked = torch.stack(all_rows)
    feat[..., D:].scatter_(-1, stacked, 1.0)
    return feat, stacked, torch.stack(all_actions), [x.flatten(0, 1) for x in outputs]
