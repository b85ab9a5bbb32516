"""What each ablation of the paper's Table 2 does to a small agent on Catch, by what its runs log.

python benchmarks/ablations.py --markdown docs/results.md
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from timing import Table, write_markdown

from wmtk.agent.device import tune_allocator
from wmtk.collecting import RandomPolicy, collect_episodes, dataset_for
from wmtk.datasets import Dataset, Source
from wmtk.envs import resolve
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config

MODEL = (
    "no-layer-norm",
    "no-reward-gradients",
    "no-discrete-latents",
    "no-kl-balancing",
    "no-image-gradients",
)
POLICY = "no-policy-reinforce"
WHOLE = "full agent"
SEED = 0


def settings(name: str) -> TrainingConfig:
    """The preset with something left out; so few updates are no time to warm up in."""
    return training_config("tiny", () if name == WHOLE else (name,), {"optimizer.warmup": 0})


def collected(path: Path, steps: int) -> Dataset:
    task = resolve("wmtk/Catch-v0")
    with dataset_for(task, path) as dataset:
        policy = RandomPolicy(dataset.schema.action, [SEED, 0])
        collect_episodes(task, dataset, policy, seed=SEED, steps=steps, envs=4, workers=0)
    return Dataset.open(path)


def model_table(runs: dict[str, Run], updates: int) -> Table:
    """What the last reports say: of held-out episodes, and the gradient of the last batch."""
    columns = {
        "KL": "val/kl",
        "entropy, posterior": "val/entropy/posterior",
        "entropy, prior": "val/entropy/prior",
        "perplexity": "val/codes/perplexity",
        "image, dB": "val/psnr/image",
        "reward, mse": "val/mse/reward",
        "gradient": "train/grad_norm/model",
    }
    note = f"After {updates} updates; nats, and means of held-out batches but for the gradient."
    table = Table("World models", ("", *columns), note)
    for name, run in runs.items():
        table.add(name, *_cells(run, columns.values()))
    return table


def policy_table(runs: dict[str, Run], updates: int) -> Table:
    columns = {
        "imagined return": "train/imagined/return",
        "entropy": "train/entropy/actor",
        "actor's loss": "train/loss/actor",
        "actor's gradient": "train/grad_norm/actor",
        "critic's gradient": "train/grad_norm/critic",
    }
    note = f"After {updates} updates inside of the first of the models above."
    table = Table("Policies", ("", *columns), note)
    for name, run in runs.items():
        table.add(name, *_cells(run, columns.values()))
    return table


def _cells(run: Run, names: Iterable[str]) -> list[str]:
    """The newest value of each name; a dash where there is none."""
    values: dict[str, float] = {}
    for report in read_metrics(run.path):
        values |= {name: value for name, value in report.items() if value is not None}
    return [f"{values[name]:.3g}" if name in values else "–" for name in names]


def measured(folder: Path, steps: int, updates: int) -> list[Table]:
    dataset = collected(folder / "catch.zarr", steps)
    sources = [Source(dataset)]
    models, policies = {}, {}
    for name in (WHOLE, *MODEL):
        config = settings(name)
        models[name] = train_model(sources, folder / name, config, updates=updates, seed=SEED)
    for name in (WHOLE, POLICY):
        config = settings(name)
        out = folder / f"policy of {name}"
        policies[name] = train_policy(
            folder / WHOLE, out, config, updates=updates, seed=SEED, episodes=0
        )
    return [model_table(models, updates), policy_table(policies, updates)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000, help="of Catch, at random")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--markdown", type=Path, help="a file to put the tables into")
    options = parser.parse_args()
    tune_allocator()
    with tempfile.TemporaryDirectory() as folder:
        tables = measured(Path(folder), options.steps, options.updates)
    for table in tables:
        table.show(Console())
    if options.markdown:
        write_markdown(options.markdown, "ablations", tables)


if __name__ == "__main__":
    main()
