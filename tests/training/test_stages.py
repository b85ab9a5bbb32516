"""The four stages in Python, with plain strings as arguments."""

from __future__ import annotations

from pathlib import Path

import wmtk


def test_the_four_stages_take_plain_strings(config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    wmtk.collect("wmtk/Catch-v0", "catch.zarr", episodes=8, seed=0)
    wmtk.train_model("catch.zarr", "runs/model", config, updates=2)
    wmtk.train_policy("runs/model", "runs/policy", updates=2, episodes=1)
    result = wmtk.evaluate("runs/policy", episodes=1)
    assert len(result.returns) == 1


def test_the_default_preset_is_that_of_the_commands() -> None:
    from wmtk.cli.common.options import PRESET
    from wmtk.training.presets import DEFAULT_PRESET, training_config

    assert PRESET == DEFAULT_PRESET
    assert training_config().preset == DEFAULT_PRESET
