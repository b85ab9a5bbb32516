"""The world model: what is seen becomes states, states become predictions, and the loss of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from wmtk.config import Config, Depth, Width
from wmtk.errors import ConfigError
from wmtk.models import losses
from wmtk.models.conv import (
    ConvDecoder,
    ConvEncoder,
    check_image,
    to_float,
    weights,
)
from wmtk.models.distributions import Categorical
from wmtk.models.kernels.chunked_nll import image_nll
from wmtk.models.kernels.elu import elu
from wmtk.models.networks import MLP, initialize
from wmtk.models.rssm import RSSM, RSSMConfig, State
from wmtk.models.schedules import Scale, value
from wmtk.reprs import brief_repr
from wmtk.spaces import ArraySpec


class WorldModelConfig(Config):
    """Networks and loss of the world model. The defaults are the paper's for Atari."""

    rssm: RSSMConfig = RSSMConfig()
    cnn_depth: Width = 48  # of the first convolution
    layers: Depth = 4  # of the perceptrons: heads, and vectors in and out
    units: Width = 400
    kl_scale: Scale = 0.1  # β
    kl_balance: float | None = Field(0.8, ge=0, le=1)  # α; null is the plain KL
    free_nats: float = Field(0.0, ge=0)
    discount: float = Field(0.999, gt=0, le=1)  # γ
    image_scale: float = Field(1.0, ge=0)
    vector_scale: float = Field(1.0, ge=0)
    reward_scale: float = Field(1.0, ge=0)
    discount_scale: float = Field(5.0, ge=0)  # 0: no discount head, γ everywhere
    image_gradients: bool = True  # whether what is seen shapes the states (ablation)
    reward_gradients: bool = True  # whether rewards do (ablation)
    # What becomes of rewards before they are learned, never of those that are stored. The paper's
    # for Atari is tanh; other tasks need none.
    reward_transform: Literal["tanh"] | None = None
    # Whether decoders begin at the mean color of the first batch, or at gray as the paper's do.
    start_at_mean: bool = False


class Inputs(NamedTuple):
    """A batch as tensors: rows as in the dataset, actions one-hot where they are discrete."""

    obs: Mapping[str, Tensor]  # each (B, T, …), images as bytes
    action: Tensor  # (B, T, A)
    reward: Tensor  # (B, T)
    terminal: Tensor  # (B, T) bool
    is_first: Tensor  # (B, T) bool
    mask: Tensor  # (B, T) bool

    def __repr__(self) -> str:
        return brief_repr(self)


