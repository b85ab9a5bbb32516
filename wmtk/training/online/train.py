"""The whole agent: it plays, learns a model of what it saw, and learns to act inside of it.

Nothing is done here that the four stages do not do; they only take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import torch

from wmtk.agent.open_loop_images import CONTEXT, HORIZON
from wmtk.agent.saved_sizes import require_saved_sizes
from wmtk.collecting import EvalReport, RandomPolicy, schema_of, seed_entropy
from wmtk.collecting.env_setup import EnvSetup
from wmtk.collecting.evaluator import EVALUATION
from wmtk.datasets import Batch, Source
from wmtk.datasets.schema_match import require_fit
from wmtk.datasets.storage import atomic
from wmtk.envs import ResolvedTask, resolve
from wmtk.runs.baselines import store_baselines
from wmtk.runs.data_sources import identity, pin_version, restore_sources
from wmtk.runs.model_spaces import require_same_observations
from wmtk.runs.replay import Replay, has_replay
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.arguments import require_arguments
from wmtk.training.loop import Callbacks, Loop, existing_run, resolve_resumed, run_lock
from wmtk.training.memory import exhaustion_explained
from wmtk.training.model_stage import CHOICE, ModelStage
from wmtk.training.online.agent_trainer import Agent, AgentStage
from wmtk.training.online.async_collector import AsyncCollector
from wmtk.training.online.env_driver import EnvDriver, SyncCollector, prefill, reported_episodes
from wmtk.training.online.initialization import (
    require_data,
    require_same_task,
    require_updates,
    take_over,
)
from wmtk.training.online.progress import OnlineProgress, ProgressTracker
from wmtk.training.precision import resolve_precision
from wmtk.training.run_eval import confirmation_seed, run_eval
from wmtk.training.samplers import fixed_batches, make_sampler
from wmtk.training.timing import Timer


def online(
    task: ResolvedTask | str,
    out: Path,
    config: TrainingConfig,
    *,
    steps: int,
    sources: Sequence[Source] = (),
    init: Path | None = None,
    seed: int | None = None,
    device: str = "cpu",
    resume: bool = False,
    workers: int | None = None,
    background: bool = False,
    timeout: float = 60.0,
    on_progress: Callable[[OnlineProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
    on_note: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Play `steps` agent steps of a task in all, in whole episodes, and learn from them meanwhile.

    First come random steps, then updates of the model and of the behavior at the train ratio of
    `config.online`. `sources` are learned from as well; `init` is a run whose networks are taken
    over. `resume` goes on with a run that is there already: with every episode that was whole, and
    from its newest checkpoint. With `background` a process of its own plays while this one learns.
    `on_note` is called with what becomes of images that do not fit the networks.
    """
    out, init = atomic.absolute_path(out), atomic.absolute_path(init) if init else None
    device = require_arguments(config, steps, device, fewest=0)
    task = resolve(task) if isinstance(task, str) else task
    sources = [Source.of(source) for source in sources]
    config = resolve_precision(config, device)
    run = existing_run(out, "online", resume=resume)
    updates = require_updates(config, steps)
    if run is not None:
        require_same_task(run, task)
        require_same_observations(run, config)
        require_saved_sizes(run, config)
    schema = schema_of(task)
    seed = int(resolve_resumed(run, "seed", seed, 0))
    sources = (
        [pin_version(source) for source in sources]
        if run is None
        else restore_sources(run, sources)
    )
    require_data(config, sources, steps)
    observations = config.data.observations(schema)
    seen = schema.only(observations.sources)
    for source in sources:
        require_fit(seen, source.dataset.schema, f"{task.task} and {source.dataset.path}")
    agent = Agent(config, schema, seed, torch.device(device))
    about = {
        "seed": seed,
        "data": [identity(source) for source in sources],
        "schema": schema.to_json(),
        "env": task.settings,
        "steps": steps,
        "init": take_over(agent, init, run),
    }
    for note in observations.notes:
        on_note(note)
    begun = run or Run.create(out, "online", config, about)
    with run_lock(begun, lambda: run is not None or begun.step > 0 or has_replay(out)):
        begun.append_command()
        parts = Timer()
        replay = Replay(out, task, config.online.capacity)
        observer = ProgressTracker(begun, task.action_repeat, replay, parts, on_progress)
        playing = EnvSetup(task, seed, workers, timeout, stop, observer.round, on_message)
        with parts.timed("collect"):
            filled = prefill(config.online, playing, replay)
        if not filled:
            return begun
        data = [*sources, Source(replay.dataset, may_be_empty=bool(sources))]
        with parts.timed("eval"):
            store_baselines(begun, data, playing)
        stage = _stage(begun, config, agent, data, playing, observer, parts)
        dice = seed_entropy(replay.dataset, seed)
        learned = agent.collector(dice)
        actor = learned if config.online.actor == "learned" else RandomPolicy(schema.action, dice)
        table = AsyncCollector if background else SyncCollector
        reported = reported_episodes(begun)
        with EnvDriver(
            config.online, playing, replay, actor, parts, steps, table, reported=reported
        ) as supply:
            sampler = make_sampler(config.data, data, seed)
            supply.follow(sampler)
            watch = Callbacks(observer.update, stop, on_note)
            loop = Loop(begun, config, stage, sampler, watch, supply, parts)
            replay.label = lambda: f"{out.name}@{loop.step}"
            loop.begin(resumed=run is not None)
            with exhaustion_explained(agent.model, config.data):
                loop.run(updates)
            if not stop():
                store_baselines(begun, data, playing)
    return begun


def _stage(
    run: Run,
    config: TrainingConfig,
    agent: Agent,
    data: Sequence[Source],
    playing: EnvSetup,
    observer: ProgressTracker,
    parts: Timer,
) -> AgentStage:
    """What is learned, what is drawn, and how it is examined."""

    def shown() -> Batch:
        wide = config.data.override({"batch_size": CHOICE, "length": CONTEXT + HORIZON})
        return fixed_batches(wide, data, playing.seed, 0.0, 1)[0]

    def play(seed: int | None = None) -> EvalReport | None:
        policy = agent.player(sample=False, seed=[playing.seed, EVALUATION])
        tested = playing.with_limit_of(data)
        return run_eval(tested, agent.schema, policy, config.online.episodes, seed)

    def examined(step: int, best: float | None) -> dict[str, float] | None:
        report = play()
        if report is None:
            return None
        if best is not None and fmean(report.returns) <= best:
            return observer.examined(report)
        again = play(confirmation_seed(playing.seed, step))
        return None if again is None else observer.examined(report, again)

    model = ModelStage(run, config, agent.model, [], shown)
    return AgentStage(config.online, agent, model, examined, parts)
