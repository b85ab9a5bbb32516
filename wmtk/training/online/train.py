"""Online training: collect, train the world model, train the policy, repeat."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wmtk.collecting import seed_entropy
from wmtk.collecting.env_setup import EnvSetup
from wmtk.datasets import Source
from wmtk.envs import ResolvedTask
from wmtk.models.world_model import WorldModel
from wmtk.runs.baselines import store_baselines
from wmtk.runs.replay import Replay, has_replay
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.health import exhaustion_explained
from wmtk.training.loop import Callbacks, Loop
from wmtk.training.online.async_collector import AsyncCollector
from wmtk.training.online.env_driver import EnvDriver, SyncCollector, prefill, reported_episodes
from wmtk.training.online.initialization import initialize
from wmtk.training.online.progress import OnlineProgress, ProgressTracker
from wmtk.training.run_setup import DatasetLike, run_lock
from wmtk.training.samplers import make_sampler
from wmtk.training.timing import Timer


def online(
    task: ResolvedTask | str,
    out: str | os.PathLike[str],
    config: TrainingConfig | None = None,
    *,
    preset: str | None = None,
    ablations: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    steps: int | None = None,
    datasets: DatasetLike | Sequence[DatasetLike] = (),
    init: str | os.PathLike[str] | None = None,
    world_model: type[WorldModel] = WorldModel,
    seed: int | None = None,
    device: str = "auto",
    resume: bool = False,
    workers: int | None = None,
    background: bool = False,
    timeout: float = 60.0,
    on_progress: Callable[[OnlineProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
    on_note: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train an agent online: collect, train the world model, train the policy, repeat.

    The first actions are random; then there is one update per `online.train_every` steps.

    Args:
        task: A task or its name, such as "atari_pong" or a gymnasium id.
        out: The run directory to write; its dataset replay.zarr has the episodes.
        config, preset, ablations, overrides, seed, device, on_note, stop, world_model: As in
            `train_model`; without config and preset, the settings of `init` are used, if given.
        steps: Total agent steps, in whole episodes; default: the maximum of 20,000 and
            10 × online.prefill, or that of the resumed run.
        datasets: Further data to train on, as in `train_model`.
        init: A run from which the world model, and the policy if it has one, are initialized.
        resume: Continue from the newest checkpoint and the stored episodes if `out` is a run.
        workers: Processes for the environments; default: as many as there are cores.
        background: Collect in a separate process during updates.
        timeout: Seconds without a step after which a process is replaced.
        on_progress: Called after every step of collection and after every update.
        on_message: Called with messages about environments.

    Returns:
        The run, with `path`, `step` and `checkpoints`. `wmtk.load(run.path)` loads the agent.

    Raises:
        WmtkError: As in `train_model`, or an environment fails repeatedly.

    Example:
        >>> import wmtk
        >>> settings = {"online.prefill": 100, "online.pretrain": 2, "online.episodes": 1}
        >>> run = wmtk.online("wmtk/Catch-v0", "runs/online", steps=110, overrides=settings)
        >>> agent = wmtk.load(run.path)
    """
    settings = (config, preset, ablations, overrides)
    start = initialize(
        task, out, settings, steps, datasets, init, world_model, seed, device, resume, on_note
    )
    run, config, agent = start.run, start.config, start.agent
    with run_lock(run, lambda: start.resumed or run.step > 0 or has_replay(run.path)):
        run.append_command()
        timer = Timer()
        replay = Replay(run.path, start.task, config.online.capacity)
        tracker = ProgressTracker(run, start.task.action_repeat, replay, timer, on_progress)
        env = EnvSetup(
            start.task, start.seed, workers, timeout, stop, tracker.collected, on_message
        )
        with timer.timed("collect"):
            if not prefill(config.online, env, replay):
                return run
        data = [*start.sources, Source(replay.dataset, may_be_empty=bool(start.sources))]
        with timer.timed("eval"):
            store_baselines(run, data, env)
        agent.connect(env, data, tracker, timer)
        policy = agent.collection_policy(seed_entropy(replay.dataset, start.seed))
        sampler = make_sampler(config.data, data, start.seed)
        collector = AsyncCollector if background else SyncCollector
        reported = reported_episodes(run)
        with EnvDriver(
            config.online, env, replay, policy, timer, sampler, start.steps, collector, reported
        ) as driver:
            callbacks = Callbacks(tracker.updated, stop, on_note)
            loop = Loop(run, config, agent, sampler, callbacks, driver, timer)
            replay.label = lambda: f"{run.path.name}@{loop.step}"
            if start.resumed:
                loop.resume()
            with exhaustion_explained(agent.model.model, config.data):
                loop.run(start.updates)
            if not stop():
                store_baselines(run, data, env)
    return run
