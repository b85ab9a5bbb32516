"""What imagined states are worth: λ-targets and the weights of imagined steps.

Time first, (H, N), as in wmtk.models.imagination. With three steps (H = 3) from a start z0:

    state      z0 ──a0─▶ z1 ──a1─▶ z2 ──a2─▶ z3     a_t is chosen at z_t and leads to z_{t+1}
    reward     r0        r1        r2         ·     r_t is received on arriving at z_t
    discount   d0        d1        d2         ·     d_t: does anything come after z_t?
    weight     1         d0        d0·d1      ·     w_t: is z_t reached at all?
    slow v      ·        v1        v2        v3     of the slow critic; v3 stands for all the rest
    target     V0        V1        V2         ·     V_t = r_t + d_t·((1−λ)·v_{t+1} + λ·V_{t+1})

Rewards and discounts are those of states, so that the value of a state includes the reward of
arriving at it. V_t is the target of the critic at z_t. It is also what a_t is judged by: through
z_{t+1} it depends on a_t, while r_t, which was received before, is as much in the baseline v(z_t).
The discount d0 is known rather than predicted: after a terminal start nothing counts.
"""

from __future__ import annotations

import torch
from torch import Tensor


def lambda_targets(reward: Tensor, discount: Tensor, following: Tensor, trace: float) -> Tensor:
    """The targets V_0 … V_{H−1}, differentiable in everything.

    reward and discount are those of states 0 … H−1, `following` the values of states 1 … H, all
    (H, N); `trace` is λ.
    """
    assert reward.shape == discount.shape == following.shape, (
        reward.shape,
        discount.shape,
        following.shape,
    )
    one_step = torch.addcmul(reward, discount, following, value=1 - trace)
    carried = trace * discount
    target = following[-1]
    targets = []
    for t in reversed(range(len(reward))):
        target = torch.addcmul(one_step[t], carried[t], target)
        targets.append(target)
    return torch.stack(targets[::-1])


def step_weights(discount: Tensor) -> Tensor:
    """The weights w_0 … w_{H−1} from the discounts d_0 … d_{H−1}, (H, N)."""
    shifted = torch.cat([torch.ones_like(discount[:1]), discount[:-1]])
    return shifted.cumprod(0)
