"""Every preset and every ablation starts, runs and goes on, wherever it can be played."""

from __future__ import annotations

import pytest

from wmtk.envs import resolve
from wmtk.runs.replay import replay_steps
from wmtk.training.online.train import online
from wmtk.training.presets import ABLATIONS, PRESETS, training_config

# Small enough for a test; everything else is the preset's.
TINY = {
    "model.cnn_depth": 2,
    "model.layers": 1,
    "model.units": 8,
    "model.rssm.deter": 8,
    "model.rssm.hidden": 8,
    "model.rssm.stoch": 2,
    "model.rssm.classes": 4,
    "behavior.layers": 1,
    "behavior.units": 8,
    "behavior.horizon": 2,
    "data.batch_size": 2,
    "data.length": 5,
    "online.prefill": 20,
    "online.pretrain": 1,
    "online.train_every": 10,
    "online.envs": 1,
    "online.evaluate": 40,
    "online.episodes": 1,
}
CATCH, REACH = ("wmtk/Catch-v0", {}), ("wmtk/Reach-v0", {})
PONG = ("atari_pong", {"time_limit": 240})
CARTPOLE = ("dmc_cartpole_balance", {"time_limit": 80})
AGENTS = [
    *((preset, (), CATCH) for preset in PRESETS),
    ("atari", (), PONG),
    ("montezuma", (), PONG),
    ("tiny", (), PONG),
    ("dmc_vision", (), CARTPOLE),
    ("humanoid", (), CARTPOLE),
    ("tiny", (), CARTPOLE),
    ("dmc_vision", (), REACH),
    *(("tiny", (ablation,), CATCH) for ablation in ABLATIONS),
    *(
        ("atari", (ablation,), PONG)
        for ablation in ("schedules", "mixed-gradients", "no-discrete-latents")
    ),
    *(("dmc_vision", (ablation,), CARTPOLE) for ablation in ("no-kl-balancing", "binary-latents")),
    *(("tiny", (ablation,), REACH) for ablation in ("binary-latents", "no-discrete-latents")),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "ablations", "task"),
    AGENTS,
    ids=[
        "-".join([preset, *ablations, task[0].split("/")[-1]]) for preset, ablations, task in AGENTS
    ],
)
def test_it_starts_runs_and_resumes(preset, ablations, task, tmp_path) -> None:
    name, options = task
    resolved = resolve(name, **options)
    config = training_config(preset, ablations, TINY)
    out = tmp_path / "run"
    online(resolved, out, config, steps=30, workers=0)
    before = replay_steps(out)
    run = online(resolved, out, config, steps=before + 20, workers=0, resume=True)
    assert run.step == config.online.updates_at(before + 20)
    assert replay_steps(out) >= before + 20
