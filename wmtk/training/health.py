"""What stops a training: numbers that are not finite, and losses that jump."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median

import torch
from torch import Tensor, nn

from wmtk.errors import DivergedError

SPIKE = 50.0  # times the usual loss
LEAST = 1.0  # nats; what is usual is never taken for less
USUAL = 100  # updates that "usual" is the median of
HINT = "Look for odd values in the data, or lower optimizer.lr."


def require_finite(
    step: int, metrics: Mapping[str, Tensor], batch: Mapping[str, Tensor], module: nn.Module
) -> None:
    """Stop before numbers that make no sense reach the weights, and say where they come from."""
    if torch.isfinite(torch.stack(list(metrics.values()))).all():
        return
    name = next(name for name, value in metrics.items() if not torch.isfinite(value))
    cause = _first_not_finite(batch, module)
    raise DivergedError(f"Update {step}: {name} is {metrics[name].item()}. {cause}", HINT)


def _first_not_finite(batch: Mapping[str, Tensor], module: nn.Module) -> str:
    """Which tensor is the first that is not finite: of the batch, the weights, the gradient."""
    for name, rows in batch.items():  # each (B, T, …)
        wrong = ~torch.isfinite(rows)
        if wrong.any():
            window, row, *_ = wrong.nonzero()[0].tolist()
            return f"The batch's {name} is not finite in row {row} of window {window}."
    for name, weight in module.named_parameters():
        if not torch.isfinite(weight).all():
            return f"The parameter {name} is not finite."
    for name, weight in module.named_parameters():
        if weight.grad is not None and not torch.isfinite(weight.grad).all():
            return f"The gradient of {name} is not finite."
    return "The batch and the parameters are finite: numbers overflowed between them."


class SpikeDetector:
    """Knows the usual loss, and stops at one that is many times as large."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=USUAL)

    def require_usual(
        self, step: int, metrics: Mapping[str, Tensor], constants: Mapping[str, float]
    ) -> None:
        """Look at `loss/total`, without what its terms consist of whatever is learned.

        Of an image such constants are thousands, beside which no jump would be seen.
        """
        loss = float(metrics["loss/total"]) - sum(constants.values())
        usual = max(median(self._recent), LEAST) if self._recent else LEAST
        if len(self._recent) == USUAL and loss > SPIKE * usual:
            terms = {n: float(t) for n, t in metrics.items() if n.startswith("loss/")}
            del terms["loss/total"]
            rest = {name: term - constants.get(name, 0.0) for name, term in terms.items()}
            most = f"; most of it is {max(rest, key=rest.__getitem__)}" if rest else ""
            raise DivergedError(
                f"Update {step}: the loss, without constants, jumped to {loss:.4g} from about "
                f"{median(self._recent):.4g}{most}.",
                HINT,
            )
        self._recent.append(loss)
