"""The loop over time of `RSSM.observe`, with its gradient written out by hand.

Autograd records some forty operations for each time step, which for small networks takes several
times as long as the operations themselves. Here the forward loop records nothing, the backward
loop carries only what time steps hand to each other, and the gradients of the weights are single
products over all steps. Equal to the plain loop, gradients included (tests/models/test_scan.py).

    a  = Wz·z + action       (`action` and `embed` are projected before, for all steps at once)
    h' = GRU(elu(a), h)      (gates of LayerNorm(Wc·[elu(a), h] + bc))
    s  = Ws·elu(Wd·h' + embed) + bs
    z' ~ latent(s)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wmtk.models.distributions import Latent
from wmtk.models.kernels.elu import elu
from wmtk.models.kernels.matmul import outer, product, product_plus
from wmtk.models.networks import GRUCell

if TYPE_CHECKING:
    from wmtk.models.rssm import RSSM

aten = torch.ops.aten


def observe_scan(
    rssm: RSSM, actions: Tensor, embeds: Tensor, keep: Tensor, deter: Tensor, stoch: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Projected actions and embeddings (T, B, U), keep (T, B, 1) → deter, stoch, stats (T, B, …).

    The first state is a constant: no gradient goes back to it.
    """
    cell = rssm.cell
    norm = (cell.norm.weight, cell.norm.bias) if cell.layer_norm else (None, None)
    outputs: tuple[Tensor, Tensor, Tensor] = _ObserveScan.apply(  # type: ignore[no-untyped-call]
        rssm.latent,
        actions,
        embeds,
        keep,
        deter,
        stoch,
        rssm.from_stoch.weight,
        cell.linear.weight,
        cell.linear.bias,
        *norm,
        rssm.post_from_deter.weight,
        rssm.post_stats.weight,
        rssm.post_stats.bias,
    )
    return outputs


