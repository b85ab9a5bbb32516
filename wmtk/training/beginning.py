"""What an online run begins with, and what it is refused for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from wmtk.datasets import Source
from wmtk.envs import ResolvedTask
from wmtk.errors import RunError, UsageError
from wmtk.training.agent import Agent
from wmtk.training.presets import TrainingConfig
from wmtk.training.run import Run


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
    saved = Run(init).checkpoints.load()
    if before and before["hash"] != saved.hash:
        raise RunError(
            f"{init} is not any more what the run was begun from: update {before['step']}.",
            "Start a new run.",
        )
    agent.take_over(saved)
    return {"run": str(init), "step": saved.step, "hash": saved.hash}


def require_updates(config: TrainingConfig, steps: int) -> int:
    updates = config.online.updates_at(steps)
    if not updates:
        first = config.online.steps_for(1)
        raise UsageError(
            f"After {steps:,} steps nothing is learnt yet: the first update waits for {first:,}.",
            "Play more --steps, or fewer random ones: --set online.prefill=1000.",
        )
    return updates


def require_data(config: TrainingConfig, sources: Sequence[Source]) -> None:
    if not config.online.prefill and not sources:
        raise UsageError(
            "There is nothing to learn from at first: no random play, and no data.",
            "Let it play: --set online.prefill=1000; or give it datasets: --data PATH.",
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
