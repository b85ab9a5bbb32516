"""The folders, the package list, the links and what a wheel holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import wmtk

ROOT = Path(__file__).parents[1]
LINKED = ("cli", "datasets", "viz")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def package_folders(folder: Path, name: str) -> set[str]:
    """The import names of the packages under `folder`, without following links."""
    found = {name} if (folder / "__init__.py").exists() else set()
    for child in folder.iterdir():
        if child.is_dir() and not child.is_symlink():
            found |= package_folders(child, f"{name}.{child.name}")
    return found


def test_package_list_equals_the_tree():
    tree = package_folders(ROOT / "wmtk", "wmtk")
    for folder in LINKED:
        tree |= package_folders(ROOT / folder, f"wmtk.{folder}")
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == tree


@pytest.mark.parametrize("folder", LINKED)
def test_links_are_relative_and_resolve(folder):
    link = ROOT / "wmtk" / folder
    assert os.readlink(link) == f"../{folder}"
    assert link.resolve() == (ROOT / folder).resolve()


def test_datasets_cannot_be_imported_by_its_bare_name():
    command = [sys.executable, "-c", "import datasets"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "wmtk.datasets" in done.stderr


def test_importing_everything_light_leaves_torch_out():
    code = (
        "import sys, wmtk.datasets, wmtk.envs, wmtk.cli.main, wmtk.cli.doctor;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd="/").returncode == 0


def test_version_is_stated_once():
    assert "version" in PYPROJECT["project"]["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", wmtk.__version__)


def test_every_requirement_is_pinned():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {
        canonicalize_name(name): version
        for name, version in (line.split("==") for line in lines if not line.startswith("#"))
    }
    project = PYPROJECT["project"]
    for wanted in [project["dependencies"], *project["optional-dependencies"].values()]:
        for requirement in map(Requirement, wanted):
            if requirement.name != "wmtk":
                pinned = pins[canonicalize_name(requirement.name)]
                assert requirement.specifier.contains(pinned), requirement


def test_no_tracked_file_names_a_machine():
    """Absolute paths of somebody's machine have no place in the repository."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git clone")
    private = re.compile(rb"(?<![\w.])/(home|Users|root|work)/[a-z]")
    for name in filter(None, tracked.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and not path.is_symlink() and path != Path(__file__):
            assert not private.search(path.read_bytes()), name


def test_wheel_holds_only_wmtk(tmp_path):
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
    ]
    source = tmp_path / "source"  # a copy, as setuptools leaves a build folder behind
    for name in ("wmtk", *LINKED, "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        copy_source(name, source)
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name == f"wmtk-{wmtk.__version__}-py3-none-any.whl"
    assert {name.split("/")[0] for name in names} == {
        "wmtk",
        f"wmtk-{wmtk.__version__}.dist-info",
    }
    modules = {name for name in names if name.startswith("wmtk/")}
    assert {"wmtk/py.typed", "wmtk/cli/main.py", "wmtk/datasets/__init__.py"} <= modules
    # Each module once: a link that was followed would show as wmtk/wmtk or twice.
    assert len(modules) == len([name for name in names if name.startswith("wmtk/")])
    assert not [name for name in modules if "test" in name]


def copy_source(name: str, destination: Path) -> None:
    source = ROOT / name
    destination.mkdir(exist_ok=True)
    if source.is_dir():
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, destination / name, symlinks=True, ignore=ignore)
    else:
        shutil.copy(source, destination / name)
