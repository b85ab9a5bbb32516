"""Adam as the paper uses it: clipped by global norm, with a decay of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from wmtk.models.schedules import value
from wmtk.runs.training_config import OptimizerConfig


class Optimizer:
    """Takes a loss to an update of the parameters."""

    def __init__(
        self,
        config: OptimizerConfig,
        parameters: Iterable[nn.Parameter],
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        self.config = config
        self.scaler = scaler  # of the loss, for training in float16
        # A list: an iterator would be used up by the first of its several uses.
        self.parameters: list[Tensor] = list(parameters)
        assert self.parameters, "nothing to optimize"
        rate = value(config.lr, 0)
        # Fused: one pass over memory instead of a dozen.
        fused = all(weight.device.type in ("cpu", "cuda") for weight in self.parameters)
        self.adam = torch.optim.Adam(self.parameters, lr=rate, eps=config.eps, fused=fused)

    def update(self, loss: Tensor, step: int) -> Tensor:
        """One update; returns the norm of the gradient before clipping.

        A gradient that is not finite never reaches the weights: the caller sees it by its norm.
        """
        self.adam.zero_grad(set_to_none=True)
        scaler = self.scaler
        scaled = loss if scaler is None else scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]
        if scaler is not None:
            scaler.unscale_(self.adam)
        gradients = [weight.grad for weight in self.parameters if weight.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        for group in self.adam.param_groups:
            group["lr"], group["eps"] = self.config.lr_at(step), self._eps(*group["betas"])
        finite = bool(torch.isfinite(norm))
        if finite:
            nn.utils.clip_grads_with_norm_(self.parameters, self.config.clip, norm)
            with torch.no_grad():
                torch._foreach_mul_(self.parameters, 1 - self.config.weight_decay)
        if scaler is not None:
            scaler.step(self.adam)  # or not, after which it scales less
            scaler.update()
        elif finite:
            self.adam.step()
        return norm

    def _eps(self, _: float, beta: float) -> float:
        """The ε of the next update in torch's formula, which adds it to √(v / (1 − β₂ᵗ))."""
        eps = self.config.eps
        if not self.config.eps_before_correction:
            return eps
        # Counted by Adam itself, so that resuming and skipped updates change nothing.
        state = next(iter(self.adam.state.values()), {"step": 0})
        t = 1 + int(state["step"])
        return eps / math.sqrt(1 - beta**t)
