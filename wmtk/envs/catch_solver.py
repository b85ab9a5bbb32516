"""What can be reached in wmtk/Catch-v0: exact returns and the best policy, by dynamic programming.

Two balls meet only through the paddle's position, so the value of a ball is a table over
(time, ball, drift, paddle) that ends in the value of the next ball, a table over the paddle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmtk.envs.catch import (
    BALL_RANGE,
    BALLS,
    DRIFT_CHANGE,
    FALL,
    MAX_DRIFT,
    PADDLE_RANGE,
    PADDLE_SPEED,
    caught,
)

Floats = NDArray[np.float64]

X, V, P = BALL_RANGE + 1, 2 * MAX_DRIFT + 1, PADDLE_RANGE + 1


@dataclass(frozen=True)
class Solution:
    """Expected return from the start, and the value of each action in each state.

    `values` has shape (BALLS, FALL + 1, X, V, P, 3), indexed by ball number, time, left edge of
    the ball, drift + MAX_DRIFT, left edge of the paddle.
    """

    expected_return: float
    values: NDArray[np.float32]

    def action(self, ball: int, time: int, x: int, drift: int, paddle: int) -> int:
        return int(self.values[ball, time, x, drift + MAX_DRIFT, paddle].argmax())


def solve(random: bool = False) -> Solution:
    """The optimal policy, or with `random` the uniformly random one."""
    values = np.zeros((BALLS, FALL + 1, X, V, P, 3), np.float32)
    later = np.zeros((X, P))  # value of a landed ball: what the balls after it are worth
    spawned = np.zeros(P)
    for ball in reversed(range(BALLS)):
        landed = np.where(caught(np.arange(X)[:, None], np.arange(P)[None]), 1.0, -1.0) + later
        state = np.repeat(landed[:, None], V, 1)  # (X, V, P), the value on arriving
        for time in reversed(range(FALL)):
            after = _expected_fall(state, 1.0 if time == 0 else DRIFT_CHANGE)
            actions = np.stack([after[..., _moved(action)] for action in range(3)], -1)
            values[ball, time] = actions
            state = actions.mean(-1) if random else actions.max(-1)
        # A new ball is as likely at each place; its drift counts for nothing at time 0. The step
        # that shows it moves the paddle too.
        spawned = state[:, MAX_DRIFT].mean(0)  # (P,)
        if ball:
            actions = np.stack([spawned[_moved(action)] for action in range(3)], -1)  # (P, 3)
            values[ball - 1, FALL] = actions
            later = np.repeat((actions.mean(-1) if random else actions.max(-1))[None], X, 0)
    return Solution(float(spawned[PADDLE_RANGE // 2]), values)


def _moved(action: int) -> NDArray[np.int64]:
    """Where the paddle is after `action`, for each place where it can be."""
    return np.clip(np.arange(P) + PADDLE_SPEED * (action - 1), 0, PADDLE_RANGE)


def _expected_fall(state: Floats, change: float) -> Floats:
    """The mean of `state` (X, V, P) after a fall, for each state before it."""
    moved = np.empty_like(state)
    for x in range(X):
        for v in range(V):
            drift = v - MAX_DRIFT
            if not 0 <= x + drift <= BALL_RANGE:
                drift = -drift
            moved[x, v] = state[x + drift, drift + MAX_DRIFT]
    mean: Floats = (1 - change) * moved + change * moved.mean(1, keepdims=True)
    return mean
