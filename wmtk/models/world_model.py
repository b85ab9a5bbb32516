"""The world model: encoders, RSSM, decoders, heads and their loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from wmtk.config import Config, Depth, Width
from wmtk.errors import ConfigError
from wmtk.models import losses
from wmtk.models.conv import ConvDecoder, ConvEncoder, require_image_size, to_float
from wmtk.models.distributions import Categorical, Latent
from wmtk.models.kernels.elu import elu
from wmtk.models.networks import MLP, initialize
from wmtk.models.rssm import RSSM, RSSMConfig, State
from wmtk.reprs import brief_repr
from wmtk.schedules import Scale, value
from wmtk.spaces import ArraySpec


class WorldModelConfig(Config):
    """Networks and loss of the world model. The defaults are the paper's for Atari."""

    rssm: RSSMConfig = RSSMConfig()
    cnn_depth: Width = 48  # channels of the first convolution
    layers: Depth = 4  # hidden layers of the heads and of the networks of vectors
    units: Width = 400
    kl_scale: Scale = 0.1  # β
    kl_balance: float | None = Field(0.8, ge=0, le=1)  # α; null is the plain KL
    free_nats: float = Field(0.0, ge=0)
    discount: float = Field(0.999, gt=0, le=1)  # γ
    image_scale: float = Field(1.0, ge=0)
    vector_scale: float = Field(1.0, ge=0)
    reward_scale: float = Field(1.0, ge=0)
    discount_scale: float = Field(5.0, ge=0)  # 0: no discount head, γ everywhere
    image_gradients: bool = True  # from the losses of observations into the states (ablation)
    reward_gradients: bool = True  # from the losses of reward and discount into the states
    # Applied to the targets of the reward head, not to stored rewards. tanh in the paper (Atari).
    reward_transform: Literal["tanh"] | None = None
    # Initialize decoders to the mean color of the first batch; the paper initializes them to gray.
    start_at_mean: bool = False


class Inputs(NamedTuple):
    """A batch as tensors: rows as in the dataset, discrete actions one-hot."""

    obs: Mapping[str, Tensor]  # each (B, T, …), images as bytes
    action: Tensor  # (B, T, A)
    reward: Tensor  # (B, T)
    terminal: Tensor  # (B, T) bool
    is_first: Tensor  # (B, T) bool
    mask: Tensor  # (B, T) bool

    def __repr__(self) -> str:
        return brief_repr(self)


