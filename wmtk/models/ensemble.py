"""An ensemble of one-step predictors, whose disagreement estimates epistemic uncertainty.

Each member learns from recorded steps to predict the next stochastic state from a state and an
action. The members agree where there is data and extrapolate differently elsewhere. The entropy of
a prediction, in contrast, is also high where the environment is random.

Members predict the parameters of the next latent's distribution, like the world model's prior, and
minimize the KL divergence from the posterior. Disagreement is the variance of the expected states.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wmtk.models.distributions import Latent
from wmtk.models.imagination import Trajectory
from wmtk.models.kernels.elu import elu
from wmtk.models.networks import frozen
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs


class Transitions(NamedTuple):
    """N recorded steps, as states of a model."""

    feat: Tensor  # (N, F) of the state before the step
    action: Tensor  # (N, A)
    dist_params: Tensor  # (N, P) of the posterior of the state after the step


def transitions(post: State, inputs: Inputs) -> Transitions:
    """The steps of a batch with posterior states (B, T, …), without gradient.

    The action of a row is the one that led to it. Steps into padding or across the start of an
    episode are left out.
    """
    chosen = inputs.mask[:, :-1] & inputs.mask[:, 1:] & ~inputs.is_first[:, 1:]  # (B, T−1)
    before = State(*(part[:, :-1][chosen].detach() for part in post))
    after = post.dist_params[:, 1:][chosen].detach()
    return Transitions(before.feat, inputs.action[:, 1:][chosen], after)


class Ensemble(nn.Module):
    """M perceptrons from features and actions to the next latent's parameters, computed at once."""

    def __init__(
        self, latent: Latent, inputs: int, *, members: int, layers: int, units: int
    ) -> None:
        super().__init__()
        self.latent, self.members = latent, members
        sizes = list(pairwise([inputs] + [units] * layers + [latent.params_size]))
        self.weights = nn.ParameterList(torch.empty(members, n, m) for n, m in sizes)
        self.biases = nn.ParameterList(torch.zeros(members, 1, m) for _, m in sizes)
        for weight, (n, m) in zip(self.weights, sizes, strict=True):
            bound = math.sqrt(6 / (n + m))  # Glorot bound of each member's matrix
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, feat: Tensor, action: Tensor) -> Tensor:
        """feat (N, F), action (N, A) → dist_params (M, N, P)."""
        x = torch.cat([feat, action], -1).expand(self.members, -1, -1)
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = elu(x) if i < last else x
        return x

    def loss(self, steps: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum of the members' losses, so that their gradients are independent, and metrics."""
        dist_params = self(steps.feat, steps.action)
        losses = self.latent.kl(steps.dist_params, dist_params).mean(-1)  # (M,)
        with torch.no_grad():
            metrics = {
                "loss/ensemble": losses.mean(),
                "disagreement/data": disagreement(self.latent, dist_params).mean(),
            }
        return losses.sum(), metrics

    def uncertainty(self, trajectory: Trajectory) -> Tensor:
        """The members' disagreement on each imagined step: (N, H).

        Differentiable in the actor through the actions and states, if the trajectory is. The
        members' weights get no gradient.
        """
        steps = zip(trajectory.grad_feat.unbind(1), trajectory.action.unbind(1), strict=True)
        with frozen(self):  # one step at a time, to save memory
            return torch.stack([disagreement(self.latent, self(*step)) for step in steps]).t()


def disagreement(latent: Latent, dist_params: Tensor) -> Tensor:
    """The variance over members of the expected states, averaged over variables: (M, N, P) → (N,).

    For a categorical variable, the variances of its classes are summed: 0 if all members agree,
    1 − 1/M if each predicts another class with certainty, for any number of classes. For a binary
    variable it is at most ¼. For a Gaussian its unit is the square of the state's unit, in which
    the prior's standard deviation lies between 0.1 and 2.1.
    """
    return latent.mean(dist_params).var(0, correction=0).sum(-1) / latent.variables
