"""Adam with gradient clipping and decoupled weight decay, as in the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from wmtk.runs.training_config import OptimizerConfig
from wmtk.schedules import value


class Optimizer:
    """Adam with gradient clipping, weight decay and a schedule of the learning rate."""

    def __init__(
        self,
        config: OptimizerConfig,
        parameters: Iterable[nn.Parameter],
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        self.config = config
        self.scaler = scaler  # of the loss, for training in float16
        self.parameters: list[Tensor] = list(parameters)
        assert self.parameters, "nothing to optimize"
        # Fused: one pass over memory instead of a dozen.
        fused = all(weight.device.type in ("cpu", "cuda") for weight in self.parameters)
        lr = value(config.lr, 0)
        self.adam = torch.optim.Adam(self.parameters, lr=lr, eps=config.eps, fused=fused)

    @property
    def lr(self) -> float:
        """The learning rate of the last update."""
        return float(self.adam.param_groups[0]["lr"])

    def update(self, loss: Tensor, step: int) -> Tensor:
        """One gradient step; returns the norm of the gradient before clipping.

        If the norm is not finite, the weights stay unchanged.
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
            scaler.step(self.adam)  # skipped if the gradient is not finite
            scaler.update()
        elif finite:
            self.adam.step()
        return norm

    def _eps(self, _: float, beta: float) -> float:
        """The ε of the next update in torch's formula, which adds it to √(v / (1 − β₂ᵗ))."""
        eps = self.config.eps
        if not self.config.eps_before_correction:
            return eps
        # Adam's step count, which is correct after resuming and skipped updates.
        state = next(iter(self.adam.state.values()), {"step": 0})
        t = 1 + int(state["step"])
        return eps / math.sqrt(1 - beta**t)
