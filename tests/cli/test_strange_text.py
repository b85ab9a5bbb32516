"""Names, notes and errors full of control characters and markup: shown as text by every command."""

from __future__ import annotations

import json
import re
import sys

import pytest
import typer
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from wmtk.cli import main
from wmtk.cli.common import console
from wmtk.cli.common.console import SafeConsole, note, progress, warn
from wmtk.errors import WmtkError
from wmtk.escaping import escaped, one_line, safe_streams

STRANGE = "[/x][red]\x1b[31m\x1b]0;title\x07\x9b2J\r\x7f\u202e:smile:\udcff"
SHOWN = r"[/x][red]\x1b[31m\x1b]0;title\x07\x9b2J\r\x7f\u202e:smile:\udcff"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture
def printed(capsys):
    return lambda: "".join(capsys.readouterr())


def test_escapes() -> None:
    assert escaped(STRANGE) == SHOWN
    assert escaped("a\tb\nc é × 👨‍👩‍👧") == "a\tb\nc é × 👨‍👩‍👧"
    assert one_line("a\tb\nc") == r"a\tb\nc"
    for number in range(0x110000):
        character = chr(number)
        assert not RAW.search(one_line(character))


def test_whatever_a_console_prints_is_text(printed) -> None:
    # rich takes some control characters out of a Text, which is as good.
    table = Table(title=STRANGE, caption=STRANGE)
    table.add_column(STRANGE, overflow="fold")
    table.add_row(STRANGE)
    table.add_row(Text.assemble((STRANGE, "red"), ("b", "bold")))
    for thing in (STRANGE, Text(STRANGE), table, Panel(STRANGE, title=Text(STRANGE)), [STRANGE]):
        SafeConsole().print(thing, soft_wrap=True)
    SafeConsole().print(STRANGE, style="yellow")
    SafeConsole(stderr=True).print("[seed=1]catch.zarr")
    console.print_error(STRANGE, STRANGE)
    text = printed()
    assert not RAW.search(text)
    assert text.count("[/x][red]") == 13
    assert "[seed=1]catch.zarr" in text
    assert len({len(line) for line in text.splitlines() if line.startswith("┃")}) == 1


def test_what_others_print_is_escaped(printed) -> None:
    with safe_streams():
        sys.stdout.write(f"{STRANGE}\n")
        typer.echo(STRANGE)
        typer.echo(STRANGE, err=True)
        sys.stderr.writelines([STRANGE, "\n"])
        console.err.print(STRANGE)
    text = printed()
    assert not RAW.search(text)
    assert text.count(r"\x9b2J") == 5  # typer.echo takes colors out where there is no terminal


def test_a_bar_keeps_the_codes_of_its_own(printed, monkeypatch) -> None:
    monkeypatch.setattr(console.err, "_force_terminal", True)
    with safe_streams(), progress(STRANGE, 3, noun="step") as bar:
        bar.update(completed=1, description=f"at {STRANGE}")
        sys.stderr.write(f"{STRANGE}\n")
    text = printed()
    assert "\x1b[" in text  # it moves the cursor
    assert r"\x1b[?25l" not in text
    assert rf"at {SHOWN}" in text
    assert "\x1b[31m\x1b]0;" not in text
    assert "\u202e" not in text


def test_json_escapes_what_it_keeps(printed) -> None:
    console.emit({STRANGE: STRANGE}, json=True, render=str)
    text = printed()
    assert not RAW.search(text)
    assert json.loads(text) == {STRANGE: STRANGE}


@pytest.mark.parametrize("debug", [[], ["--debug"]])
@pytest.mark.parametrize("kind", [WmtkError, OSError])
def test_errors(monkeypatch, debug, kind) -> None:
    def fail() -> None:
        raise kind(STRANGE)

    monkeypatch.setattr(main, "load", lambda name: typer.main.get_command(app))
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command("doctor")(fail)
    done = CliRunner().invoke(main.app, [*debug, "doctor"])
    assert done.exit_code == 1
    assert SHOWN in done.stderr
    assert not RAW.search(done.output)


def test_no_line_of_a_message_passes_for_another(printed) -> None:
    text = "There is no run a\nerror: nor this\n\nwarning: that"
    console.print_error(text)
    warn(text)
    note(text)
    lines = printed().splitlines()
    assert [line for line in lines if line.startswith(("error:", "warning: that"))] == [
        "error: There is no run a"
    ]


@pytest.mark.parametrize(
    "words",
    [
        [STRANGE],
        ["data", STRANGE],
        ["data", "info", STRANGE],
        ["data", "info", f"--{STRANGE}"],
        ["eval", STRANGE],
        ["eval", "--episodes", STRANGE],
        ["collect", STRANGE, "--out", "x", "--steps", "1"],
        ["scores", STRANGE],
        ["runs", STRANGE],
    ],
)
def test_wrong_words(run_wmtk, words) -> None:
    done = run_wmtk(*words)
    assert done.exit_code != 0
    assert not RAW.search(done.output)
    assert "Traceback" not in done.output
