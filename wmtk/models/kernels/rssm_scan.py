"""The loop over time of `RSSM.observe`, with an explicit gradient.

Autograd records some forty operations for each time step, which for small networks takes several
times as long as the operations themselves. Here the forward loop records nothing, the backward
loop computes only the gradients that flow between time steps, and the gradients of the weights are
single products over all steps. The plain definition is the loop in `RSSM.observe`.

    a  = Wz·z + action       (`action` and `embed` are projected before, for all steps at once)
    h' = GRU(elu(a), h)      (gates of LayerNorm(Wc·[elu(a), h] + bc))
    p  = Ws·elu(Wd·h' + embed) + bs
    z' ~ latent(p)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wmtk.models.distributions import MIN_STD, Binary, Categorical, Gaussian, Latent
from wmtk.models.kernels.elu import elu_
from wmtk.models.kernels.matmul import outer, product, product_plus
from wmtk.models.kernels.straight_through import softmax_gradient
from wmtk.models.networks import GRUCell

if TYPE_CHECKING:
    from wmtk.models.rssm import RSSM

aten = torch.ops.aten


def applies(latent: Latent, embeds: Tensor, deter: Tensor) -> bool:
    """Whether the scan computes all required gradients; it has none for the first state."""
    return (
        type(latent) in _SLOPES
        and embeds.requires_grad
        and not deter.requires_grad
        and not torch.is_autocast_enabled(embeds.device.type)
        and not torch.compiler.is_compiling()
    )


def observe_scan(
    rssm: RSSM, actions: Tensor, embeds: Tensor, keep: Tensor, deter: Tensor, stoch: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Projected actions and embeddings (T, B, U), keep (T, B, 1) → deter, stoch, dist_params.

    Each (T, B, …). The first state is a constant: it gets no gradient.
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


# --- gradients of samples ---------------------------------------------------------------------


def sample_slope(latent: Latent, dist_params: Tensor, sample: Tensor) -> Tensor:
    """The derivative of a sample by its parameters, in the form that `pull_back` takes."""
    return _SLOPES[type(latent)](latent, dist_params, sample)


def pull_back(latent: Latent, slope: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the parameters, given that of a sample."""
    if isinstance(latent, Categorical):
        return softmax_gradient(slope, latent.per_variable(grad)).reshape(grad.shape)
    if isinstance(latent, Binary):
        return grad * slope
    return torch.cat([grad, grad * slope], -1)


def _categorical_slope(latent: Categorical, logits: Tensor, sample: Tensor) -> Tensor:
    return torch.softmax(latent.per_variable(logits), -1)


def _binary_slope(latent: Binary, logits: Tensor, sample: Tensor) -> Tensor:
    probs = torch.sigmoid(logits)
    return probs * (1 - probs)


def _gaussian_slope(latent: Gaussian, dist_params: Tensor, sample: Tensor) -> Tensor:
    mean, std = latent.moments(dist_params)
    noise = (sample - mean) / std
    # std = 2·sigmoid(raw/2) + 0.1, whose derivative is sigmoid·(1 − sigmoid)
    share = (std - MIN_STD) / 2
    return noise * share * (1 - share)


# Subclasses may sample differently, so they use the plain loop.
_SLOPES: dict[type, Callable[[Any, Tensor, Tensor], Tensor]] = {
    Categorical: _categorical_slope,
    Binary: _binary_slope,
    Gaussian: _gaussian_slope,
}


