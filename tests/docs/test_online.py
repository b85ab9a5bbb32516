"""docs/online.md: its commands and its program work, with a smaller agent and fewer steps."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from wmtk.training.pace import OnlineConfig
from wmtk.training.presets import PRESETS, training_config
from wmtk.training.run import Run

pytest.importorskip("torch")
pytest.importorskip("ale_py")
pytest.importorskip("dm_control")
pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "online.md").read_text()
SMALL = {"model.depth": 2, "model.layers": 1, "model.rssm.deter": 8, "model.rssm.hidden": 8}
SMALL |= {"model.rssm.stoch": 2, "model.rssm.classes": 4, "data.batch_size": 2, "data.length": 6}
SMALL |= {"behaviour.layers": 1, "behaviour.units": 8, "behaviour.horizon": 2, "model.units": 8}
PACE = {"online.prefill": 30, "online.pretrain": 1, "online.every": 20, "online.episodes": 1}


def shortened(line: str) -> list[str]:
    """The same command for less: a hundredth of the steps, episodes of a moment."""
    words = shlex.split(re.sub(r"--steps (\d+)00\b", r"--steps \1", line))
    if words[0] not in ("online", "train-model"):
        return words
    changes = SMALL | PACE if words[0] == "online" else SMALL
    given = [word.partition("=")[0] for word in words]
    for name, value in changes.items():
        if name not in given:
            words += ["--set", f"{name}={value}"]
    if "atari_pong" in words:
        steps = words.index("--steps") + 1
        words[steps] = "100"
        words += ["--task-set", "time_limit=240", "--workers", "0"]
    if "dmc_cartpole_balance" in words:
        words += ["--task-set", "time_limit=120", "--workers", "0"]
    return words


def test_the_page_works(tmp_path, monkeypatch, run_wmtk) -> None:
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^\$ wmtk (.*)$", PAGE, re.MULTILINE):
        done = run_wmtk(*shortened(line))
        assert done.exit_code == 0, (line, done.stderr)
    assert Run(Path("runs/catch")).step == 1 + (300 - 30) // 20
    assert Run(Path("runs/pong")).about["env"]["sticky"] == 0
    assert Run(Path("runs/again")).about["init"]["run"] == "runs/catch"
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    printed: list[str] = []
    small = f"overrides={{**{SMALL | PACE!r}, "
    exec(
        program.replace("overrides={", small).replace("4000", "150"),
        {"print": lambda *values: printed.append(" ".join(map(str, values)))},
    )
    assert printed == ["online"]


def test_the_table_says_what_the_presets_say() -> None:
    rows = re.findall(r"^\| `online\.(\w+)` \|(.*)\|$", PAGE, re.MULTILINE)
    assert {name for name, _ in rows} == set(OnlineConfig.model_fields) - {
        "learn_model",
        "learn_behaviour",
    }
    for name, cells in rows:
        shown = [cell.strip().replace(",", "") for cell in cells.split("|")[:3]]
        for preset, cell in zip(("atari", "dmc_vision", "tiny"), shown, strict=True):
            value = getattr(training_config(preset).online, name)
            assert cell == (f"{value:g}" if isinstance(value, float) else str(value)) or (
                not cell and value == getattr(OnlineConfig(), name)
            ), (name, preset)
    for preset in PRESETS:
        assert f"`{preset}`" in PAGE
