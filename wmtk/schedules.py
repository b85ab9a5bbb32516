"""Settings that change during training."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import AfterValidator, Field

from wmtk.config import Config

LAST = 2**62  # a step after the end of every schedule


class LinearSchedule(Config):
    """Linear interpolation from `start` to `end` over `steps` updates, then constant."""

    start: float
    end: float
    steps: int = Field(ge=1)

    def at(self, step: int) -> float:
        share = min(max(step / self.steps, 0.0), 1.0)
        return self.start + share * (self.end - self.start)


Schedule = float | LinearSchedule


def _not_negative(schedule: Schedule) -> Schedule:
    for number in (value(schedule, 0), value(schedule, LAST)):
        if not (math.isfinite(number) and number >= 0):
            raise ValueError("must be a number that is not negative")
    return schedule


def value(schedule: Schedule, step: int) -> float:
    """The value of a schedule at update `step`; a plain number is constant."""
    return schedule.at(step) if isinstance(schedule, LinearSchedule) else schedule


# A learning rate, or the scale of a loss term.
Scale = Annotated[Schedule, AfterValidator(_not_negative)]
