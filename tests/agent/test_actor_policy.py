"""An actor at play: its states are those of training, its slots are apart, its dice its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import wmtk
from wmtk.collecting import EpsilonGreedy, collect_episodes, dataset_for
from wmtk.datasets import Source
from wmtk.envs import resolve
from wmtk.errors import RunError, SchemaMismatchError
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy

BEHAVIOR = {"behavior.layers": 1, "behavior.units": 8, "behavior.horizon": 2}


@pytest.fixture(scope="module")
def runs(catch, tmp_path_factory):
    """A model run and a policy run."""
    from wmtk.datasets import Dataset
    from wmtk.training.presets import training_config

    folder = tmp_path_factory.mktemp("runs")
    small = {"model.cnn_depth": 2, "model.units": 8, "model.rssm.deter": 8, "model.rssm.hidden": 8}
    small |= {"model.rssm.stoch": 2, "model.rssm.classes": 4, "data.batch_size": 2}
    config = training_config("tiny", overrides={**small, "data.length": 6, **BEHAVIOR})
    train_model([Source(Dataset.open(catch))], folder / "model", config, updates=2)
    train_policy(folder / "model", folder / "policy", updates=2, episodes=0)
    return folder


@pytest.fixture
def agent(runs):
    return wmtk.load(runs / "policy")


def frames(episode, t: int) -> dict[str, np.ndarray]:
    return {key: rows[t] for key, rows in episode.obs.items()}


def test_it_sees_what_it_was_trained_on(agent, dataset) -> None:
    """Frame by frame with its own actions, against the whole of what happened at once."""
    policy = agent.make_policy(sample=True, seed=[3])
    episode = dataset[0]
    policy.begin(0)
    actions, states = [np.int64(0)], []
    for t in range(10):
        (action,) = policy.act([0], [frames(episode, t)])
        actions.append(action)
        states.append(policy.states([0]))
    seen = State(*(torch.stack(parts, 1) for parts in zip(*states, strict=True)))
    inputs = agent.episode_inputs(episode)
    first = inputs.is_first[:, :10]
    played = agent.actions.encode(np.array(actions[:10])[None])
    deter = torch.zeros(1, 8)
    stoch = torch.zeros(1, agent.model.rssm.latent.size)
    rssm = agent.model.rssm
    with torch.no_grad():
        embed = rssm.post_from_embed(agent.model.encode({"image": inputs.obs["image"][:, :10]}))
        for t in range(10):  # with the states that it drew, so that nothing is left to chance
            action = rssm.from_action(played[:, t] * ~first[:, t, None])
            deter = rssm.advance(deter, stoch, action)
            torch.testing.assert_close(seen.deter[:, t], deter, rtol=1e-4, atol=1e-5)
            dist_params = rssm.posterior(deter, embed[:, t])
            torch.testing.assert_close(seen.dist_params[:, t], dist_params, rtol=1e-4, atol=1e-5)
            stoch = seen.stoch[:, t]


def test_the_same_seed_gives_the_posterior_of_training(agent, dataset) -> None:
    """The public ways: `act` on raw frames one by one, and `loss` on the batch that it learns."""
    policy = agent.make_policy(sample=False, seed=[3])  # whose dice fall for states alone
    episode = dataset[0]
    policy.begin(0)
    played, states = [np.int64(0)], []
    for t in range(10):
        played += policy.act([0], [frames(episode, t)])
        states.append(policy.states([0]))
    batch = agent.episode_inputs(episode)
    batch = Inputs(
        {key: rows[:, :10] for key, rows in batch.obs.items()}, *(x[:, :10] for x in batch[1:])
    )
    batch = batch._replace(action=agent.actions.encode(np.array(played[:10])[None]))
    torch.manual_seed(int(np.random.SeedSequence([3]).generate_state(1)[0]))
    loss, trained, _ = agent.model.loss(batch)
    assert loss.requires_grad
    for t, state in enumerate(states):
        assert torch.equal(state.stoch[0], trained.stoch[0, t])
        torch.testing.assert_close(
            state.dist_params[0], trained.dist_params[0, t], rtol=1e-4, atol=1e-5
        )
        torch.testing.assert_close(state.deter[0], trained.deter[0, t], rtol=1e-4, atol=1e-5)


def test_slots_do_not_mix_and_episodes_are_forgotten(agent, dataset) -> None:
    together, alone = (agent.make_policy(sample=False) for _ in range(2))
    one, two = dataset[0], dataset[1]
    for t in range(5):
        together.act([0, 1], [frames(one, t), frames(two, t)])
        alone.act([1], [frames(two, t)])
    assert not torch.equal(together.states([0]).deter, together.states([1]).deter)
    before = together.states([1])
    together.begin(0)
    together.act([0], [frames(two, 0)])
    assert torch.equal(together.states([1]).deter, before.deter)
    fresh = agent.make_policy(sample=False)
    fresh.act([0], [frames(two, 0)])
    torch.testing.assert_close(together.states([0]).deter, fresh.states([0]).deter)
    torch.testing.assert_close(together.states([0]).dist_params, fresh.states([0]).dist_params)


def test_the_same_seed_plays_the_same_and_training_draws_what_it_would_have(agent, dataset) -> None:
    def play(seed: int) -> tuple[list[int], float]:
        torch.manual_seed(0)
        policy = agent.make_policy(sample=True, seed=[seed])
        policy.begin()
        actions = [int(policy.act([0], [frames(dataset[0], t)])[0]) for t in range(30)]
        return actions, torch.rand(()).item()

    torch.manual_seed(0)
    undisturbed = torch.rand(()).item()
    (first, left), (second, _), (other, _) = play(1), play(1), play(2)
    assert first == second != other
    assert left == undisturbed


def test_one_observation_as_the_environment_gave_it(agent) -> None:
    env = resolve("wmtk/Catch-v0").make()
    obs, _ = env.reset(seed=0)
    agent.policy.begin()
    for _ in range(5):
        action = agent.policy(obs)
        assert env.action_space.contains(action[()])
        obs, *_ = env.step(action)
    assert agent.value(agent.policy.states([0])).shape == (1,)
    with pytest.raises(SchemaMismatchError, match=r"has shape \(3,\)"):
        agent.policy(np.zeros(3))


def test_it_collects(agent, tmp_path) -> None:
    task = resolve("wmtk/Catch-v0")
    with dataset_for(task, tmp_path / "played.zarr") as dataset:
        policy = agent.make_policy(sample=True, seed=[0])
        mixed = EpsilonGreedy(policy, 0.1, dataset.schema.action, [0])
        collect_episodes(task, dataset, mixed, seed=0, episodes=3, envs=2)
        assert dataset[0].provenance.checkpoint == agent.hash
        assert dataset[0].provenance.policy == "policy@2 ε=0.1"


def test_a_model_without_an_actor_says_how_to_get_one(runs) -> None:
    model = wmtk.load(runs / "model")
    with pytest.raises(RunError, match="wmtk train-policy"):
        _ = model.policy
