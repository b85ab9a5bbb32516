"""`wmtk doctor`: versions, devices, missing packages and the commands that install them."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

import wmtk
from wmtk.cli.common.console import emit, human_bytes, human_count
from wmtk.cli.common.options import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

# missing: an optional package is absent; broken: wmtk itself or something installed does not work.
Status = Literal["ok", "missing", "broken"]

# The backends in the order in which dm_control tries them, with the libraries that each loads.
BACKENDS: dict[str, tuple[str, ...]] = {
    "glfw": (),
    "egl": ("libEGL.so.1", "libEGL.so"),
    "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),
}
RENDERING_FIX = "apt-get install libegl1 libgl1-mesa-dri"
# Extras that combine others, or that are for the development of wmtk.
NOT_FEATURES = {"all", "dev"}


@dataclass(frozen=True)
class Fact:
    """One row of the table; `fix` is a command that repairs a missing or broken entry."""

    section: str
    name: str
    value: str
    status: Status = "ok"
    fix: str = ""


def gather() -> list[Fact]:
    """All rows of the table of `wmtk doctor`."""
    return [
        *system_facts(),
        *package_facts(),
        torch_fact(),
        rendering_fact(os.environ, _loads),
        ffmpeg_fact(),
    ]


def system_facts() -> Iterator[Fact]:
    """Versions of wmtk and Python, the platform, cores, memory and free disk space."""
    yield Fact("system", "wmtk", wmtk.__version__)
    yield Fact("system", "Python", platform.python_version())
    yield Fact("system", "platform", platform.platform())
    yield Fact("system", "cores", human_count(_cores()))
    yield Fact("system", "memory", _memory())
    yield Fact("system", "free disk here", human_bytes(shutil.disk_usage(Path.cwd()).free))


def package_facts() -> Iterator[Fact]:
    """Required packages and their installed versions, by extra ("core" for none).

    The requirements are read from the installed metadata of wmtk.
    """
    from packaging.requirements import Requirement

    try:
        requirements = [Requirement(text) for text in metadata.requires("wmtk") or []]
    except metadata.PackageNotFoundError:
        value = "unknown: wmtk runs from its source folder"
        yield Fact("core", "requirements", value, "missing", "pip install -e .")
        return
    extras = metadata.metadata("wmtk").get_all("Provides-Extra") or []
    listed: set[str] = set()
    for extra in ["", *(name for name in extras if name not in NOT_FEATURES)]:
        for requirement in requirements:
            marker = requirement.marker
            required = marker.evaluate({"extra": extra}) if marker else not extra
            if required and requirement.name not in listed:
                listed.add(requirement.name)
                yield package_fact(extra, requirement.name, str(requirement.specifier))


def package_fact(extra: str, name: str, specifier: str) -> Fact:
    """The installed version of `name`, checked against `specifier` (such as ">=3.2,<4")."""
    from packaging.specifiers import SpecifierSet

    section = extra or "core"
    fix = f"pip install 'wmtk[{extra}]'" if extra else "pip install wmtk"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Fact(section, name, "not installed", "missing" if extra else "broken", fix)
    if SpecifierSet(specifier).contains(version, prereleases=True):
        return Fact(section, name, version)
    return Fact(
        section, name, f"{version}, but {specifier} is needed", "broken", f"{fix} --upgrade"
    )


def torch_fact() -> Fact:
    """The device that models run on by default."""
    try:
        # By name, because wmtk.cli must not depend on torch; this takes a second or two.
        torch = import_module("torch")
    except ModuleNotFoundError:
        return Fact("devices", "torch", "not installed", "missing", "pip install 'wmtk[train]'")
    except Exception as error:  # a damaged install can fail in any way
        fix = "pip install --force-reinstall torch"
        return Fact("devices", "torch", f"does not import: {error}", "broken", fix)
    return Fact("devices", "torch", _device(torch))


def _device(torch: Any) -> str:
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return f"CUDA: {', '.join(names)}"
    if torch.backends.mps.is_available():
        return "MPS"
    return f"CPU, {human_count(torch.get_num_threads(), 'thread')}"


def rendering_fact(environ: Mapping[str, str], loads: Callable[[str], bool]) -> Fact:
    """The rendering backend of dm_control; `loads` tests whether a shared library loads."""

    def works(backend: str) -> bool:
        if backend == "glfw":  # opens a hidden window
            return (
                sys.platform == "darwin"
                or bool(environ.get("DISPLAY"))
                or bool(environ.get("WAYLAND_DISPLAY"))
            )
        return any(loads(library) for library in BACKENDS[backend])

    usable = [backend for backend in BACKENDS if works(backend)]
    chosen = environ.get("MUJOCO_GL", "").lower()
    if chosen and chosen not in BACKENDS:
        value = f"MUJOCO_GL={chosen} is none of {', '.join(BACKENDS)}"
        fix = f"export MUJOCO_GL={usable[0]}" if usable else "unset MUJOCO_GL"
        return Fact("devices", "rendering", value, "broken", fix)
    if chosen and chosen not in usable:
        value = f"MUJOCO_GL={chosen}, which does not load"
        fix = f"export MUJOCO_GL={usable[0]}" if usable else RENDERING_FIX
        return Fact("devices", "rendering", value, "broken", fix)
    if not usable:
        return Fact("devices", "rendering", "no backend loads", "missing", RENDERING_FIX)
    return Fact("devices", "rendering", f"{chosen} (MUJOCO_GL)" if chosen else usable[0])


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def ffmpeg_fact() -> Fact:
    """The ffmpeg version used to write videos."""
    try:
        ffmpeg = import_module("imageio_ffmpeg")
        return Fact("devices", "ffmpeg", str(ffmpeg.get_ffmpeg_version()))
    except ModuleNotFoundError:
        return Fact("devices", "ffmpeg", "not installed", "missing", "pip install 'wmtk[video]'")
    except Exception as error:  # the package is installed, but its program does not run
        value = f"does not run: {error}"
        return Fact("devices", "ffmpeg", value, "broken", "apt-get install ffmpeg")


def _cores() -> int:
    """The cores available to this process; in a container, fewer than those of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> str:
    total = human_bytes(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # macOS
        return total
    # Includes caches that Linux frees on demand.
    available = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return f"{total}, {human_bytes(int(available[0]) * 1024)} free" if available else total


def summary(facts: list[Fact]) -> str:
    """The closing line."""

    def names(status: Status) -> str:
        return ", ".join(dict.fromkeys(fact.name for fact in facts if fact.status == status))

    broken, missing = names("broken"), names("missing")
    parts = []
    if broken:
        parts.append(f"Does not work: {broken}.")
    if missing:
        parts.append(f"Optional and missing: {missing}.")
    if not parts:
        return "Everything is installed."
    return " ".join([*parts, "The commands on the right install what is missing."])


def render(facts: list[Fact]) -> RenderableType:
    """The facts as a table, and the summary."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    styles = {"ok": "", "missing": "yellow", "broken": "bold red"}
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    table.add_column("name", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("to install", no_wrap=True, overflow="fold")  # unwrapped, to be copied
    section = ""
    for fact in facts:
        heading = fact.section if fact.section != section else ""
        section = fact.section
        value = Text(fact.value, styles[fact.status])
        table.add_row(Text(heading, "dim"), fact.name, value, Text(fact.fix))
    return Group(table, "", Text(summary(facts)))


def doctor(
    json: Json = False,
) -> None:
    """Show versions, devices and missing packages.

    Optional packages that are missing are listed with the command that installs them. The exit code
    is 1 if a required package is missing or something does not work.

    \b
    Example:
      wmtk doctor
      wmtk doctor --json
    """
    facts = gather()
    emit(facts, json=json, render=render)
    if any(fact.status == "broken" for fact in facts):
        raise typer.Exit(1)
