"""Predictions of a world model for batches of recorded windows, as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmtk.agent.batch_tensors import ActionCodec
from wmtk.agent.outputs import Floats, OpenLoop, PolicyRollout, Posterior
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.conv import to_bytes
from wmtk.models.distributions import Binary, Categorical, Gaussian
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.state_dict import fork_rng


@torch.no_grad()
def observe_batch(model: WorldModel, inputs: Inputs, seed: int = 0) -> Posterior:
    """Posterior and prior at every row of a batch; latents are sampled."""
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
        posterior=distributions(model, post.dist_params),
        prior=distributions(model, model.rssm.prior(post.deter)),
        true_reward=_numpy(model.transform_reward(inputs.reward)),
    )


@torch.no_grad()
def predict_batch(
    model: WorldModel, inputs: Inputs, context: int, horizon: int, samples: int, seed: int = 0
) -> OpenLoop:
    """Open-loop predictions of `horizon` rows after `context` observed rows (sampled)."""
    with fork_rng(seed):
        _, imagined = open_loop(model, inputs, context=context, horizon=horizon, samples=samples)
    feat = imagined.feat.reshape(-1, samples, *imagined.feat.shape[1:])  # (N, S, H, F)
    return OpenLoop(decoded(model, feat), _numpy(model.reward(feat)), _numpy(model.discount(feat)))


@torch.no_grad()
def rollout_policy(
    model: WorldModel,
    actor_critic: ActorCritic,
    actions: ActionCodec,
    inputs: Inputs,
    *,
    context: int,
    horizon: int,
    samples: int = 1,
    sample: bool = False,
    seed: int = 0,
) -> PolicyRollout:
    """`horizon` imagined steps of the actor after `context` observed rows; latents are sampled.

    Actions are the most likely ones, or sampled with `sample`.
    """
    assert context <= inputs.reward.shape[1], (context, inputs.reward.shape)
    N = len(inputs.reward)
    with fork_rng(seed):
        posterior = model.observe(window(inputs, slice(0, context)))
        state = State(*(part.repeat_interleave(samples, 0) for part in posterior.at(-1)))
        imagined_actions, feats = [], []
        for _ in range(horizon):
            imagined_actions.append(actor_critic.act(state.feat, sample=sample))
            state = model.rssm.imagine_step(state, imagined_actions[-1])
            feats.append(state.feat)
    lead = (N, samples, horizon)
    feat = torch.stack(feats, 1).reshape(*lead, -1)  # (N, S, H, F)
    action = actions.decode(torch.stack(imagined_actions, 1).flatten(0, 1))  # (N·S·H, …)
    return PolicyRollout(
        obs=decoded(model, feat),
        action=action.reshape(*lead, *action.shape[1:]),
        reward=_numpy(model.reward(feat)),
        discount=_numpy(model.discount(feat)),
        value=_numpy(actor_critic.critic(feat).squeeze(-1)),
    )


@torch.no_grad()
def open_loop(
    model: WorldModel, inputs: Inputs, *, context: int, horizon: int, samples: int = 1
) -> tuple[State, State]:
    """Posterior states (B, C, …) of the context, and imagined states (B·S, H, …) after it."""
    assert context + horizon <= inputs.reward.shape[1], (context, horizon, inputs.reward.shape)
    posterior = model.observe(window(inputs, slice(0, context)))
    last = State(*(part.repeat_interleave(samples, 0) for part in posterior.at(-1)))
    actions = inputs.action[:, context : context + horizon].repeat_interleave(samples, 0)
    return posterior, model.rssm.imagine(last, actions)


def window(inputs: Inputs, rows: slice) -> Inputs:
    """Some rows of all windows."""
    obs, *rest = inputs
    return Inputs({key: x[:, rows] for key, x in obs.items()}, *(x[:, rows] for x in rest))


@torch.no_grad()
def decoded(model: WorldModel, feat: Tensor) -> dict[str, NDArray[Any]]:
    """Decode features (…, F) to observations: images as uint8, everything else as float32."""
    obs: dict[str, NDArray[Any]] = {
        key: to_bytes(image).cpu().numpy() for key, image in model.decode(feat).items()
    }
    if model.vectors:
        sizes = [spec.numbers for spec in model.vectors.values()]
        parts = model.vector_decoder(feat).split(sizes, -1)
        for (key, spec), part in zip(model.vectors.items(), parts, strict=True):
            obs[key] = _numpy(part.reshape(*part.shape[:-1], *spec.shape))
    return obs


def distributions(model: WorldModel, dist_params: Tensor) -> Floats:
    """The distribution of each latent variable, (…, V, K), as in `Posterior`."""
    latent = model.rssm.latent
    if isinstance(latent, Categorical):
        return _numpy(torch.softmax(latent.per_variable(dist_params), -1))
    if isinstance(latent, Binary):
        return _numpy(torch.stack([torch.sigmoid(-dist_params), torch.sigmoid(dist_params)], -1))
    assert isinstance(latent, Gaussian), latent
    return _numpy(torch.stack(latent.moments(dist_params), -1))


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.float().cpu().numpy()
    return array
