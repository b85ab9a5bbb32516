"""A model looked at: what it sees, expects and imagines of recorded windows, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmtk.agent.open_loop import open_loop
from wmtk.agent.outputs import Floats, OpenLoop, Posterior
from wmtk.models.conv import to_bytes
from wmtk.models.distributions import Binary, Categorical, Gaussian
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.state_dict import fork_rng


@torch.no_grad()
def observe_batch(model: WorldModel, inputs: Inputs, seed: int = 0) -> Posterior:
    """Every row of a batch is seen; the latents are drawn."""
    with fork_rng(seed):
        post = model.observe(inputs)
    feat = post.feat
    return Posterior(
        obs=decoded(model, feat),
        reward=_numpy(model.reward(feat)),
        discount=_numpy(model.discount(feat)),
        deter=_numpy(post.deter),
        stoch=_numpy(post.stoch),
        latent=model.config.rssm.latent,
        posterior=distributions(model, post.stats),
        prior=distributions(model, model.rssm.prior(post.deter)),
        true_reward=_numpy(model.transformed(inputs.reward)),
    )


@torch.no_grad()
def predict_batch(
    model: WorldModel, inputs: Inputs, context: int, horizon: int, samples: int, seed: int = 0
) -> OpenLoop:
    """`context` rows are seen, the next `horizon` imagined; the latents are drawn."""
    with fork_rng(seed):
        _, imagined = open_loop(model, inputs, context=context, horizon=horizon, samples=samples)
    feat = imagined.feat.reshape(-1, samples, *imagined.feat.shape[1:])  # (N, S, H, F)
    return OpenLoop(decoded(model, feat), _numpy(model.reward(feat)), _numpy(model.discount(feat)))


@torch.no_grad()
def decoded(model: WorldModel, feat: Tensor) -> dict[str, NDArray[Any]]:
    """All that features (…, F) stand for: images as bytes, everything else as numbers."""
    found: dict[str, NDArray[Any]] = {
        key: to_bytes(image).cpu().numpy() for key, image in model.decode(feat).items()
    }
    if model.vectors:
        sizes = [spec.numbers for spec in model.vectors.values()]
        parts = model.vector_decoder(feat).split(sizes, -1)
        for (key, spec), part in zip(model.vectors.items(), parts, strict=True):
            found[key] = _numpy(part.reshape(*part.shape[:-1], *spec.shape))
    return found


def distributions(model: WorldModel, stats: Tensor) -> Floats:
    """Each variable's distribution, as `Posterior` has it."""
    latent = model.rssm.latent
    if isinstance(latent, Categorical):
        return _numpy(torch.softmax(latent.logits(stats), -1))
    if isinstance(latent, Binary):
        return _numpy(torch.stack([torch.sigmoid(-stats), torch.sigmoid(stats)], -1))
    assert isinstance(latent, Gaussian), latent
    return _numpy(torch.stack(latent._moments(stats), -1))


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.float().cpu().numpy()
    return array