class WorldModel(nn.Module):
    """Encoders, RSSM, decoders and heads for given observation and action spaces.

    To replace a part, override the method that makes it; see docs/custom-models.md.
    """

    def __init__(
        self, config: WorldModelConfig, obs: Mapping[str, ArraySpec], action_size: int
    ) -> None:
        super().__init__()
        self.config = config
        self.images = {key: spec for key, spec in obs.items() if spec.is_image}
        self.vectors = {key: spec for key, spec in obs.items() if not spec.is_image}
        for key, spec in self.images.items():
            require_image_size(key, spec.shape)
        if not obs:
            raise ConfigError("The model has no observations.", "Select at least one key.")
        self.vector_size = sum(spec.numbers for spec in self.vectors.values())
        self.encoders = nn.ModuleDict(
            {_module_name(key): self.make_encoder(spec) for key, spec in self.images.items()}
        )
        sizes: list[Any] = [encoder.size for encoder in self.encoders.values()]
        if self.vectors:
            self.vector_encoder = self.make_vector_encoder()
            sizes.append(self.vector_encoder.size)
        self.rssm = RSSM(config.rssm, action_size, sum(sizes), self.make_latent())
        feat = self.rssm.feat_size
        self.decoders = nn.ModuleDict(
            {_module_name(key): self.make_decoder(feat, spec) for key, spec in self.images.items()}
        )
        if self.vectors:
            self.vector_decoder = self.make_vector_decoder(feat)
        self.reward_head = self.make_reward_head(feat)
        self.discount_head = self.make_discount_head(feat) if config.discount_scale else None
        self.initialize()

    def make_encoder(self, spec: ArraySpec) -> nn.Module:
        """Images (N, 64, 64, C) in [−0.5, 0.5] → (N, size)."""
        return ConvEncoder(spec.shape[-1], self.config.cnn_depth)

    def make_vector_encoder(self) -> nn.Module:
        """Vectors (B, T, V) → (B, T, size), before the activation."""
        units = self.config.units
        return MLP(self.vector_size, units, self.config.layers - 1, units)

    def make_latent(self) -> Latent:
        return self.config.rssm.make_latent()

    def make_decoder(self, feat_size: int, spec: ArraySpec) -> nn.Module:
        """Features (N, F) → the means of images (N, 64, 64, C)."""
        return ConvDecoder(feat_size, spec.shape[-1], self.config.cnn_depth)

    def make_vector_decoder(self, feat_size: int) -> nn.Module:
        """Features (…, F) → the means of vectors (…, V)."""
        return MLP(feat_size, self.vector_size, self.config.layers, self.config.units)

    def make_reward_head(self, feat_size: int) -> nn.Module:
        """Features (…, F) → (…, 1), for `reward` and `reward_nll`."""
        return MLP(feat_size, 1, self.config.layers, self.config.units)

    def make_discount_head(self, feat_size: int) -> nn.Module:
        """Features (…, F) → logits (…, 1)."""
        return MLP(feat_size, 1, self.config.layers, self.config.units)

    def initialize(self) -> None:
        """Initialize all weights with Glorot's uniform distribution, and biases with zeros."""
        initialize(self)
        self.rssm.initialize()
        for decoder in self.decoders.values():
            if isinstance(decoder, ConvDecoder):
                decoder.initialize()

    def encode(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Observations (B, T, …) → embeddings (B, T, E)."""
        parts = []
        for key in self.images:
            x = obs[key]
            B, T = x.shape[:2]
            embed = self.encoders[_module_name(key)](to_float(x.flatten(0, 1)))
            parts.append(embed.reshape(B, T, -1))
        if self.vectors:
            parts.append(elu(self.vector_encoder(self.vector(obs))))
        return torch.cat(parts, -1)

    def vector(self, obs: Mapping[str, Tensor]) -> Tensor:
        """All observations other than images, concatenated: (B, T, V)."""
        parts = (obs[key].to(torch.float32) for key in self.vectors)
        return torch.cat([part.reshape(*part.shape[:2], -1) for part in parts], -1)

    def observe(self, inputs: Inputs, state: State | None = None, *, sample: bool = True) -> State:
        """The posterior states of a batch: (B, T, …)."""
        embed = self.encode(inputs.obs)
        return self.rssm.observe(embed, inputs.action, inputs.is_first, state, sample=sample)

    def decode(self, feat: Tensor) -> dict[str, Tensor]:
        """The means of images in [−0.5, 0.5] for features (…, F): each (…, 64, 64, C)."""
        flat = feat.reshape(-1, feat.shape[-1])
        return {
            key: self.decoders[_module_name(key)](flat).reshape(*feat.shape[:-1], *spec.shape)
            for key, spec in self.images.items()
        }

    def reward(self, feat: Tensor) -> Tensor:
        """The expected reward of arriving at states, in the transformed unit: (…)."""
        mean: Tensor = self.reward_head(feat).squeeze(-1)
        return mean

    def transform_reward(self, reward: Tensor) -> Tensor:
        """Convert rewards of the task to the unit of `reward`, by `config.reward_transform`."""
        return reward if self.config.reward_transform is None else torch.tanh(reward)

    def discount(self, feat: Tensor) -> Tensor:
        """The expected discount of states: γ times the probability that no episode ends, (…)."""
        if self.discount_head is None:
            return torch.full_like(feat[..., 0], self.config.discount)
        return torch.sigmoid(self.discount_head(feat).squeeze(-1))

    def start_at_mean(self, inputs: Inputs) -> None:
        """Initialize the decoders to the mean color of a batch, so that codes do not collapse."""
        for key in self.images:
            decoder = self.decoders[_module_name(key)]
            if isinstance(decoder, ConvDecoder):
                decoder.start_at(to_float(inputs.obs[key][inputs.mask]).mean((0, 1, 2)))

    def loss(self, inputs: Inputs, step: int = 0) -> tuple[Tensor, State, dict[str, Tensor]]:
        """The loss of a batch at an update, its posterior states (B, T, …), and metrics."""
        config, mask = self.config, inputs.mask
        post = self.observe(inputs)
        prior = self.rssm.prior(post.deter)
        latent = self.rssm.latent
        kl = losses.balanced_kl(latent, post.dist_params, prior, mask, config.kl_balance)
        # Clamped after averaging over batch and time: zero gradient below the free nats.
        terms = {"kl": value(config.kl_scale, step) * kl.clamp(min=config.free_nats)}
        terms |= self._likelihoods(post.feat, inputs)
        loss = torch.stack(list(terms.values())).sum()
        with torch.no_grad():
            metrics = {f"loss/{name}": term.detach() for name, term in terms.items()}
            metrics["loss/total"] = loss.detach()
            metrics["kl"] = kl.detach()
            for name, dist_params in {"posterior": post.dist_params, "prior": prior}.items():
                metrics[f"entropy/{name}"] = losses.masked_mean(latent.entropy(dist_params), mask)
            if isinstance(latent, Categorical):
                metrics["codes/perplexity"] = losses.code_perplexity(latent, post.dist_params, mask)
        return loss, post, metrics

    def _likelihoods(self, feat: Tensor, inputs: Inputs) -> dict[str, Tensor]:
        """The negative log-likelihoods, scaled and averaged over the rows of the mask."""
        config, mask = self.config, inputs.mask
        obs_feat = feat if config.image_gradients else feat.detach()
        reward_feat = feat if config.reward_gradients else feat.detach()
        terms = {}
        weights = losses.mean_weights(mask).flatten()
        for key in self.images:
            decoder, image = self.decoders[_module_name(key)], inputs.obs[key].flatten(0, 1)
            nll = losses.image_nll(decoder, obs_feat.flatten(0, 1), image, weights)
            terms[f"image/{key}"] = config.image_scale * nll
        if self.vectors:
            nll = losses.gaussian_nll(self.vector_decoder(obs_feat), self.vector(inputs.obs), 1)
            terms["vector"] = config.vector_scale * losses.masked_mean(nll, mask)
        nll = self.reward_nll(reward_feat, inputs.reward)
        terms["reward"] = config.reward_scale * losses.masked_mean(nll, mask)
        if self.discount_head is not None:
            logits = self.discount_head(reward_feat).squeeze(-1)
            nll = losses.discount_nll(logits, inputs.terminal, config.discount)
            terms["discount"] = config.discount_scale * losses.masked_mean(nll, mask)
        return terms

    def reward_nll(self, feat: Tensor, reward: Tensor) -> Tensor:
        """−ln p(reward | feat), for rewards in the unit of the task: (…)."""
        return losses.gaussian_nll(self.reward(feat), self.transform_reward(reward), 0)


def _module_name(key: str) -> str:
    """A key as a valid module name, without dots and slashes."""
    return key.replace(".", "_dot_").replace("/", "_slash_")
