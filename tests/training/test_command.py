"""`wmtk train-model`: a run from a dataset, what it says, and what a user can get wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

import wmtk
from wmtk.cli.common.verdict_text import SAMPLES, WINDOWS
from wmtk.datasets import Dataset, Source
from wmtk.datasets.storage import atomic
from wmtk.errors import RunError
from wmtk.runs.listing import summarize_run
from wmtk.runs.run_directory import Run
from wmtk.training.model_stage import train_model
from wmtk.training.precision import resolve_precision


@pytest.fixture
def train(run_wmtk, small, catch, tmp_path):
    """Run the command with small settings into `run`, on Catch unless data is given."""

    def command(*options: object, data: tuple = (), settings: bool = True):
        given = (*(data or (catch,)), "--out", tmp_path / "run", "--device", "cpu")
        return run_wmtk("train-model", *given, *(small if settings else ()), *options)

    return command


def test_it_trains_tells_and_resumes(train, tmp_path) -> None:
    first = train("--updates", 2, "--json")
    assert first.exit_code == 0, first.stderr
    result = json.loads(first.stdout)
    assert (result["updates"], result["best"]) == (2, 2)
    assert result["held_out"]["val/psnr/image"] > 0
    assert "12 episodes" in first.stderr
    assert "preset tiny on cpu, seed 0" in first.stderr
    assert "loss " in first.stderr
    assert "(image " in first.stderr

    again = train("--updates", 3)
    assert again.exit_code == 1
    assert "exists already" in again.stderr
    assert "--resume" in again.stderr

    resumed = train("--updates", 3, "--resume")
    assert resumed.exit_code == 0, resumed.stderr
    assert "1 update in" in resumed.stderr
    assert "From now on" not in resumed.stderr
    printed = "".join(resumed.stdout.split())  # long paths go on in the next line
    assert f"tensorboard--logdir{tmp_path / 'run'}" in printed
    assert f'wmtk.load("{tmp_path / "run"}")' in printed
    assert "held out" in resumed.stdout
    words = " ".join(resumed.stdout.split())
    assert "The data's mean return -" in words
    assert "12 episodes): random -1.74: no better than random play." in words
    assert len((tmp_path / "run" / "command.txt").read_text().splitlines()) == 2


@pytest.mark.parametrize("fraction", [0.3, 0.0])
def test_collapsed_latents_are_warned_of(train, tmp_path, monkeypatch, fraction) -> None:
    """With held-out data and without any."""
    monkeypatch.setattr("wmtk.training.health.MIN_UPDATES", 2)
    monkeypatch.setattr("wmtk.training.health.MIN_KL", 1e9)
    done = train("--updates", 2, "--val-fraction", fraction)
    assert done.exit_code == 0, done.stderr
    assert "warning: the latents have collapsed" in done.stderr
    assert " nats). Small models may" in done.stderr


def test_a_short_verdict_ends_it(train, catch, tmp_path, run_wmtk) -> None:
    done = train("--updates", 2, "--val-fraction", 0.5, "--json")
    assert done.exit_code == 0, done.stderr
    short = json.loads(done.stdout)["verdict"]
    assert short["command"] == f"wmtk viz report {tmp_path / 'run'} {catch}"
    assert "episodes held out of training" in short["description"]
    assert short["verdict"]["grade"] == "bad"  # after two updates
    horizon = Run(tmp_path / "run").config()["behavior"]["horizon"]
    few = ("--windows", WINDOWS, "--samples", SAMPLES, "--horizon", horizon)
    whole = run_wmtk("viz", "metrics", tmp_path / "run", catch, *few, "--json")
    assert json.loads(whole.stdout)["verdict"] == short["verdict"]

    printed = " ".join(train("--updates", 3, "--resume").stdout.split())
    assert "for training a policy:" in printed
    assert "! Not reliable for a single step" in printed
    assert "+ " not in printed  # what is good is left to the report
    assert "Full report: wmtk viz report" in printed


def test_without_held_out_episodes_the_verdict_is_on_training_data(train) -> None:
    done = train("--updates", 1, "--val-fraction", 0)
    assert "the model was trained on them, none was held out" in " ".join(done.stdout.split())
    assert "for training a policy:" in done.stdout


def test_episodes_that_are_too_short_for_a_verdict(train, make_dataset) -> None:
    data = make_dataset("short.zarr", lengths=(4,) * 12)
    done = train("--updates", 1, data=(data.path,))
    assert done.exit_code == 0, done.stderr
    assert "No verdict on the model: No episode has more than 5 rows" in done.stderr
    assert "for training a policy" not in done.stdout


def test_a_finished_run_says_that_it_is(train, tmp_path) -> None:
    assert train("--updates", 2).exit_code == 0
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    for options in (["--updates", 2], ["--updates", 1], []):  # without --updates: as many as before
        done = train("--resume", *options)
        assert done.exit_code == 0
        assert "is finished: it has 2 updates" in done.stderr
        assert "--updates" in done.stderr
        assert ["updates", "2"] in [line.split() for line in done.stdout.splitlines()]
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_resuming_what_is_not_there_starts_it(train, tmp_path) -> None:
    done = train("--updates", 1, "--resume")
    assert done.exit_code == 0, done.stderr
    assert "no run at" in done.stderr
    assert Run(tmp_path / "run").step == 1


def test_settings_stay_on_resuming_unless_they_are_given(train, tmp_path) -> None:
    assert train("--updates", 1, "--ablate", "no-kl-balancing").exit_code == 0
    done = train("--updates", 2, "--resume", "--set", "optimizer.lr=0.0005", settings=False)
    assert done.exit_code == 0, done.stderr
    assert "From now on optimizer.lr is 0.0005; it was 0.001." in done.stderr
    config = Run(tmp_path / "run").config()
    assert config["optimizer"]["lr"] == 0.0005
    assert config["model"]["kl_balance"] is None
    assert config["model"]["cnn_depth"] == 2
    assert Run(tmp_path / "run").checkpoints.document("2")["state"]["config"] == config

    larger = train("--updates", 3, "--resume", "--set", "model.rssm.deter=9", settings=False)
    assert larger.exit_code == 1
    assert "The saved weights do not match the settings" in larger.stderr
    assert Run(tmp_path / "run").config() == config  # as it was

    seeded = train("--updates", 3, "--resume", "--seed", 1, settings=False)
    assert seeded.exit_code == 1
    assert "was started with seed 0, not 1" in seeded.stderr


def test_precision_and_compilation_are_recorded(train, tmp_path) -> None:
    assert train("--updates", 1, "--precision", "bfloat16", "--no-compile").exit_code == 0
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (config["precision"], config["compile"]) == ("bfloat16", False)


def test_a_mix_has_weights_and_a_selection(train, make_dataset, tmp_path) -> None:
    one, other = (make_dataset(name) for name in ("a.zarr", "b=c.zarr"))
    with Dataset.open(one.path, "a") as growing:
        growing.tag("then")
        growing.append(growing[0])
    data = (one.path, f"{other.path}=3")
    done = train("--updates", 1, data=data)
    assert done.exit_code == 0, done.stderr
    assert "a.zarr: 5 episodes, 60 steps, 25% of the windows" in done.stderr
    assert "b=c.zarr: 4 episodes, 48 steps, 75% of the windows" in done.stderr
    recorded = Run(tmp_path / "run").about["data"]
    assert [item["weight"] for item in recorded] == [1, 3]

    assert "other data" in train("--updates", 2, "--resume", data=(one.path, other.path)).stderr
    selected = train("--updates", 2, "--resume", "--policy", "dreamer*", data=data)
    assert selected.exit_code == 1
    assert "selections differ" in selected.stderr


def test_a_selection_of_nothing_is_refused(train, tmp_path) -> None:
    done = train("--policy", "dreamer*")
    assert done.exit_code == 2
    assert "no episode" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_tag_is_a_version(train, make_dataset, tmp_path) -> None:
    data = make_dataset()
    with Dataset.open(data.path, "a") as growing:
        growing.tag("then")
        growing.append(growing[0])
    assert train("--updates", 1, "--tag", "then", data=(data.path,)).exit_code == 0
    assert Run(tmp_path / "run").about["data"][0]["episodes"] == 4


def test_returns_select_episodes(train, dataset, tmp_path) -> None:
    middle = float(sorted(dataset.episodes.total_reward)[6])
    wanted = int((dataset.episodes.total_reward >= middle).sum())
    assert train("--updates", 1, "--min-return", middle).exit_code == 0
    assert Run(tmp_path / "run").about["data"][0]["episodes"] == wanted


MISTAKES = {
    "preset": (["--preset", "tinny"], "Did you mean 'tiny'? There are: atari"),
    "ablation": (["--ablate", "no-layernorm"], "Did you mean 'no-layer-norm'"),
    "setting": (["--set", "model.kl_scal=1"], "Did you mean 'model.kl_scale'"),
    "section": (["--set", "kl_scale=1"], "Did you mean 'model.kl_scale'"),
    "value": (
        ["--set", "model.cnn_depth=many"],
        "model.cnn_depth = 'many': Input should be a valid int",
    ),
    "no value": (["--set", "model.cnn_depth"], "Write it as --set name=value"),
    "device": (["--device", "quantum"], "wmtk doctor"),
    "precision": (["--precision", "float8"], "bfloat16"),
    "window": (["--set", "data.length=5000"], "--set data.length="),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_answered_with_what_to_do(train, tmp_path, mistake) -> None:
    options, expected = MISTAKES[mistake]
    done = train(*options)
    assert done.exit_code == 2
    assert expected in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_wrong_weight_or_path_is_named(train, catch, tmp_path) -> None:
    for weight in ("heavy", "0", "-1", "inf"):
        done = train(data=(f"{catch}={weight}",))
        assert done.exit_code == 2
        assert f"'{weight}' is not a weight" in done.stderr
    done = train(data=(tmp_path / "nothing.zarr",))
    assert done.exit_code == 1
    assert "nothing.zarr" in done.stderr
    assert not (tmp_path / "run").exists()


def test_what_is_no_run_is_not_touched(train, tmp_path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("\\section{}")
    for resume in ([], ["--resume"]):
        done = train("--updates", 1, *resume)
        assert done.exit_code == 1
        assert "not a run directory" in done.stderr
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["thesis.tex"]


def test_two_processes_cannot_train_in_one_directory(train, tmp_path) -> None:
    assert train("--updates", 1).exit_code == 0
    with Run(tmp_path / "run").lock():
        done = train("--updates", 2, "--resume")
    assert done.exit_code == 1
    assert "Another process is training" in done.stderr


def test_without_torch_it_says_what_to_install(catch, tmp_path) -> None:
    hide = "import sys; sys.modules['torch'] = None; from wmtk.cli.main import main; main()"
    command = [sys.executable, "-c", hide, "train-model", str(catch), "--out", str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "wmtk[train]" in done.stderr


def test_resuming_with_a_preset_keeps_what_was_set_beside_it(train, tmp_path) -> None:
    def settings():
        return Run(tmp_path / "run").config()

    assert train("--updates", 1, "--preset", "tiny", "--set", "optimizer.lr=0.0005").exit_code == 0
    before = settings()
    same = train("--updates", 2, "--resume", "--preset", "tiny", settings=False)
    assert same.exit_code == 0, same.stderr
    assert "From now on" not in same.stderr
    (kept,) = [
        line
        for line in same.stderr.splitlines()
        if "keeps settings that differ from its preset" in line
    ]
    assert "model.cnn_depth" in kept
    assert "optimizer.lr" in kept
    assert settings() == before

    other = train("--updates", 3, "--resume", "--preset", "montezuma", settings=False)
    assert other.exit_code == 0, other.stderr
    for line in ("model.discount is 0.99; it was 0.95", "optimizer.warmup is 0; it was 300"):
        assert f"From now on {line}." in other.stderr
    after = settings()
    assert after["preset"] == "montezuma"
    assert after["optimizer"]["lr"] == 0.0005
    assert after["model"]["cnn_depth"] == 2
    again = train("--updates", 4, "--resume", "--set", "optimizer.lr=0.0001", settings=False)
    assert "From now on optimizer.lr is 0.0001; it was 0.0005." in again.stderr


def test_a_run_that_knows_no_preset_keeps_all_settings(train, config, dataset, tmp_path) -> None:
    plain = config.override({"preset": None})
    train_model([Source(dataset)], tmp_path / "run", plain, updates=1)
    done = train("--updates", 2, "--resume", "--preset", "atari", settings=False)
    assert done.exit_code == 0, done.stderr
    assert Run(tmp_path / "run").settings == resolve_precision(plain, "cpu")


@pytest.mark.parametrize(
    "refused",
    [
        ("--set", "model.rssm.deter=9"),
        ("--set", "model.discount_scale=0"),
        ("--set", "optimizer.warmup=7", "--seed", "3"),
        ("--set", "optimizer.warmup=7", "--val-fraction", "0.5"),
    ],
)
def test_refused_changes_are_not_announced(train, tmp_path, refused) -> None:
    assert train("--updates", 1).exit_code == 0
    before = (tmp_path / "run" / "config.yaml").read_bytes()
    done = train("--updates", 2, "--resume", *refused, settings=False)
    assert done.exit_code == 1
    assert "From now on" not in done.stderr
    assert (tmp_path / "run" / "config.yaml").read_bytes() == before


def test_an_edited_config_is_refused_with_the_way_out(train, tmp_path) -> None:
    assert train("--updates", 1).exit_code == 0
    path = tmp_path / "run" / "config.yaml"
    original = path.read_text()
    for text in (original.replace("lr: 0.001", "lr: 0.002"), original.partition("\n")[2]):
        path.write_text(text)
        with pytest.raises(RunError, match=r"config\.yaml was edited") as caught:
            wmtk.load(tmp_path / "run")
        assert "--resume --set NAME=VALUE" in caught.value.hint
        assert summarize_run(tmp_path / "run").state == "damaged"
    path.write_text(original)
    changed = train("--updates", 2, "--resume", "--set", "optimizer.lr=0.002", settings=False)
    assert changed.exit_code == 0, changed.stderr
    assert wmtk.load(tmp_path / "run").step == 2


def test_a_run_from_before_checksums_still_works(train, tmp_path) -> None:
    assert train("--updates", 1).exit_code == 0
    path = tmp_path / "run"
    about = json.loads((path / "run.json").read_text())
    del about["sealed_config"], about["checksum"]
    (path / "run.json").write_text(json.dumps(atomic.with_checksum(about)))
    plain = (path / "config.yaml").read_text().partition("\n")[2]
    (path / "config.yaml").write_text(plain.replace("preset: tiny\n", ""))
    (state,) = path.glob("checkpoints/*/state.json")
    document = json.loads(state.read_text())
    del document["bytes"], document["checksum"], document["state"]["owes_test"]
    state.write_text(json.dumps(atomic.with_checksum(document)))
    assert wmtk.load(path).step == 1
    resumed = train("--updates", 2, "--resume", "--set", "optimizer.warmup=7", settings=False)
    assert resumed.exit_code == 0, resumed.stderr
    assert Run(path).settings.optimizer.warmup == 7
