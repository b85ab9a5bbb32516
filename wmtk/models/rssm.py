"""The recurrent state-space model: deterministic and stochastic states over time."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from wmtk.config import Config, Width
from wmtk.models.distributions import Binary, Categorical, Gaussian, Latent
from wmtk.models.kernels import enabled, rssm_scan
from wmtk.models.kernels.elu import elu
from wmtk.models.kernels.matmul import Linear
from wmtk.models.networks import GRUCell, initialize_jointly
from wmtk.reprs import brief_repr


class RSSMConfig(Config):
    """Sizes of the state and its networks."""

    deter: Width = 600
    hidden: Width = 600
    latent: Literal["categorical", "gaussian", "binary"] = "categorical"
    stoch: Width = 32  # variables
    classes: Width = Field(32, ge=2)  # per categorical variable
    layer_norm: bool = True

    def make_latent(self) -> Latent:
        if self.latent == "categorical":
            return Categorical([self.classes] * self.stoch)
        # The paper's "larger number of binary latents": one per class of each variable.
        return (
            Gaussian(self.stoch) if self.latent == "gaussian" else Binary(self.stoch * self.classes)
        )


class State(NamedTuple):
    """States of the model: deter (…, D), stoch (…, Z), dist_params (…, P)."""

    deter: Tensor
    stoch: Tensor
    dist_params: Tensor  # of the distribution that `stoch` was sampled from

    def __repr__(self) -> str:
        return brief_repr(self)

    @property
    def feat(self) -> Tensor:
        """The input of the heads, the actor and the critic: (…, D + Z)."""
        return torch.cat([self.deter, self.stoch], -1)

    def detach(self) -> State:
        return State(*(part.detach() for part in self))

    def at(self, t: int) -> State:
        """One row of a sequence: (B, T, …) → (B, …)."""
        return State(*(part[:, t] for part in self))


class RSSM(nn.Module):
    """h_t = f(h_{t−1}, z_{t−1}, action[t]); prior p(z_t | h_t); posterior q(z_t | h_t, embed_t).

    `action[t]` is the action that led to row t, as in the dataset.
    """

    def __init__(
        self, config: RSSMConfig, action_size: int, embed_size: int, latent: Latent | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.latent = latent or config.make_latent()
        D, U = config.deter, config.hidden
        # The first layers are split by input: the parts that do not depend on the previous state
        # are computed for all steps at once, outside of the loop over time.
        self.from_stoch = Linear(self.latent.size, U, bias=False)
        self.from_action = Linear(action_size, U)
        self.cell = GRUCell(U, D, layer_norm=config.layer_norm)
        self.prior_hidden = Linear(D, U)
        self.prior_stats = Linear(U, self.latent.params_size)
        self.post_from_deter = Linear(D, U, bias=False)
        self.post_from_embed = Linear(embed_size, U)
        self.post_stats = Linear(U, self.latent.params_size)

    def initialize(self) -> None:
        """Initialize layers that are split by input with the Glorot bounds of the whole layer."""
        initialize_jointly(self.from_stoch, self.from_action)
        initialize_jointly(self.post_from_deter, self.post_from_embed)

    @property
    def feat_size(self) -> int:
        return self.config.deter + self.latent.size

    def initial(self, batch: int) -> State:
        """Zeros, the state before the first row of an episode."""
        weight = self.from_action.weight
        sizes = (self.config.deter, self.latent.size, self.latent.params_size)
        return State(*(weight.new_zeros(batch, size) for size in sizes))

    def advance(self, deter: Tensor, stoch: Tensor, projected_action: Tensor) -> Tensor:
        """The next deterministic state, given `from_action(action)`."""
        next_deter: Tensor = self.cell(elu(self.from_stoch(stoch) + projected_action), deter)
        return next_deter

    def prior(self, deter: Tensor) -> Tensor:
        """The parameters of p(z | h)."""
        dist_params: Tensor = self.prior_stats(elu(self.prior_hidden(deter)))
        return dist_params

    def posterior(self, deter: Tensor, projected_embed: Tensor) -> Tensor:
        """The parameters of q(z | h, x), given `post_from_embed(embed)`."""
        dist_params: Tensor = self.post_stats(elu(self.post_from_deter(deter) + projected_embed))
        return dist_params

    def imagine_step(self, state: State, action: Tensor, *, sample: bool = True) -> State:
        """The state after an action (B, A), from the prior."""
        deter = self.advance(state.deter, state.stoch, self.from_action(action))
        prior = self.prior(deter)
        stoch = self.latent.sample(prior) if sample else self.latent.mode(prior)
        return State(deter, stoch, prior)

    def observe_step(
        self, state: State, action: Tensor, embed: Tensor, is_first: Tensor, *, sample: bool = True
    ) -> State:
        """The state after an action (B, A) and an observation (B, E), is_first (B,)."""
        embed, action, is_first = (x.unsqueeze(1) for x in (embed, action, is_first))
        return self.observe(embed, action, is_first, state, sample=sample).at(0)

    def observe(
        self,
        embed: Tensor,
        action: Tensor,
        is_first: Tensor,
        state: State | None = None,
        *,
        sample: bool = True,
    ) -> State:
        """The posterior states of sequences: embed (B, T, E), action (B, T, A), is_first (B, T).

        Where `is_first` is true, the previous state and the action are zero.
        """
        state = self.initial(len(is_first)) if state is None else state
        deter, stoch = state.deter, state.stoch
        # Time first, so that the inputs of one step are contiguous.
        keep = (~is_first.t()).to(embed.dtype).unsqueeze(-1)  # (T, B, 1)
        actions = self.from_action(action.transpose(0, 1) * keep)  # (T, B, U)
        embeds = self.post_from_embed(embed.transpose(0, 1))  # (T, B, U)
        if sample and enabled(rssm_scan.applies(self.latent, embeds, deter)):
            states = rssm_scan.observe_scan(self, actions, embeds, keep, deter, stoch)
            return State(*(part.transpose(0, 1) for part in states))
        outputs: list[State] = []
        for t in range(len(keep)):
            deter = self.advance(deter * keep[t], stoch * keep[t], actions[t])
            post = self.posterior(deter, embeds[t])
            stoch = self.latent.sample(post) if sample else self.latent.mode(post)
            outputs.append(State(deter, stoch, post))
        return State(*(torch.stack(parts, 1) for parts in zip(*outputs, strict=True)))

    def imagine(self, state: State, actions: Tensor, *, sample: bool = True) -> State:
        """The states (B, H, …) after each of the actions (B, H, A), from the prior."""
        outputs: list[State] = []
        for t in range(actions.shape[1]):
            state = self.imagine_step(state, actions[:, t], sample=sample)
            outputs.append(state)
        return State(*(torch.stack(parts, 1) for parts in zip(*outputs, strict=True)))
