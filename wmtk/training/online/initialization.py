"""What an online run begins with, and what it is refused for."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wmtk.datasets import Schema, Source
from wmtk.datasets.schema_match import require_fit
from wmtk.envs import ResolvedTask
from wmtk.errors import RunError, UsageError
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import checkpoint_errors
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.online.agent_trainer import Agent


def take_over(agent: Agent, init: Path | None, run: Run | None) -> dict[str, object] | None:
    """Begin with the networks of another run; what to remember of it."""
    before = run.about["init"] if run else None
    if run is not None:
        named = before["run"] if before else None
        if init is not None and str(init) != named:
            raise RunError(
                f"{run.path} was begun from {named or 'nothing'}, not from {init}.",
                "Leave --init out on resuming, or start a new run.",
            )
        init = Path(named) if named else None
    if init is None or (run is not None and run.step):
        return None  # its own checkpoint is what a run goes on from
    origin = Run(init)
    made_for = Schema.from_json(origin.about["schema"])
    sources = origin.settings.data.observations(made_for).sources
    obs = agent.schema.obs  # images may have other sizes: they are resized
    checked = [key for key in sources if key not in obs or len(obs[key].shape) < 3]
    model = made_for.only(checked) if checked else replace(agent.schema, action=made_for.action)
    require_fit(model, agent.schema, f"The model of {init} and the task")
    saved = origin.checkpoints.load()
    if before and before["hash"] != saved.hash:
        raise RunError(
            f"{init} is not any more what the run was begun from: update {before['step']}.",
            "Start a new run.",
        )
    with checkpoint_errors(saved.path):
        agent.take_over(saved)
    return {"run": str(init), "step": saved.step, "hash": saved.hash}


def require_updates(config: TrainingConfig, steps: int) -> int:
    pace = config.online
    updates = pace.updates_at(steps)
    if not updates:
        first = pace.steps_for(1)
        hint = f"Play more: --steps {10 * first}"
        # The most random steps after which an update is left; none of them leaves nothing to learn.
        most = steps if pace.pretrain else steps - math.ceil(pace.train_every)
        if 1 <= most < pace.prefill:
            hint += f"; or fewer random steps: --set online.prefill={-(-most // 2)}"
        raise UsageError(
            f"After {steps:,} steps nothing is learned yet: the first update waits for {first:,}.",
            f"{hint}.",
        )
    return updates


def require_data(config: TrainingConfig, sources: Sequence[Source], steps: int) -> None:
    if not config.online.prefill and not sources:
        raise UsageError(
            "There is nothing to learn from at first: no random play, and no data.",
            f"Let it play: --set online.prefill={min(1000, -(-steps // 2)) or 1000}; or give it "
            "datasets: --data PATH.",
        )


def require_same_task(run: Run, task: ResolvedTask) -> None:
    before, now = run.about["env"], json.loads(json.dumps(task.settings))
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if changed := [name for name in names if name != "versions"]:
        name = changed[0]
        raise RunError(
            f"{run.path} plays with {name} {before.get(name)}, not {now.get(name)}.",
            "Resume it with the same task and options, or start a new run.",
        )
