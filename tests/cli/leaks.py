"""Runs wmtk commands one after the other in this process, and names what each of them leaves open.

python -X dev -W error tests/cli/leaks.py '["doctor"]' '["data", "list", "."]'
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from multiprocessing import resource_tracker

import psutil
from typer.main import get_command

PATIENCE = 60.0  # seconds in which threads of what was just freed may end


def descriptors() -> dict[int, str]:
    """Open files by descriptor, but those that multiprocessing keeps for the whole process."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # that of the listing itself
            continue
    kept = resource_tracker._resource_tracker._fd  # type: ignore[attr-defined]
    # multiprocessing's semaphores, and the fonts that matplotlib keeps open
    return {
        fd: path
        for fd, path in found.items()
        if fd != kept and "/pym-" not in path and not path.endswith(".ttf")
    }


def threads() -> list[str]:
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(PATIENCE)
    return [each.name for each in threading.enumerate() if each is not threading.current_thread()]


def processes() -> list[list[str]]:
    kept = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]
    children = psutil.Process().children(recursive=True)
    return [child.cmdline() for child in children if child.pid != kept]


def run(arguments: list[str]) -> bool:
    """Run a command; whether it ended well and left nothing."""
    from wmtk.cli.main import app  # not `main`, which diverts stdout for the rest of the process

    before, code = descriptors(), 0
    sys.argv = ["wmtk", *arguments]
    try:
        get_command(app).main(prog_name="wmtk")
    except SystemExit as end:
        code = int(end.code or 0)
    gc.collect()
    left = {"threads": threads(), "processes": processes(), "code": code}
    files = {fd: path for fd, path in descriptors().items() if before.get(fd) != path}
    wrong = {name: value for name, value in (left | {"files": files}).items() if value}
    sys.stderr.write(f"wmtk {' '.join(arguments)}: {wrong or 'clean'}\n")
    sys.stderr.flush()
    return not wrong


if __name__ == "__main__":
    clean = [run(json.loads(each)) for each in sys.argv[1:]]
    sys.exit(0 if all(clean) else 1)
