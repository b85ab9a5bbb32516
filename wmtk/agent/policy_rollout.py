"""A policy inside of its world model, looked at: what it does and meets, as arrays."""

from __future__ import annotations

import torch

from wmtk.agent.batch_tensors import ActionCodec
from wmtk.agent.open_loop import window
from wmtk.agent.outputs import PolicyRollout
from wmtk.agent.predictions import decoded
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.state_dict import fork_rng


@torch.no_grad()
def rollout_policy(
    model: WorldModel,
    behavior: ActorCritic,
    actions: ActionCodec,
    inputs: Inputs,
    *,
    context: int,
    horizon: int,
    samples: int = 1,
    sample: bool = False,
    seed: int = 0,
) -> PolicyRollout:
    """`context` rows are seen, then the actor plays `horizon` steps; states are always drawn.

    Actions are the actor's likeliest, or drawn as well with `sample`.
    """
    assert context <= inputs.reward.shape[1], (context, inputs.reward.shape)
    N = len(inputs.reward)
    with fork_rng(seed):
        seen = model.observe(window(inputs, slice(0, context)))
        state = State(*(part.repeat_interleave(samples, 0) for part in seen.at(-1)))
        chosen, feats = [], []
        for _ in range(horizon):
            chosen.append(behavior.act(state.feat, sample=sample))
            state = model.rssm.imagine_step(state, chosen[-1])
            feats.append(state.feat)
    lead = (N, samples, horizon)
    feat = torch.stack(feats, 1).reshape(*lead, -1)  # (N, S, H, F)
    done = actions.decode(torch.stack(chosen, 1).flatten(0, 1))  # (N·S·H, …)
    return PolicyRollout(
        obs=decoded(model, feat),
        action=done.reshape(*lead, *done.shape[1:]),
        reward=model.reward(feat).float().cpu().numpy(),
        discount=model.discount(feat).float().cpu().numpy(),
        value=behavior.critic(feat).squeeze(-1).float().cpu().numpy(),
    )
