"""The loop over time of `RSSM.observe`, with its gradient written out by hand.

Autograd records some forty operations for each time step, which for small networks takes several
times as long as the operations themselves. Here the forward loop records nothing, the backward
loop carries only what time steps hand to each other, and the gradients of the weights are single
products over all steps. Equal to the plain loop, gradients included (tests/models/test_scan.py).

    a  = Wz·z + action       (`action` and `embed` are projected before, for all steps at once)
    h' = GRU(elu(a), h)
    s  = Ws·elu(Wd·h' + embed) + bs
    z' ~ latent(s)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wmtk.models.latents import Latent
from wmtk.models.layers import GRUCell, elu

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
    norm = (cell.norm.weight, cell.norm.bias) if cell.layer_norm else (None, cell.linear.bias)
    outputs: tuple[Tensor, Tensor, Tensor] = _ObserveScan.apply(  # type: ignore[no-untyped-call]
        rssm.latent,
        actions,
        embeds,
        keep,
        deter,
        stoch,
        rssm.from_stoch.weight,
        cell.linear.weight,
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
        norm_weight: Tensor | None,
        cell_bias: Tensor,
        w_deter: Tensor,
        w_stats: Tensor,
        b_stats: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        T, B, U = actions.shape
        D = deter.shape[-1]
        new = actions.new_empty
        # What the backward loop needs. `inputs` holds [elu(a), h before], as the cell takes them.
        inputs, parts = new(T, B, U + D), new(T, B, 3 * D)
        means, rstds = new(T, B, 1), new(T, B, 1)
        gates = new(T, 3, B, D)  # reset, candidate, update: after their activations
        hidden = new(T, B, U)
        deters, stochs = new(T, B, D), new(T, B, latent.size)
        before = new(T, B, latent.size)  # the stochastic states that each step starts from
        stats = new(T, B, latent.stats_size)
        resets = (keep == 0).flatten(1).any(1).tolist()
        w_stoch_t, w_cell_t = w_stoch.t(), w_cell.t()
        w_deter_t, w_stats_t = w_deter.t(), w_stats.t()
        for t in range(T):
            if resets[t]:
                deter, stoch = deter * keep[t], stoch * keep[t]
            before[t] = stoch
            x = inputs[t]
            x[:, :U] = elu(torch.addmm(actions[t], stoch, w_stoch_t))
            x[:, U:] = deter
            torch.mm(x, w_cell_t, out=parts[t])
            if norm_weight is None:
                parts[t] += cell_bias
                normed = parts[t]
            else:
                normed, means[t], rstds[t] = torch.native_layer_norm(
                    parts[t], [3 * D], norm_weight, cell_bias, GRUCell.epsilon
                )
            reset, candidate, update = gates[t]
            torch.sigmoid(normed[:, :D], out=reset)
            torch.tanh(reset * normed[:, D : 2 * D], out=candidate)
            torch.sigmoid(normed[:, 2 * D :] + GRUCell.update_bias, out=update)
            deter = torch.lerp(deter, candidate, update, out=deters[t])
            torch.addmm(embeds[t], deter, w_deter_t, out=hidden[t])
            elu(hidden[t])
            torch.addmm(b_stats, hidden[t], w_stats_t, out=stats[t])
            stoch = stochs[t] = latent.sample(stats[t])
        ctx.latent, ctx.resets = latent, resets
        ctx.save_for_backward(
            inputs, parts, means, rstds, gates, hidden, deters, stochs, before, stats, keep,
            w_stoch, w_cell, norm_weight, cell_bias, w_deter, w_stats,
        )  # fmt: skip
        return deters, stochs, stats

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (
            inputs, parts, means, rstds, gates, hidden, deters, stochs, before, stats, keep,
            w_stoch, w_cell, norm_weight, cell_bias, w_deter, w_stats,
        ) = ctx.saved_tensors  # fmt: skip
        of_deters, of_stochs, of_stats = grads
        T, B, D = deters.shape
        U = hidden.shape[-1]
        latent: Latent = ctx.latent
        new = deters.new_empty
        d_actions, d_hidden, d_stats = new(T, B, U), new(T, B, U), torch.empty_like(stats)
        d_normed, d_parts = new(T, B, 3 * D), new(T, B, 3 * D)
        d_deter, d_stoch = of_deters[-1], of_stochs[-1]
        for t in reversed(range(T)):
            reset, candidate, update = gates[t]
            torch.add(of_stats[t], latent.pull_back(stats[t], stochs[t], d_stoch), out=d_stats[t])
            _elu_backward(d_stats[t] @ w_stats, hidden[t], out=d_hidden[t])
            d_deter = torch.addmm(d_deter, d_hidden[t], w_deter)
            # The gated unit: h' = h + update · (candidate − h)
            h = inputs[t, :, U:]
            d_out = d_normed[t]
            aten.sigmoid_backward(d_deter * (candidate - h), update, grad_input=d_out[:, 2 * D :])
            d_gated = aten.tanh_backward(d_deter * update, candidate)
            torch.mul(d_gated, reset, out=d_out[:, D : 2 * D])
            raw = _candidate(parts[t], means[t], rstds[t], norm_weight, cell_bias, D)
            aten.sigmoid_backward(d_gated * raw, reset, grad_input=d_out[:, :D])
            d_parts[t] = _norm_backward(d_out, parts[t], means[t], rstds[t], norm_weight, cell_bias)
            d_input = d_parts[t] @ w_cell
            d_before = torch.addcmul(d_input[:, U:], d_deter, 1 - update)
            _elu_backward(d_input[:, :U], inputs[t, :, :U], out=d_actions[t])
            if t == 0:
                break
            d_stoch_before = d_actions[t] @ w_stoch
            if ctx.resets[t]:
                d_before, d_stoch_before = d_before * keep[t], d_stoch_before * keep[t]
            d_deter, d_stoch = of_deters[t - 1] + d_before, of_stochs[t - 1] + d_stoch_before
        flat = [x.flatten(0, 1) for x in (d_actions, before, d_parts, inputs, d_hidden, deters)]
        d_actions_, before_, d_parts_, inputs_, d_hidden_, deters_ = flat
        d_stats_ = d_stats.flatten(0, 1)
        if norm_weight is None:
            d_norm, d_cell_bias = None, d_parts_.sum(0)
        else:
            shape = [3 * D]
            _, d_norm, d_cell_bias = aten.native_layer_norm_backward(
                d_normed, parts, shape, means, rstds, norm_weight, cell_bias, [False, True, True]
            )
        return (
            None,
            d_actions,
            d_hidden,
            None,
            None,
            None,
            d_actions_.t() @ before_,
            d_parts_.t() @ inputs_,
            d_norm,
            d_cell_bias,
            d_hidden_.t() @ deters_,
            d_stats_.t() @ hidden.flatten(0, 1),
            d_stats_.sum(0),
        )


def _elu_backward(grad: Tensor, y: Tensor, *, out: Tensor) -> None:
    """The gradient of elu's input, given its output."""
    aten.elu_backward(grad, 1, 1, 1, True, y, grad_input=out)


def _candidate(
    parts: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor, size: int
) -> Tensor:
    """The middle third of the cell's normalised parts, once more."""
    middle = slice(size, 2 * size)
    if weight is None:
        return parts[:, middle]
    return torch.addcmul(bias[middle], (parts[:, middle] - mean) * rstd, weight[middle])


def _norm_backward(
    grad: Tensor, parts: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor
) -> Tensor:
    if weight is None:
        return grad
    of_parts: Tensor = aten.native_layer_norm_backward(
        grad, parts, [parts.shape[-1]], mean, rstd, weight, bias, [True, False, False]
    )[0]
    return of_parts
