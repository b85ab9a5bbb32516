"""`wmtk doctor`."""

from __future__ import annotations

import json
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from wmtk.cli import doctor as doctor_module
from wmtk.cli.doctor import (
    RENDERING_FIX,
    Fact,
    ffmpeg_fact,
    gather,
    package_fact,
    package_facts,
    rendering_fact,
    summary,
    torch_fact,
)

ROOT = Path(__file__).parents[2]


def not_found(*_: object) -> None:
    raise metadata.PackageNotFoundError


def test_every_requirement_is_looked_at():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    features = [v for k, v in project["optional-dependencies"].items() if k not in ("all", "dev")]
    wanted = {
        Requirement(line).name for lines in [project["dependencies"], *features] for line in lines
    }
    assert {fact.name for fact in package_facts()} == wanted


def test_package_versions():
    version = metadata.version("numpy")
    assert package_fact("", "numpy", ">=1.26") == Fact("core", "numpy", version)
    old = package_fact("dmc", "numpy", "<1")
    assert old.status == "broken"
    assert old.value == f"{version}, but <1 is needed"


@pytest.mark.parametrize(
    ("extra", "status", "fix"),
    [("", "broken", "pip install wmtk"), ("atari", "missing", "pip install 'wmtk[atari]'")],
)
def test_missing_packages(extra, status, fix):
    fact = package_fact(extra, "no-such-package", "")
    assert (fact.status, fact.fix) == (status, fix)


def test_a_source_folder_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(metadata, "requires", not_found)
    (fact,) = package_facts()
    assert fact.fix == "pip install -e ."


@pytest.mark.parametrize(
    ("environ", "libraries", "value", "status"),
    [
        ({}, {"libEGL.so.1", "libOSMesa.so.8"}, "egl", "ok"),
        ({}, {"libOSMesa.so.6"}, "osmesa", "ok"),
        ({"DISPLAY": ":0"}, {"libEGL.so.1"}, "glfw", "ok"),
        ({"MUJOCO_GL": "osmesa"}, {"libEGL.so", "libOSMesa.so"}, "osmesa (MUJOCO_GL)", "ok"),
        ({"MUJOCO_GL": "osmesa"}, {"libEGL.so"}, "MUJOCO_GL=osmesa, which does not load", "broken"),
        ({"MUJOCO_GL": "EGL"}, {"libEGL.so"}, "egl (MUJOCO_GL)", "ok"),
        ({"MUJOCO_GL": "x"}, set(), "MUJOCO_GL=x is none of glfw, egl, osmesa", "broken"),
        ({}, set(), "no backend loads", "missing"),
    ],
)
def test_rendering(monkeypatch, environ, libraries, value, status):
    monkeypatch.setattr("sys.platform", "linux")
    fact = rendering_fact(environ, libraries.__contains__)
    assert (fact.value, fact.status) == (value, status)


def test_rendering_fixes(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    assert rendering_fact({}, lambda _: False).fix == RENDERING_FIX
    assert rendering_fact({"MUJOCO_GL": "glfw"}, lambda _: True).fix == "export MUJOCO_GL=egl"


def fake_torch(cuda: bool = False, mps: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: cuda, device_count=lambda: 2, get_device_name=lambda i: f"GPU{i}"
        ),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
        get_num_threads=lambda: 2,
    )


@pytest.mark.parametrize(
    ("torch", "value"),
    [
        (fake_torch(cuda=True), "CUDA: GPU0, GPU1"),
        (fake_torch(mps=True), "MPS"),
        (fake_torch(), "CPU, 2 threads"),
    ],
)
def test_torch_device(monkeypatch, torch, value):
    monkeypatch.setattr(doctor_module, "import_module", lambda name: torch)
    assert torch_fact().value == value


@pytest.mark.parametrize(
    ("error", "status"), [(ModuleNotFoundError("x"), "missing"), (OSError("x"), "broken")]
)
def test_imports_that_fail(monkeypatch, error, status):
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr(doctor_module, "import_module", fail)
    for fact in (torch_fact(), ffmpeg_fact()):
        assert fact.status == status
        assert fact.fix


def test_summary():
    ok = Fact("core", "a", "1")
    missing = Fact("atari", "b", "", "missing", "pip install b")
    broken = Fact("core", "c", "", "broken", "pip install c")
    assert summary([ok]) == "Everything is installed."
    assert "Optional and missing: b." in summary([ok, missing])
    assert "Does not work: c." in summary([ok, missing, broken])


@pytest.fixture
def found(monkeypatch):
    """What `gather` finds, for the tests of the command."""
    facts = [
        Fact("core", "a", "1"),
        Fact("atari", "b", "no", "missing", "pip install 'wmtk[atari]'"),
    ]
    monkeypatch.setattr(doctor_module, "gather", lambda: facts)
    return facts


def test_what_is_optional_may_be_missing(run_wmtk, found):
    result = run_wmtk("doctor")
    assert result.exit_code == 0
    assert "pip install 'wmtk[atari]'" in result.stdout
    assert "Optional and missing: b." in result.stdout


def test_what_is_broken_is_a_failure(run_wmtk, found):
    found.append(Fact("core", "c", "", "broken"))
    assert run_wmtk("doctor").exit_code == 1


def test_json(run_wmtk, found):
    facts = json.loads(run_wmtk("doctor", "--json").stdout)
    assert facts[1] == {
        "section": "atari",
        "name": "b",
        "value": "no",
        "status": "missing",
        "fix": "pip install 'wmtk[atari]'",
    }


def test_this_machine():
    facts = {(fact.section, fact.name): fact for fact in gather()}
    assert {"Python", "memory", "cores"} <= {name for _, name in facts}
    assert all(fact.value for fact in facts.values())
