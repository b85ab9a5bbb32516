"""Numbers that change while training goes on."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import AfterValidator, Field

from wmtk.config import Config

LAST = 2**62  # a step after the end of every schedule


class Linear(Config):
    """A number that goes from one value to another over some steps and stays there."""

    start: float
    end: float
    steps: int = Field(ge=1)

    def at(self, step: int) -> float:
        share = min(max(step / self.steps, 0.0), 1.0)
        return self.start + share * (self.end - self.start)


Schedule = float | Linear


def _weighs(schedule: Schedule) -> Schedule:
    for number in (value(schedule, 0), value(schedule, LAST)):
        if not (math.isfinite(number) and number >= 0):
            raise ValueError("must be a number that is not negative")
    return schedule


def value(schedule: Schedule, step: int) -> float:
    """What a schedule, or a plain number, says at a step."""
    return schedule.at(step) if isinstance(schedule, Linear) else schedule


# What a learning rate, or a term of a loss, is multiplied by.
Scale = Annotated[Schedule, AfterValidator(_weighs)]