class WorldModel(nn.Module):
    """Encoder, RSSM, decoder and heads for given observation and action spaces."""

    def __init__(
        self, config: WorldModelConfig, obs: Mapping[str, ArraySpec], action_size: int
    ) -> None:
        super().__init__()
        self.config = config
        self.images = {key: spec for key, spec in obs.items() if spec.is_image}
        self.vectors = {key: spec for key, spec in obs.items() if not spec.is_image}
        for key, spec in self.images.items():
            check_image(key, spec.shape)
        L, U = config.layers, config.units
        self.vector_size = sum(spec.numbers for spec in self.vectors.values())
        self.encoders = nn.ModuleDict(
            {
                _safe(key): ConvEncoder(spec.shape[-1], config.cnn_depth)
                for key, spec in self.images.items()
            }
        )
        embed = 32 * config.cnn_depth * len(self.images)
        if self.vectors:
            self.vector_encoder = MLP(self.vector_size, U, L - 1, U)
            embed += U
        if not embed:
            raise ConfigError("The model has nothing to see.", "Give it at least one key.")
        self.rssm = RSSM(config.rssm, action_size, embed)
        feat = self.rssm.feat_size
        self.decoders = nn.ModuleDict(
            {
                _safe(key): ConvDecoder(feat, spec.shape[-1], config.cnn_depth)
                for key, spec in self.images.items()
            }
        )
        if self.vectors:
            self.vector_decoder = MLP(feat, self.vector_size, L, U)
        self.reward_head = MLP(feat, 1, L, U)
        self.discount_head = MLP(feat, 1, L, U) if config.discount_scale else None
        initialize(self)
        self.rssm.initialize()
        for decoder in self.decoders.values():
            assert isinstance(decoder, ConvDecoder)
            decoder.initialize()

    # --- seeing ---

    def encode(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Observations (B, T, …) → embeddings (B, T, E)."""
        parts = []
        for key in self.images:
            x = obs[key]
            B, T = x.shape[:2]
            parts.append(self.encoders[_safe(key)](to_float(x.flatten(0, 1))).reshape(B, T, -1))
        if self.vectors:
            parts.append(elu(self.vector_encoder(self.vector(obs))))
        return torch.cat(parts, -1)

    def vector(self, obs: Mapping[str, Tensor]) -> Tensor:
        """All keys that are no images as one vector: (B, T, V)."""
        parts = (obs[key].to(torch.float32) for key in self.vectors)
        return torch.cat([part.reshape(*part.shape[:2], -1) for part in parts], -1)

    def observe(self, inputs: Inputs, state: State | None = None, *, sample: bool = True) -> State:
        """The posterior states of a batch: (B, T, …)."""
        embed = self.encode(inputs.obs)
        return self.rssm.observe(embed, inputs.action, inputs.is_first, state, sample=sample)

    # --- predicting ---

    def decode(self, feat: Tensor) -> dict[str, Tensor]:
        """The images in [−0.5, 0.5] that features (…, F) stand for: each (…, 64, 64, C)."""
        flat = feat.reshape(-1, feat.shape[-1])
        return {
            key: self.decoders[_safe(key)](flat).reshape(*feat.shape[:-1], *spec.shape)
            for key, spec in self.images.items()
        }

    def reward(self, feat: Tensor) -> Tensor:
        """The expected reward on arriving at states, transformed: (…)."""
        out: Tensor = self.reward_head(feat).squeeze(-1)
        return out

    def transformed(self, reward: Tensor) -> Tensor:
        """Rewards of a task as they are learned."""
        return reward if self.config.reward_transform is None else torch.tanh(reward)

    def discount(self, feat: Tensor) -> Tensor:
        """The expected discount of states: γ times the probability of going on, (…)."""
        if self.discount_head is None:
            return torch.full_like(feat[..., 0], self.config.discount)
        out: Tensor = torch.sigmoid(self.discount_head(feat).squeeze(-1))
        return out

    # --- learning ---

    @torch.no_grad()
    def start_at_mean(self, inputs: Inputs) -> None:
        """Let the decoders begin at the mean color of a batch.

        Until they have found it, every code is pushed towards whatever is less wrong on the whole,
        and at a high rate all of them soon stand for that and nothing else.
        """
        for key in self.images:
            decoder = self.decoders[_safe(key)]
            assert isinstance(decoder, ConvDecoder), decoder
            _, bias = weights(decoder.last)
            bias.copy_(to_float(inputs.obs[key][inputs.mask]).mean((0, 1, 2)))

    def loss(self, inputs: Inputs, step: int = 0) -> tuple[Tensor, State, dict[str, Tensor]]:
        """The loss of a batch at an update, its posterior states, and what to log."""
        config, mask = self.config, inputs.mask
        post = self.observe(inputs)
        prior = self.rssm.prior(post.deter)
        latent = self.rssm.latent
        kl = losses.balanced_kl(latent, post.stats, prior, mask, config.kl_balance)
        # Below the free nats, averaged over batch and time, the gradient is zero.
        terms = {"kl": value(config.kl_scale, step) * kl.clamp(min=config.free_nats)}
        terms |= self._likelihoods(post.feat, inputs)
        loss = torch.stack(list(terms.values())).sum()
        with torch.no_grad():
            metrics = {f"loss/{name}": term.detach() for name, term in terms.items()}
            metrics["loss/total"] = loss.detach()
            metrics["kl"] = kl.detach()
            metrics["entropy/posterior"] = losses.masked_mean(latent.entropy(post.stats), mask)
            metrics["entropy/prior"] = losses.masked_mean(latent.entropy(prior), mask)
            if isinstance(latent, Categorical):
                sizes = latent.variables, latent.classes
                metrics["codes/perplexity"] = losses.code_perplexity(post.stats, *sizes, mask)
        return loss, post, metrics

    def _likelihoods(self, feat: Tensor, inputs: Inputs) -> dict[str, Tensor]:
        """The negative log-likelihoods, scaled and averaged over what is no padding."""
        config, mask = self.config, inputs.mask
        seen = feat if config.image_gradients else feat.detach()
        rewarded = feat if config.reward_gradients else feat.detach()
        terms = {}
        shares = losses.mean_weights(mask).flatten()
        for key in self.images:
            decoder = self.decoders[_safe(key)]
            assert isinstance(decoder, ConvDecoder), decoder
            image = inputs.obs[key].flatten(0, 1)
            nll = image_nll(decoder, seen.flatten(0, 1), image, shares)
            terms[f"image/{key}"] = config.image_scale * nll
        if self.vectors:
            nll = losses.gaussian_nll(self.vector_decoder(seen), self.vector(inputs.obs), 1)
            terms["vector"] = config.vector_scale * losses.masked_mean(nll, mask)
        nll = losses.gaussian_nll(self.reward(rewarded), self.transformed(inputs.reward), 0)
        terms["reward"] = config.reward_scale * losses.masked_mean(nll, mask)
        if self.discount_head is not None:
            logits = self.discount_head(rewarded).squeeze(-1)
            nll = losses.discount_nll(logits, inputs.terminal, config.discount)
            terms["discount"] = config.discount_scale * losses.masked_mean(nll, mask)
        return terms


def _safe(key: str) -> str:
    """A key as the name of a module: those may contain neither dots nor slashes."""
    return key.replace(".", "_dot_").replace("/", "_slash_")
