"""`wmtk train-model`: a run from a dataset, what it says, and what a user can get wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

from wmtk.cli.train_model import _blindness
from wmtk.datasets import Dataset
from wmtk.training.run import Run


@pytest.fixture
def train(run_wmtk, small, catch, tmp_path):
    """Run the command with small settings into `run`, on Catch unless data is given."""

    def command(*options: object, data: tuple = (), settings: bool = True):
        given = (*(data or (catch,)), "--out", tmp_path / "run", "--device", "cpu")
        return run_wmtk("train-model", *given, *(small if settings else ()), *options)

    return command


def test_it_trains_tells_and_resumes(train, tmp_path) -> None:
    first = train("--steps", 2, "--json")
    assert first.exit_code == 0, first.stderr
    result = json.loads(first.stdout)
    assert (result["steps"], result["best"]) == (2, 2)
    assert result["held_out"]["val/psnr/image"] > 0
    assert "12 episodes" in first.stderr
    assert "preset tiny on cpu, seed 0" in first.stderr
    assert "loss " in first.stderr
    assert "(image " in first.stderr

    again = train("--steps", 3)
    assert again.exit_code == 1
    assert "exists already" in again.stderr
    assert "--resume" in again.stderr

    resumed = train("--steps", 3, "--resume")
    assert resumed.exit_code == 0, resumed.stderr
    assert "1 update in" in resumed.stderr
    assert "From now on" not in resumed.stderr
    printed = "".join(resumed.stdout.split())  # long paths go on in the next line
    assert f"tensorboard--logdir{tmp_path / 'run'}" in printed
    assert f'wmtk.load("{tmp_path / "run"}")' in printed
    assert "held out" in resumed.stdout
    assert len((tmp_path / "run" / "command.txt").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("kl", "entropy", "steps", "advice"),
    [
        (0.01, 40.0, 500, "go on with --resume"),
        (0.01, 0.02, 500, "begin anew with another --seed"),
        (0.01, 0.02, 499, None),
        (0.20, 0.02, 500, None),
    ],
)
def test_a_model_that_ignores_what_it_sees_is_told_of(kl, entropy, steps, advice) -> None:
    report = {"val/kl": kl, "val/entropy/posterior": entropy, "val/codes/perplexity": 1.0}
    said = _blindness({"steps": steps, "held_out": report})
    assert (said is None) == (advice is None)
    if said:
        assert advice in said
        assert "its KL is 0.01 nats" in said
    assert _blindness({"steps": steps, "held_out": None}) is None


def test_a_finished_run_says_that_it_is(train, tmp_path) -> None:
    assert train("--steps", 2).exit_code == 0
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    for options in (["--steps", 2], ["--steps", 1], []):  # without --steps: as many as before
        done = train("--resume", *options)
        assert done.exit_code == 0
        assert "is finished: it has 2 updates" in done.stderr
        assert "--steps" in done.stderr
        assert ["updates", "2"] in [line.split() for line in done.stdout.splitlines()]
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_resuming_what_is_not_there_starts_it(train, tmp_path) -> None:
    done = train("--steps", 1, "--resume")
    assert done.exit_code == 0, done.stderr
    assert "no run at" in done.stderr
    assert Run(tmp_path / "run").step == 1


def test_settings_stay_on_resuming_unless_they_are_given(train, tmp_path) -> None:
    assert train("--steps", 1, "--ablate", "no-kl-balancing").exit_code == 0
    done = train("--steps", 2, "--resume", "--set", "optimizer.rate=0.0005", settings=False)
    assert done.exit_code == 0, done.stderr
    assert "From now on optimizer.rate is 0.0005; it was 0.001." in done.stderr
    config = Run(tmp_path / "run").config()
    assert config["optimizer"]["rate"] == 0.0005
    assert config["model"]["kl_balance"] is None
    assert config["model"]["depth"] == 2
    assert Run(tmp_path / "run").checkpoints.document("2")["state"]["config"] == config

    larger = train("--steps", 3, "--resume", "--set", "model.rssm.deter=9", settings=False)
    assert larger.exit_code == 1
    assert "The saved weights are not of these settings" in larger.stderr
    assert Run(tmp_path / "run").config() == config  # as it was

    seeded = train("--steps", 3, "--resume", "--seed", 1, settings=False)
    assert seeded.exit_code == 1
    assert "was begun with --seed 0, not 1" in seeded.stderr


def test_precision_and_compilation_are_recorded(train, tmp_path) -> None:
    assert train("--steps", 1, "--precision", "bfloat16", "--no-compile").exit_code == 0
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (config["precision"], config["compile"]) == ("bfloat16", False)


def test_a_mix_has_weights_and_a_selection(train, make_dataset, tmp_path) -> None:
    one, other = (make_dataset(name) for name in ("a.zarr", "b=c.zarr"))
    with Dataset.open(one.path, "a") as growing:
        growing.tag("then")
        growing.append(growing[0])
    data = (one.path, f"{other.path}=3")
    done = train("--steps", 1, data=data)
    assert done.exit_code == 0, done.stderr
    assert "a.zarr: 5 episodes, 60 steps, 25% of the windows" in done.stderr
    assert "b=c.zarr: 4 episodes, 48 steps, 75% of the windows" in done.stderr
    recorded = Run(tmp_path / "run").about["data"]
    assert [item["weight"] for item in recorded] == [1, 3]

    assert "other data" in train("--steps", 2, "--resume", data=(one.path, other.path)).stderr
    selected = train("--steps", 2, "--resume", "--policy", "dreamer*", data=data)
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
    assert train("--steps", 1, "--tag", "then", data=(data.path,)).exit_code == 0
    assert Run(tmp_path / "run").about["data"][0]["episodes"] == 4


def test_returns_select_episodes(train, dataset, tmp_path) -> None:
    middle = float(sorted(dataset.episodes.total_reward)[6])
    wanted = int((dataset.episodes.total_reward >= middle).sum())
    assert train("--steps", 1, "--min-return", middle).exit_code == 0
    assert Run(tmp_path / "run").about["data"][0]["episodes"] == wanted


MISTAKES = {
    "preset": (["--preset", "tinny"], "Did you mean 'tiny'? There are: atari"),
    "ablation": (["--ablate", "no-layernorm"], "Did you mean 'no-layer-norm'"),
    "setting": (["--set", "model.kl_scal=1"], "Did you mean 'model.kl_scale'"),
    "section": (["--set", "kl_scale=1"], "Did you mean 'model.kl_scale'"),
    "value": (["--set", "model.depth=many"], "model.depth = 'many': Input should be a valid int"),
    "no value": (["--set", "model.depth"], "Write it as --set name=value"),
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
        assert f"'{weight}' is no weight" in done.stderr
    done = train(data=(tmp_path / "nothing.zarr",))
    assert done.exit_code == 1
    assert "nothing.zarr" in done.stderr
    assert not (tmp_path / "run").exists()


def test_what_is_no_run_is_not_touched(train, tmp_path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("\\section{}")
    for resume in ([], ["--resume"]):
        done = train("--steps", 1, *resume)
        assert done.exit_code == 1
        assert "no run directory" in done.stderr
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["thesis.tex"]


def test_two_processes_cannot_train_in_one_directory(train, tmp_path) -> None:
    assert train("--steps", 1).exit_code == 0
    with Run(tmp_path / "run").held():
        done = train("--steps", 2, "--resume")
    assert done.exit_code == 1
    assert "Another process is training" in done.stderr


def test_without_torch_it_says_what_to_install(catch, tmp_path) -> None:
    hide = "import sys; sys.modules['torch'] = None; from wmtk.cli.main import main; main()"
    command = [sys.executable, "-c", hide, "train-model", str(catch), "--out", str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "wmtk[train]" in done.stderr
