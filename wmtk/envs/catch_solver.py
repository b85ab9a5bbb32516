"""Exact returns and the optimal policy of wmtk/Catch-v0, by dynamic programming.

One ball affects the next only through the paddle's position. The values of each ball are therefore
a table over (time, ball position, drift, paddle), computed backward from the last ball; the values
at its landing include those of the next ball, a table over the paddle.
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

# Numbers of ball positions, drifts (velocities) and paddle positions.
X, V, P = BALL_RANGE + 1, 2 * MAX_DRIFT + 1, PADDLE_RANGE + 1


@dataclass(frozen=True)
class Solution:
    """Expected return from the start, and the value of each action in each state.

    `values` has shape (BALLS, FALL + 1, X, V, P, 3), indexed by ball number, time, left edge of
    the ball, drift + MAX_DRIFT, left edge of the paddle, action.
    """

    expected_return: float
    values: NDArray[np.float32]

    def action(self, ball: int, time: int, x: int, drift: int, paddle: int) -> int:
        return int(self.values[ball, time, x, drift + MAX_DRIFT, paddle].argmax())


def solve(random: bool = False) -> Solution:
    """Solve for the optimal policy, or evaluate the uniformly random one with `random`."""
    values = np.zeros((BALLS, FALL + 1, X, V, P, 3), np.float32)
    later = np.zeros((X, P))  # value of the following balls, after a ball has landed
    spawned = np.zeros(P)
    for ball in reversed(range(BALLS)):
        landed = np.where(caught(np.arange(X)[:, None], np.arange(P)[None]), 1.0, -1.0) + later
        state = np.repeat(landed[:, None], V, 1)  # (X, V, P), values of the states at `time + 1`
        for time in reversed(range(FALL)):
            after = _expected_fall(state, 1.0 if time == 0 else DRIFT_CHANGE)
            actions = np.stack([after[..., _moved(action)] for action in range(3)], -1)
            values[ball, time] = actions
            state = actions.mean(-1) if random else actions.max(-1)
        # A new ball is uniform over positions; its drift has no effect at time 0. The paddle moves
        # in the step in which the ball appears, too.
        spawned = state[:, MAX_DRIFT].mean(0)  # (P,)
        if ball:
            actions = np.stack([spawned[_moved(action)] for action in range(3)], -1)  # (P, 3)
            values[ball - 1, FALL] = actions
            later = np.repeat((actions.mean(-1) if random else actions.max(-1))[None], X, 0)
    return Solution(float(spawned[PADDLE_RANGE // 2]), values)


def _moved(action: int) -> NDArray[np.int64]:
    """The paddle position after `action`, for each position before it: (P,)."""
    return np.clip(np.arange(P) + PADDLE_SPEED * (action - 1), 0, PADDLE_RANGE)


def _expected_fall(state: Floats, change: float) -> Floats:
    """Expected values one fall earlier: (X, V, P) from `state` (X, V, P).

    `change` is the probability that the drift is resampled.
    """
    moved = np.empty_like(state)
    for x in range(X):
        for v in range(V):
            drift = v - MAX_DRIFT
            if not 0 <= x + drift <= BALL_RANGE:
                drift = -drift
            moved[x, v] = state[x + drift, drift + MAX_DRIFT]
    mean: Floats = (1 - change) * moved + change * moved.mean(1, keepdims=True)
    return mean
