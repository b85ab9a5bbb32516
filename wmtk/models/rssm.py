"""The recurrent state-space model: what happens next, with and without seeing it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from wmtk.config import Config, Width
from wmtk.models.distributions import Binary, Categorical, Gaussian, Latent
from wmtk.models.kernels.elu import elu
from wmtk.models.kernels.matmul import Linear
from wmtk.models.kernels.rssm_scan import observe_scan
from wmtk.models.networks import GRUCell, initialize_as_one
from wmtk.reprs import brief_repr


class RSSMConfig(Config):
    """Sizes of the state and its networks."""

    deter: Width = 600
    hidden: Width = 600
    latent: Literal["categorical", "gaussian", "binary"] = "categorical"
    stoch: Width = 32  # variables
    # Of a categorical variable; so many binary ones replace it.
    classes: Width = Field(32, ge=2)
    layer_norm: bool = True

    def make_latent(self) -> Latent:
        if self.latent == "categorical":
            return Categorical(self.stoch, self.classes)
        # The paper tried "a larger number of binary latents": as many numbers, each on its own.
        many = self.stoch * self.classes
        return Gaussian(self.stoch) if self.latent == "gaussian" else Binary(many)


class State(NamedTuple):
    """A state of the model, or a sequence of them: deter (…, D), stoch (…, Z), stats (…, stats)."""

    deter: Tensor
    stoch: Tensor
    stats: Tensor  # of the distribution that `stoch` was drawn from

    def __repr__(self) -> str:
        return brief_repr(self)

    @property
    def feat(self) -> Tensor:
        """What the heads, the actor and the critic see: (…, D + Z)."""
        return torch.cat([self.deter, self.stoch], -1)

    def detach(self) -> State:
        return State(*(part.detach() for part in self))

    def at(self, t: int) -> State:
        """One row of a sequence: (B, T, …) → (B, …)."""
        return State(*(part[:, t] for part in self))

    def flatten(self) -> State:
        """(B, T, …) → (B·T, …)."""
        return State(*(part.flatten(0, 1) for part in self))


class RSSM(nn.Module):
    """h_t = f(h_{t−1}, z_{t−1}, action[t]); prior p(z_t | h_t); posterior q(z_t | h_t, embed_t).

    `action[t]` is the action that led to row t, as in the dataset.
    """

    def __init__(self, config: RSSMConfig, action_size: int, embed_size: int) -> None:
        super().__init__()
        self.config = config
        self.latent = config.make_latent()
        D, U = config.deter, config.hidden
        # The first layers are split by input: what does not depend on the state before is
        # computed for all steps at once, outside of the loop over time.
        self.from_stoch = Linear(self.latent.size, U, bias=False)
        self.from_action = Linear(action_size, U)
        self.cell = GRUCell(U, D, layer_norm=config.layer_norm)
        self.prior_hidden = Linear(D, U)
        self.prior_stats = Linear(U, self.latent.stats_size)
        self.post_from_deter = Linear(D, U, bias=False)
        self.post_from_embed = Linear(embed_size, U)
        self.post_stats = Linear(U, self.latent.stats_size)

    def initialize(self) -> None:
        """Glorot bounds of the layers that are split by input."""
        initialize_as_one(self.from_stoch, self.from_action)
        initialize_as_one(self.post_from_deter, self.post_from_embed)

    @property
    def feat_size(self) -> int:
        return self.config.deter + self.latent.size

    def initial(self, batch: int) -> State:
        """Zeros, which is where every episode starts."""
        weight = self.from_action.weight
        sizes = (self.config.deter, self.latent.size, self.latent.stats_size)
        return State(*(weight.new_zeros(batch, size) for size in sizes))

    # --- one step ---

    def advance(self, deter: Tensor, stoch: Tensor, projected_action: Tensor) -> Tensor:
        """The next deterministic state, given `from_action(action)`."""
        following: Tensor = self.cell(elu(self.from_stoch(stoch) + projected_action), deter)
        return following

    def prior(self, deter: Tensor) -> Tensor:
        """The stats of p(z | h)."""
        stats: Tensor = self.prior_stats(elu(self.prior_hidden(deter)))
        return stats

    def posterior(self, deter: Tensor, projected_embed: Tensor) -> Tensor:
        """The stats of q(z | h, x), given `post_from_embed(embed)`."""
        stats: Tensor = self.post_stats(elu(self.post_from_deter(deter) + projected_embed))
        return stats

    def imagine_step(self, state: State, action: Tensor, *, sample: bool = True) -> State:
        """The state after an action, without seeing anything."""
        deter = self.advance(state.deter, state.stoch, self.from_action(action))
        stats = self.prior(deter)
        stoch = self.latent.sample(stats) if sample else self.latent.mode(stats)
        return State(deter, stoch, stats)

    def observe_step(
        self, state: State, action: Tensor, embed: Tensor, is_first: Tensor, *, sample: bool = True
    ) -> State:
        """The state after an action (B, A), having seen what came of it (B, E); is_first (B,)."""
        states = self.observe(
            embed.unsqueeze(1), action.unsqueeze(1), is_first.unsqueeze(1), state, sample=sample
        )
        return State(*(part.squeeze(1) for part in states))

    # --- sequences ---

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

        Where `is_first` is true the state before and the action are taken to be zero.
        """
        state = self.initial(len(is_first)) if state is None else state
        # Time first, so that the inputs of one step lie together in memory.
        keep = (~is_first.t()).to(embed.dtype).unsqueeze(-1)  # (T, B, 1)
        actions = self.from_action(action.transpose(0, 1) * keep)  # (T, B, U)
        embeds = self.post_from_embed(embed.transpose(0, 1))  # (T, B, U)
        if sample and self._can_scan(embeds, state):
            found = observe_scan(self, actions, embeds, keep, state.deter, state.stoch)
            return State(*(part.transpose(0, 1) for part in found))
        return self._observe_plainly(actions, embeds, keep, state, sample=sample)

    def _can_scan(self, embeds: Tensor, state: State) -> bool:
        """Whether there is something to gain from the loop whose gradient is written by hand."""
        return (
            embeds.requires_grad
            and not state.deter.requires_grad
            and not torch.is_autocast_enabled(embeds.device.type)
            and not torch.compiler.is_compiling()
        )

    def _observe_plainly(
        self, actions: Tensor, embeds: Tensor, keep: Tensor, state: State, *, sample: bool
    ) -> State:
        """What `observe_scan` computes, as it is defined."""
        deter, stoch = state.deter, state.stoch
        outputs: list[State] = []
        for t in range(len(keep)):
            deter = self.advance(deter * keep[t], stoch * keep[t], actions[t])
            stats = self.posterior(deter, embeds[t])
            stoch = self.latent.sample(stats) if sample else self.latent.mode(stats)
            outputs.append(State(deter, stoch, stats))
        return State(*(torch.stack(parts, 1) for parts in zip(*outputs, strict=True)))

    def imagine(self, state: State, actions: Tensor, *, sample: bool = True) -> State:
        """The states after each of the actions (B, H, A), without seeing anything: (B, H, …)."""
        outputs: list[State] = []
        for t in range(actions.shape[1]):
            state = self.imagine_step(state, actions[:, t], sample=sample)
            outputs.append(state)
        return State(*(torch.stack(parts, 1) for parts in zip(*outputs, strict=True)))
