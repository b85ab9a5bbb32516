"""What objects look like at a prompt: bounded, and without the numbers of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import wmtk
from wmtk.agent.outputs import LatentState
from wmtk.collecting import EpisodeResult, EvalReport
from wmtk.datasets import Episode, Provenance, SequenceSampler
from wmtk.reprs import MAX_LENGTH, brief
from wmtk.runs.run_directory import Run
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy


@pytest.fixture
def agent(dataset, config, tmp_path) -> Any:
    train_model([wmtk.Source(dataset)], tmp_path / "model", config, updates=2)
    train_policy(
        tmp_path / "model",
        tmp_path / "agent",
        updates=2,
        datasets=[wmtk.Source(dataset)],
        episodes=0,
    )
    return wmtk.load(tmp_path / "agent")


def test_objects_show_what_they_are(agent, dataset) -> None:
    episode = dataset[0]
    T, path = episode.length + 1, agent.run.path
    count = sum(x.numel() for m in (agent.model, agent.actor_critic) for x in m.parameters())
    row = f"float32[1, {T}, 8]"
    spaces = "obs={'image': 'box 64×64×1 uint8'}, action='discrete(3)'"
    about = f"'{path}', kind='policy', step=2, task='wmtk/Catch-v0'"
    batch = SequenceSampler(dataset, batch_size=2, length=6).sample()
    shown = {
        f"LoadedAgent({about}, {spaces}, parameters={count:,}, device='cpu')": agent,
        f"Run({about})": agent.run,
        f"ActorPolicy('agent@2', sample=False, seed=(0,), {spaces}, device='cpu')": agent.policy,
        f"Schema({spaces})": agent.schema,
        "ActionCodec('discrete(3)', size=3)": agent.actions,
        "ObsCodec({'image': 'box 64×64×1 uint8'})": agent.observations,
        f"EpisodeTable(episodes=12, steps={dataset.num_steps})": dataset.episodes,
        "EpisodePrediction(obs={'image': uint8[1, 9, 64, 64, 1]}, reward=float32[1, 9], "
        "discount=float32[1, 9])": agent.predict(episode, context=5, horizon=9),
        f"State(deter={row}, stoch={row}, dist_params={row})": agent.observe(episode),
        "LatentState(deter=float32[2, 3], codes=int16[2, 4])": LatentState(
            np.zeros((2, 3), np.float32), np.zeros((2, 4), np.int16)
        ),
    }
    for text, value in shown.items():
        assert repr(value) == text
    for value, parts in (
        (episode, (f"Episode(length={T - 1}, obs=", f"uint8[{T}, 64, 64, 1]", "terminated=True")),
        (batch, ("Batch(obs={'image': uint8[2, 6, 64, 64, 1]}", "mask=bool[2, 6]", "step=0")),
        (agent.run.checkpoints.load(), ("Checkpoint(step=2", "in total}")),
        (agent.episode_inputs(episode), ("Inputs(obs=", f"action=float32[1, {T}, 3]")),
    ):
        text = repr(value)
        assert [part for part in parts if part not in text] == [], text
        assert len(text) <= MAX_LENGTH
        assert "\n" not in text
        assert "tensor(" not in text
        assert "array(" not in text


def test_all_that_an_agent_offers_shows_itself(agent) -> None:
    names = [name for name in dir(agent) if not name.startswith("_")]
    assert [name for name in names if " object at 0x" in repr(getattr(agent, name))] == []


def test_representations_are_bounded() -> None:
    rows = np.zeros(3)
    many = {f"sensor/{i}": rows for i in range(1000)}
    text = "x" * 10_000 + "\x1b[31m"
    provenance = Provenance(policy=text, extra={"deep": [text] * 50})
    trials = tuple(EpisodeResult(float(i), i) for i in range(10_000))
    for value in (
        Episode(many, rows, rows, False, True, many, provenance=provenance),
        EvalReport(text, text, 0, trials, None, 1, 0, 1.0, False),
        wmtk.Schema(
            {"x": wmtk.spaces.ArraySpec("box", (9, 9), "float32", (0.0,) * 81, 1.0)}, ACTION
        ),
    ):
        assert len(repr(value)) <= MAX_LENGTH
        assert "\x1b" not in repr(value)
    assert brief(torch.zeros(2, 0, dtype=torch.bool)) == "bool[2, 0]"
    assert brief(np.float32(1)) == "float32[]"


ACTION = wmtk.spaces.ArraySpec("multi_discrete", (500,), "int64", 0, 3)


def test_a_damaged_run_still_shows_itself(dataset, config, tmp_path) -> None:
    run = train_model([wmtk.Source(dataset)], tmp_path / "run", config, updates=1)
    (run.checkpoints.folder / "latest").write_text("nothing")
    assert "step=damaged" in repr(Run(run.path))