# --- the loop ---------------------------------------------------------------------------------


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
        w_params: Tensor,
        b_params: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        T, B, U = actions.shape
        D = deter.shape[-1]
        new = actions.new_empty
        # Saved for the backward loop. `inputs` is [elu(a), h], the input of the cell.
        inputs, parts = new(T, B, U + D), new(T, B, 3 * D)
        normed = parts if norm_weight is None else new(T, B, 3 * D)
        moments = new(2, T, B, 1)
        gates = new(3, T, B, D)  # reset, candidate, update, after their activations
        hidden, deters = new(T, B, U), new(T, B, D)
        params = new(T, B, latent.params_size)
        noise = [latent.noise(row) for row in params]
        resets = (keep == 0).flatten(1).any(1).tolist()
        w_stoch_t, w_cell_t = w_stoch.t(), w_cell.t()
        w_deter_t, w_params_t = w_deter.t(), w_params.t()
        starts, stochs = [], []  # the stochastic states before and after each step
        for t, row in enumerate(
            _rows(actions, embeds, inputs, parts, normed, hidden, deters, params)
        ):
            action, embed, x, part, norm, hid, next_deter, param = row
            if resets[t]:
                deter, stoch = deter * keep[t], stoch * keep[t]
            starts.append(stoch)
            torch.cat([elu_(product_plus(action, stoch, w_stoch_t)), deter], -1, out=x)
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
            deter = torch.lerp(deter, candidate, update, out=next_deter)
            product_plus(embed, deter, w_deter_t, out=hid)
            product_plus(b_params, elu_(hid), w_params_t, out=param)
            stoch = latent.draw(param, noise[t])
            stochs.append(stoch)
        sampled, previous = torch.stack(stochs), torch.stack(starts)
        ctx.latent, ctx.resets = latent, resets
        ctx.save_for_backward(
            inputs, parts, normed, moments, gates, hidden, deters, sampled, previous, params, keep,
            w_stoch, w_cell, norm_weight, norm_bias, w_deter, w_params,
        )  # fmt: skip
        return deters, sampled, params

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (
            inputs, parts, normed, moments, gates, hidden, deters, sampled, previous, params, keep,
            w_stoch, w_cell, norm_weight, norm_bias, w_deter, w_params,
        ) = ctx.saved_tensors  # fmt: skip
        g_deters, g_stochs, g_params = grads
        T, _, D = deters.shape
        U = hidden.shape[-1]
        latent: Latent = ctx.latent
        # Derivatives that do not depend on later steps, for all steps at once.
        reset, candidate, update = gates
        stay = 1 - update
        of_candidate = update * (1 - candidate * candidate)
        of_update = (candidate - inputs[..., U:]) * update * stay
        of_reset = of_candidate * normed[..., D : 2 * D] * reset * (1 - reset)
        of_parts = torch.stack([of_reset, of_candidate * reset, of_update], 2)  # (T, B, 3, D)
        of_action, of_hidden = _elu_slope(inputs[..., :U]), _elu_slope(hidden)
        slope = sample_slope(latent, params, sampled)
        # Outputs of the loop.
        d_actions, d_hidden = torch.empty_like(of_action), torch.empty_like(hidden)
        d_params, d_normed = torch.empty_like(params), torch.empty_like(of_parts)
        d_parts = d_normed.flatten(2) if norm_weight is None else torch.empty_like(parts)
        d_deter, d_stoch = g_deters[-1], g_stochs[-1]
        rows = _rows(
            g_params, slope, of_hidden, of_parts, parts, *moments, stay, of_action,
            d_params, d_hidden, d_normed, d_parts, d_actions,
        )  # fmt: skip
        for t, row in zip(range(T - 1, -1, -1), reversed(list(rows)), strict=True):
            g_param, slope_t, of_hid, of_part, part, mean, rstd, stays, of_act = row[:9]
            d_param, d_hid, d_norm, d_part, d_action = row[9:]
            torch.add(g_param, pull_back(latent, slope_t, d_stoch), out=d_param)
            torch.mul(product(d_param, w_params), of_hid, out=d_hid)
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
                d_deter, d_stoch = g_deters[t - 1] + d_before, g_stochs[t - 1] + d_stoch
        d_scale = d_bias = None
        if norm_weight is not None:
            _, d_scale, d_bias = aten.native_layer_norm_backward(
                d_normed.flatten(2), parts, [3 * D], *moments, norm_weight, norm_bias,
                [False, True, True],
            )  # fmt: skip
        return (
            None, d_actions, d_hidden, None, None, None,
            _product(d_actions, previous), _product(d_parts, inputs), d_parts.sum((0, 1)),
            d_scale, d_bias, _product(d_hidden, deters), _product(d_params, hidden),
            d_params.sum((0, 1)),
        )  # fmt: skip


def _rows(*sequences: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The time steps of sequences (T, …), as views."""
    return zip(*(sequence.unbind(0) for sequence in sequences), strict=True)


def _elu_slope(y: Tensor) -> Tensor:
    """The derivative of elu at x, given y = elu(x)."""
    return y.clamp(max=0).add_(1)


def _product(grads: Tensor, inputs: Tensor) -> Tensor:
    """The gradient of a weight (O, I), from grads (T, B, O) and inputs (T, B, I)."""
    return outer(grads.flatten(0, 1), inputs.flatten(0, 1))
