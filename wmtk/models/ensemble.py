"""What a world model cannot know: predictors that were taught the same, and how they differ.

An ensemble of small networks learns, from recorded steps, which stochastic state follows a state
and an action. Where there was data its members have learned the same; where there was none each
guesses in its own way. How much they differ is a measure of what the data says nothing about,
unlike the entropy of a prediction, which is high as well where the world itself is random.

Members predict the distribution of the next state, as the world model's prior does: the stats of
a latent, learned by the KL divergence from the posterior to them. So the same code serves one-hot,
Gaussian and binary states, and no member has to imitate the noise of samples. What is compared
are the expected states: the probabilities of classes or of ones, or the means of Gaussians.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wmtk.models.distributions import Binary, Categorical, Gaussian, Latent
from wmtk.models.imagination import Trajectory, frozen
from wmtk.models.kernels.elu import elu
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs
from wmtk.reprs import brief_repr


class Transitions(NamedTuple):
    """N recorded steps, as the states of a model: where, what was done, what came."""

    feat: Tensor  # (N, F) of the state before
    action: Tensor  # (N, A) that was chosen there
    stats: Tensor  # (N, stats) of the posterior of the state after

    def __repr__(self) -> str:
        return brief_repr(self)


def transitions(post: State, inputs: Inputs) -> Transitions:
    """The steps of a batch with posterior states (B, T, …), without gradient.

    The action of a row is the one that led to it. No step leads into padding, or from the end of
    an episode to the beginning of another.
    """
    whole = inputs.mask[:, :-1] & inputs.mask[:, 1:] & ~inputs.is_first[:, 1:]  # (B, T−1)
    before = State(*(part[:, :-1][whole].detach() for part in post))
    return Transitions(before.feat, inputs.action[:, 1:][whole], post.stats[:, 1:][whole].detach())


class Ensemble(nn.Module):
    """M perceptrons from features and actions to the stats of the next latent, side by side.

    They are computed as one: a product of stacks of matrices per layer.
    """

    def __init__(
        self, latent: Latent, inputs: int, *, members: int, layers: int, units: int
    ) -> None:
        super().__init__()
        self.latent, self.members = latent, members
        sizes = list(pairwise([inputs] + [units] * layers + [latent.stats_size]))
        self.weights = nn.ParameterList(torch.empty(members, n, m) for n, m in sizes)
        self.biases = nn.ParameterList(torch.zeros(members, 1, m) for _, m in sizes)
        for weight, (n, m) in zip(self.weights, sizes, strict=True):
            bound = math.sqrt(6 / (n + m))  # Glorot's, of each matrix of the stack
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, feat: Tensor, action: Tensor) -> Tensor:
        """feat (N, F), action (N, A) → stats (M, N, …)."""
        x = torch.cat([feat, action], -1).expand(self.members, -1, -1)
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = elu(x) if i < last else x
        return x

    def loss(self, seen: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum of the members' losses, so that each learns as if alone, and what to log."""
        stats = self(seen.feat, seen.action)
        losses = self.latent.kl(seen.stats, stats).mean(-1)  # (M,)
        with torch.no_grad():
            metrics = {
                "loss/ensemble": losses.mean(),
                "disagreement/data": disagreement(self.latent, stats).mean(),
            }
        return losses.sum(), metrics

    def judge(self, dream: Trajectory) -> Tensor:
        """How much the members disagree on each imagined step: (H, N).

        Differentiable in actions and states, if those are in the actor. The members get no
        gradient: they are not to learn to agree.
        """
        with frozen(self):  # step by step: all at once would take much memory
            steps = zip(dream.path, dream.action, strict=True)
            return torch.stack([disagreement(self.latent, self(*step)) for step in steps])


def disagreement(latent: Latent, stats: Tensor) -> Tensor:
    """The variance over members of the expected states, averaged over variables: (M, N, …) → (N,).

    Of a categorical variable the variances of all classes are summed up, so that the number of
    classes does not matter: it is 0 where all members agree, and 1 − 1/M where each is certain of
    another class. A binary variable's is at most ¼. A Gaussian's is in squares of its own unit,
    in which the prior's standard deviation lies between 0.1 and 2.1.
    """
    variables, means = _expected(latent, stats)
    return means.var(0, correction=0).sum(-1) / variables


def _expected(latent: Latent, stats: Tensor) -> tuple[int, Tensor]:
    """The number of variables, and their expected values: (…, size)."""
    if isinstance(latent, Categorical):
        return latent.variables, torch.softmax(latent.logits(stats), -1).flatten(-2)
    if isinstance(latent, Binary):
        return latent.size, torch.sigmoid(stats)
    assert isinstance(latent, Gaussian), latent
    return latent.size, stats.chunk(2, -1)[0]


# What disagreement is worth. u_t is that of the step from z_t by a_t, beside what
# wmtk.models.returns shows:
#
#     state          z0 ───a0──▶ z1 ───a1──▶ z2       a_t is chosen at z_t and leads to z_{t+1}
#     disagreement        u0          u1
#     reward         r0          r1          r2       r_t is received on arriving at z_t
#
# What a step costs would be part of the reward of arriving, r_{t+1} − P·u_t, and be discounted
# with it by d_t. But it is no matter of z_{t+1}, which others may come to by steps that are well
# known: the critic's value of z_{t+1} cannot contain it, and the last step of a dream, whose
# r_{t+1} nobody looks at, would be free. So it is charged where a_t is chosen, discounted already:
#
#     V_t = (r_t − d_t·P·u_t) + d_t·((1−λ)·v_{t+1} + λ·V_{t+1})
#
# V_t is what a_t is judged by, so a_t is blamed for u_t, in full and whatever λ is, and earlier
# actions for having led there. After the end of an episode (d_t = 0) no step is taken and nothing
# is charged, although members are bound to disagree on it: no data tells what would come.


def penalized(dream: Trajectory, doubt: Tensor, penalty: float) -> Tensor:
    """The rewards of a dream less what its steps cost by their disagreement: (H, N)."""
    return dream.reward - penalty * dream.discount * doubt


def novelty(dream: Trajectory, doubt: Tensor) -> Tensor:
    """Disagreement as a reward of its own, for those who are to find out: (H, N)."""
    return dream.discount * doubt
