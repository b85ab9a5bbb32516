"""The `wmtk` command itself: start-up, errors, completion."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys

import pytest
import typer

import wmtk
from wmtk.cli import main as main_module
from wmtk.cli.common import options
from wmtk.cli.main import COMMANDS, Lazy, load
from wmtk.errors import UsageError, WmtkError

HEAVY = ("torch", "zarr", "numcodecs", "gymnasium", "numpy", "PIL", "matplotlib", "sklearn")
GROUPS = ("data", "viz")


def wmtk_process(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wmtk.cli.main", *args]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | env)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch):
    """Make `wmtk doctor` raise the given exception."""

    def fail_with(error: BaseException) -> None:
        def doctor() -> None:
            raise error

        monkeypatch.setattr("wmtk.cli.doctor.doctor", doctor)

    return fail_with


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from wmtk.cli.main import main; sys.argv = ['wmtk', '--help']\n"
        "try: main()\n"
        f"finally: sys.stderr.write(repr([m for m in {HEAVY} if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "[]"
    text = " ".join(done.stdout.replace("│", " ").split())
    for name, lazy in COMMANDS.items():
        assert f" {name} {lazy.help}" in text
    for panel in ("Data", "Training", "Inspection"):
        assert f"╭─ {panel} ─" in done.stdout


def test_the_help_of_no_command_imports_torch():
    """Nor zarr and the like: each page is shown within half a second."""
    code = (
        "import sys; from wmtk.cli.main import COMMANDS, app, load\n"
        "from typer.testing import CliRunner\n"
        f"groups = [(g, name) for g in {GROUPS} for name in load(g).commands]\n"
        "for words in [*((name,) for name in COMMANDS), *groups]:\n"
        "    done = CliRunner().invoke(app, [*words, '--help'])\n"
        "    assert done.exit_code == 0, words\n"
        f"    heavy = [m for m in {HEAVY} if m in sys.modules]\n"
        "    assert not heavy, (words, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def pages() -> list[tuple[str, ...]]:
    return [
        *((name,) for name in COMMANDS),
        *((group, name) for group in GROUPS for name in load(group).commands),
    ]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("words", pages(), ids=" ".join)
def test_help_pages(run_wmtk, monkeypatch, words, width):
    """Nothing is cut off or taken for markup, and there is an example."""
    monkeypatch.setenv("COLUMNS", str(width))
    done = run_wmtk(*words, "--help")
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= width
    assert "…" not in done.stdout.replace("lr=…", "")
    assert re.search(r"Examples?: *\n +wmtk \w", done.stdout)
    text = "".join(done.stdout.replace("│", " ").split())
    command = load(words[0])
    if len(words) == 2:
        command = command.commands[words[1]]
    for param in command.params:
        assert all(name in text for name in param.opts if name.startswith("-"))
        assert all(word in text for word in (param.help or "").split()), param.name


@pytest.mark.parametrize(
    ("words", "new"),
    [
        (["train-model", "d.zarr", "--out", "r", "--steps", "3"], "Use --updates instead."),
        (["train-policy", "m", "--out", "r", "--steps=3"], "Use --updates instead."),
        (["online", "t", "--out", "r", "--updates", "3"], "Use --steps instead."),
        (["online", "t", "--out", "r", "--task-set", "a=b"], "Use --env-set instead."),
        (["collect", "t", "--out", "r", "--set", "sticky=0"], "Use --env-set instead."),
        (["eval", "r", "--set", "sticky=0"], "Use --env-set instead."),
    ],
)
def test_a_former_option_is_refused_with_its_new_name(run_wmtk, words, new):
    done = run_wmtk(*words)
    assert done.exit_code == 2
    assert new in done.stderr


@pytest.mark.parametrize(
    ("command", "hint", "shown"),
    [
        ("collect", "Pass append=True to go on.", "Pass --append to go on."),
        ("train-model", "Pass obs_keys='-mission'.", "Pass --obs-keys=-mission."),
        (
            "train-model",
            "Try updates=20, or data.length=8.",
            "Try --updates 20, or --set data.length=8.",
        ),
        ("train-model", "Set --set data.length=8.", "Set --set data.length=8."),
        (
            "train-model",
            "Write path=2.5; the file is data.zarr=2.",
            "Write path=2.5; the file is data.zarr=2.",
        ),
        (
            "collect",
            "Train with behavior.explore=disagreement.",
            "Train with --explore disagreement.",
        ),
        ("eval", "Resume it with wmtk.train_model.", "Resume it with wmtk train-model."),
        ("data", "Pass header_from='a b'.", "Pass --header-from 'a b'."),
    ],
)
def test_hints_name_options_of_the_command(run_wmtk, monkeypatch, command, hint, shown):
    assert main_module._with_options(hint, command) == shown


def test_the_default_preset_is_that_of_python():
    pytest.importorskip("torch")
    from wmtk.training.presets import DEFAULT_PRESET, PRESETS

    assert options.PRESET == DEFAULT_PRESET
    assert set(re.findall(r"\w+", options.PRESETS)) == {*PRESETS, "or"}


def test_help_takes_well_under_half_a_second():
    def cpu_seconds() -> float:  # rather than by the clock, which other tests at work would slow
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert wmtk_process("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_seconds() for _ in range(3)) < 0.4


def test_version(run_wmtk):
    result = run_wmtk("--version")
    assert (result.exit_code, result.stdout) == (0, f"wmtk {wmtk.__version__}\n")


def test_no_arguments_show_help(run_wmtk):
    result = run_wmtk()
    assert result.exit_code == 2
    assert "─ Training ─" in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_has_help(run_wmtk, name):
    result = run_wmtk(name, "--help")
    assert result.exit_code == 0
    assert f"Usage: wmtk {name} " in result.stdout
    assert "--install-completion" not in result.stdout


def test_unknown_command_gets_the_nearest_name(run_wmtk):
    result = run_wmtk("docter")
    assert result.exit_code == 2
    assert "Did you mean 'doctor'?" in result.stderr


def test_unknown_option_gets_the_nearest_name(run_wmtk):
    result = run_wmtk("doctor", "--jsn")
    assert result.exit_code == 2
    assert "--json" in result.stderr


@pytest.mark.parametrize(
    ("error", "exit_code"), [(WmtkError("No oil.", "Add oil."), 1), (UsageError("No oil."), 2)]
)
def test_errors_of_wmtk_are_short(run_wmtk, failing, error, exit_code):
    failing(error)
    result = run_wmtk("doctor")
    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert result.stderr == "error: No oil.\n" + (f"{error.hint}\n" if error.hint else "")


def test_unforeseen_errors_point_to_debug(run_wmtk, failing):
    failing(ZeroDivisionError("by [nothing]"))
    result = run_wmtk("doctor")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ZeroDivisionError: by [nothing]\n")
    assert "--debug" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("error", "exit_code"), [(KeyError("x"), 1), (UsageError("x"), 2)])
def test_debug_shows_the_traceback(run_wmtk, failing, monkeypatch, error, exit_code):
    failing(error)
    by_option = run_wmtk("--debug", "doctor")
    monkeypatch.setenv("WMTK_DEBUG", "1")
    by_environment = run_wmtk("doctor")
    for result in (by_option, by_environment):
        assert result.exit_code == exit_code
        assert "Traceback" in result.stderr
        assert "test_main.py" in result.stderr


def test_interrupt(run_wmtk, failing):
    failing(KeyboardInterrupt())
    result = run_wmtk("doctor")
    assert result.exit_code == 130
    assert result.stderr == "error: interrupted.\n"


def test_a_closed_pipe_is_not_an_error():
    command = f"{sys.executable} -m wmtk.cli.main doctor | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def complete(line: str) -> list[str]:
    """What a shell would offer at the end of `line`."""
    env = {"_WMTK_COMPLETE": "complete_bash", "COMP_WORDS": line}
    done = wmtk_process(**env, COMP_CWORD=str(len(line.split(" ")) - 1))
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_of_commands_and_their_options():
    assert complete("wmtk doc") == ["doctor"]
    assert set(complete("wmtk ")) >= set(COMMANDS)
    assert "--json" in complete("wmtk doctor --")
    assert "--debug" in complete("wmtk --de")


def test_completion_script():
    # What --show-completion prints in bash; that option asks which shell it was started from,
    # and under make there is none that it knows.
    done = wmtk_process(_WMTK_COMPLETE="source_bash")
    assert "complete -o default -F _wmtk_completion wmtk" in done.stdout


def test_a_typer_app_becomes_a_group(monkeypatch, run_wmtk):
    app = typer.Typer(help="Two things.")
    app.command("one")(lambda: typer.echo("did one"))
    app.command("two")(lambda: typer.echo("did two"))
    monkeypatch.setattr(main_module, "pair", app, raising=False)
    monkeypatch.setitem(
        COMMANDS, "doctor", Lazy("Data", main_module.__name__, "pair", "Two things.")
    )
    assert list(load("doctor").commands) == ["one", "two"]
    assert run_wmtk("doctor", "two").stdout == "did two\n"
    assert (
        run_wmtk("doctor", "--help")
        .stdout.lstrip()
        .startswith("Usage: wmtk doctor [OPTIONS] COMMAND")
    )