class _ObserveScan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        latent: Latent,
        actions: Tensor,
        embeds: Tensor,
        keep: Tensor,
        deter: Tensor,
        stoch: Tensor,
        w_stoch: Tensor,
        w_cell: Tensor,
        b_cell: Tensor,
        norm_weight: Tensor | None,
        norm_bias: Tensor | None,
        w_deter: Tensor,
        w_stats: Tensor,
        b_stats: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        T, B, U = actions.shape
        D = deter.shape[-1]
        new = actions.new_empty
        # What the backward loop needs. `inputs` holds [elu(a), h before], as the cell takes them.
        inputs, parts = new(T, B, U + D), new(T, B, 3 * D)
        normed = parts if norm_weight is None else new(T, B, 3 * D)
        moments = new(2, T, B, 1)
        gates = new(3, T, B, D)  # reset, candidate, update: after their activations
        hidden, deters = new(T, B, U), new(T, B, D)
        stats = new(T, B, latent.stats_size)
        noise = [latent.noise(row) for row in stats]
        resets = (keep == 0).flatten(1).any(1).tolist()
        w_stoch_t, w_cell_t = w_stoch.t(), w_cell.t()
        w_deter_t, w_stats_t = w_deter.t(), w_stats.t()
        before, stochs = [], []  # the stochastic states that steps start from and lead to
        for t, row in enumerate(
            _rows(actions, embeds, inputs, parts, normed, hidden, deters, stats)
        ):
            action, embed, x, part, norm, hid, following, stat = row
            if resets[t]:
                deter, stoch = deter * keep[t], stoch * keep[t]
            before.append(stoch)
            torch.cat([elu(product_plus(action, stoch, w_stoch_t)), deter], -1, out=x)
            product_plus(b_cell, x, w_cell_t, out=part)
            if norm_weight is not None:
                mean, rstd = moments[:, t]
                aten.native_layer_norm(
                    part, [3 * D], norm_weight, norm_bias, GRUCell.epsilon,
                    out0=norm, out1=mean, out2=rstd,
                )  # fmt: skip
            reset, candidate, update = gates[:, t]
            r, c, u = norm.chunk(3, -1)
            torch.sigmoid(r, out=reset)
            torch.tanh(reset * c, out=candidate)
            torch.sigmoid(u + GRUCell.update_bias, out=update)
            deter = torch.lerp(deter, candidate, update, out=following)
            product_plus(embed, deter, w_deter_t, out=hid)
            product_plus(b_stats, elu(hid), w_stats_t, out=stat)
            stoch = latent.draw(stat, noise[t])
            stochs.append(stoch)
        drawn, started = torch.stack(stochs), torch.stack(before)
        ctx.latent, ctx.resets = latent, resets
        ctx.save_for_backward(
            inputs, parts, normed, moments, gates, hidden, deters, drawn, started, stats, keep,
            w_stoch, w_cell, norm_weight, norm_bias, w_deter, w_stats,
        )  # fmt: skip
        return deters, drawn, stats

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (
            inputs, parts, normed, moments, gates, hidden, deters, drawn, started, stats, keep,
            w_stoch, w_cell, norm_weight, norm_bias, w_deter, w_stats,
        ) = ctx.saved_tensors  # fmt: skip
        of_deters, of_stochs, of_stats = grads
        T, _, D = deters.shape
        U = hidden.shape[-1]
        latent: Latent = ctx.latent
        # All derivatives that do not depend on later steps, for all steps at once.
        reset, candidate, update = gates
        stay = 1 - update
        of_candidate = update * (1 - candidate * candidate)
        of_update = (candidate - inputs[..., U:]) * update * stay
        of_reset = of_candidate * normed[..., D : 2 * D] * reset * (1 - reset)
        of_parts = torch.stack([of_reset, of_candidate * reset, of_update], 2)  # (T, B, 3, D)
        of_action, of_hidden = _elu_slope(inputs[..., :U]), _elu_slope(hidden)
        slope = latent.slope(stats, drawn)
        # What the loop fills in.
        d_actions, d_hidden = torch.empty_like(of_action), torch.empty_like(hidden)
        d_stats, d_normed = torch.empty_like(stats), torch.empty_like(of_parts)
        d_parts = d_normed.flatten(2) if norm_weight is None else torch.empty_like(parts)
        d_deter, d_stoch = of_deters[-1], of_stochs[-1]
        rows = _rows(
            of_stats, slope, of_hidden, of_parts, parts, *moments, stay, of_action,
            d_stats, d_hidden, d_normed, d_parts, d_actions,
        )  # fmt: skip
        for t, row in zip(range(T - 1, -1, -1), reversed(list(rows)), strict=True):
            of_stat, slop, of_hid, of_part, part, mean, rstd, stays, of_act = row[:9]
            d_stat, d_hid, d_norm, d_part, d_action = row[9:]
            torch.add(of_stat, latent.pull_back(slop, d_stoch), out=d_stat)
            torch.mul(product(d_stat, w_stats), of_hid, out=d_hid)
            d_deter = product_plus(d_deter, d_hid, w_deter)
            torch.mul(of_part, d_deter.unsqueeze(1), out=d_norm)
            if norm_weight is not None:
                d_part[:] = aten.native_layer_norm_backward(
                    d_norm.flatten(1), part, [3 * D], mean, rstd, norm_weight, norm_bias,
                    [True, False, False],
                )[0]  # fmt: skip
            d_input = product(d_part, w_cell)
            torch.mul(d_input[:, :U], of_act, out=d_action)
            if t > 0:
                d_before = torch.addcmul(d_input[:, U:], d_deter, stays)
                d_stoch = product(d_action, w_stoch)
                if ctx.resets[t]:
                    d_before, d_stoch = d_before * keep[t], d_stoch * keep[t]
                d_deter, d_stoch = of_deters[t - 1] + d_before, of_stochs[t - 1] + d_stoch
        d_scale = d_bias = None
        if norm_weight is not None:
            _, d_scale, d_bias = aten.native_layer_norm_backward(
                d_normed.flatten(2), parts, [3 * D], *moments, norm_weight, norm_bias,
                [False, True, True],
            )  # fmt: skip
        return (
            None, d_actions, d_hidden, None, None, None,
            _product(d_actions, started), _product(d_parts, inputs), d_parts.sum((0, 1)),
            d_scale, d_bias, _product(d_hidden, deters), _product(d_stats, hidden),
            d_stats.sum((0, 1)),
        )  # fmt: skip


def _rows(*sequences: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The time steps of sequences (T, …), as views made once instead of one by one."""
    return zip(*(sequence.unbind(0) for sequence in sequences), strict=True)


def _elu_slope(y: Tensor) -> Tensor:
    """The derivative of elu, given what came out of it."""
    return y.clamp(max=0).add_(1)


def _product(grads: Tensor, inputs: Tensor) -> Tensor:
    """The gradient of a weight: outputs (T, B, O) and inputs (T, B, I) → (O, I)."""
    return outer(grads.flatten(0, 1), inputs.flatten(0, 1))
