"""λ-targets of imagined states, and the weights of imagined steps.

With three steps (H = 3) from a start state z0:

    state      z0 ──a0─▶ z1 ──a1─▶ z2 ──a2─▶ z3     a_t is chosen at z_t and leads to z_{t+1}
    reward     r0        r1        r2         ·     r_t is received on arriving at z_t
    discount   d0        d1        d2         ·     d_t: γ times the probability of no end at z_t
    weight     1         d0        d0·d1      ·     w_t: the discounted probability of reaching z_t
    value       ·        v1        v2        v3     of the target critic; v3 is the bootstrap value
    target     V0        V1        V2         ·     V_t = r_t + d_t·((1−λ)·v_{t+1} + λ·V_{t+1})

Rewards and discounts belong to states, so that the value of a state includes the reward of
arriving at it. V_t is the critic's target at z_t. It is also the return of a_t: it depends on a_t
through z_{t+1}; r_t, received before a_t, is part of both V_t and the baseline v(z_t). The discount
d0 is the true one instead of a prediction: 0 at a terminal start state.
"""

from __future__ import annotations

import torch
from torch import Tensor


def lambda_targets(reward: Tensor, discount: Tensor, next_value: Tensor, lambda_: float) -> Tensor:
    """The targets V_0 … V_{H−1}, (N, H), differentiable in all arguments.

    `reward` and `discount` (N, H) belong to states 0 … H−1, `next_value` (N, H) to states 1 … H.
    """
    shapes = reward.shape, discount.shape, next_value.shape
    assert shapes[0] == shapes[1] == shapes[2], shapes
    one_step = torch.addcmul(reward, discount, next_value, value=1 - lambda_)
    carried = lambda_ * discount
    target = next_value[:, -1]
    targets = []
    for t in reversed(range(reward.shape[1])):
        target = torch.addcmul(one_step[:, t], carried[:, t], target)
        targets.append(target)
    return torch.stack(targets[::-1]).t()  # time first in memory, as imagined steps are


def step_weights(discount: Tensor) -> Tensor:
    """The weights w_0 … w_{H−1} from the discounts d_0 … d_{H−1}, (N, H)."""
    return torch.cat([torch.ones_like(discount[:, :1]), discount[:, :-1]], 1).cumprod(1)
