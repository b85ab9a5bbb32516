"""How playing and learning take turns: the train ratio, as counts of steps and of updates."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from wmtk.config import Config


class OnlineConfig(Config):
    """Playing while learning. Steps are agent steps; the defaults are the paper's for Atari."""

    prefill: int = Field(50_000, ge=0)  # steps of random play before anything is learnt
    pretrain: int = Field(0, ge=0)  # updates before the actor plays
    every: float = Field(4.0, gt=0)  # steps from one update to the next
    envs: int = Field(1, ge=1)  # environments that play side by side
    capacity: int = Field(2_000_000, ge=1)  # steps of the replay; the oldest go beyond that
    actor: Literal["learnt", "random"] = "learnt"  # who plays (ablation)
    learn_model: bool = True
    learn_behaviour: bool = True
    evaluate: int = Field(250_000, ge=1)  # steps from one evaluation to the next
    episodes: int = Field(5, ge=0)  # of an evaluation; 0 is none

    def updates_at(self, steps: int) -> int:
        """How many updates are due after so many steps."""
        if steps < self.prefill:
            return 0
        return self.pretrain + math.floor((steps - self.prefill) / self.every)

    def steps_for(self, update: int) -> int:
        """How many steps an update waits for: the least number at which it is due."""
        return self.prefill + math.ceil(max(update - self.pretrain, 0) * self.every)

    def evaluates_at(self, update: int) -> bool:
        """Whether an update is the first after another `evaluate` steps."""
        now, before = self.steps_for(update), self.steps_for(update - 1)
        return self.episodes > 0 and now // self.evaluate > before // self.evaluate
