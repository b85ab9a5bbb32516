"""Numbers that change while training goes on."""

from __future__ import annotations

from pydantic import Field

from wmtk.config import Config


class Linear(Config):
    """A number that goes from one value to another over some steps and stays there."""

    start: float
    end: float
    steps: int = Field(ge=1)

    def at(self, step: int) -> float:
        share = min(max(step / self.steps, 0.0), 1.0)
        return self.start + share * (self.end - self.start)


Schedule = float | Linear


def value(schedule: Schedule, step: int) -> float:
    """What a schedule, or a plain number, says at a step."""
    return schedule.at(step) if isinstance(schedule, Linear) else schedule
