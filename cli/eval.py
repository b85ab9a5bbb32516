"""`wmtk eval`: play episodes with a policy, and tell how good it is."""

from __future__ import annotations

import dataclasses
import os
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmtk.cli.common import console, stdout
from wmtk.cli.common.env_options import TrustEnv, echo, interrupt, say_limits, warn
from wmtk.cli.common.eval_table import Player, record_of, render
from wmtk.cli.common.run_options import say
from wmtk.errors import EnvironmentFailedError, UsageError

if TYPE_CHECKING:
    from wmtk.collecting import EpisodeRecording, EvalReport, RolloutProgress
    from wmtk.envs import ResolvedTask
    from wmtk.runs.run_directory import Run
    from wmtk.scores import Baselines

FEW = 10  # episodes of random play, where nobody has said how many


def evaluate(
    run: Annotated[
        Path | None,
        typer.Argument(help="The run directory of wmtk train-policy.", show_default=False),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="The task to play.", show_default="the one that the run's data is of"),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Play this instead: random, or package.module:function from observation to "
            "action. A run is then asked only for its task.",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many are played.")] = 20,
    envs: Annotated[int, typer.Option(min=1, help="Environments that play side by side.")] = 10,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0, help="Processes they are spread over; 0 is this one.", show_default="cores"
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=console.MAX_SEED, help="The same seed gives the same episodes."),
    ] = 0,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw actions instead of taking the likeliest.")
    ] = False,
    random: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Episodes of random play to compare with.",
            metavar="N",
            show_default=f"as --episodes, {FEW} at most, if nothing is known of the task; else 0",
        ),
    ] = None,
    video: Annotated[
        Path | None, typer.Option(help="Film one episode: .mp4, .webm or .gif.", metavar="F")
    ] = None,
    fps: Annotated[float, typer.Option(min=0.1, max=240, help="Steps a second of film.")] = 15.0,
    checkpoint: Annotated[
        str, typer.Option(help="Which of the run: latest, best, or an update's number.")
    ] = "latest",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the task, such as sticky=0.")
    ] = None,
    trust_env: TrustEnv = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the record that wmtk scores reads.")
    ] = False,
) -> None:
    """Play episodes with a policy, and tell how good it is.

    \b
    Examples:
      wmtk eval runs/catch-policy                             20 episodes of its own task
      wmtk eval runs/pong-policy --episodes 100 --json > pong.json
      wmtk eval runs/catch-policy --video catch.mp4           what it sees and expects
      wmtk eval --policy random --task CartPole-v1            a baseline
      wmtk eval --policy my_policies:greedy --task wmtk/Catch-v0

    Actions are the actor's most likely ones. Each environment plays its share of the episodes to
    the end, so that short ones do not count more. Intervals are of the mean: 95%, by bootstrap over
    the episodes.

    Beside the return stand those that are known of the task or, if none are, that of a few episodes
    of random play; --random 0 leaves them out.

    What the critic expected at the start of an episode is shown beside the discounted return that
    came: if it expects much more, the policy exploits errors of its world model.

    Ctrl-C reports the episodes that are whole and exits with code 130.
    """
    stdout.reserve()
    from wmtk.collecting import evaluate_policy as play
    from wmtk.viz.videos.video_file import VIDEO_ENDINGS, require_ending

    if video is not None:
        require_ending(video, VIDEO_ENDINGS)
    options = console.pairs(settings or [])
    trusted = trust_env or []
    if policy is None:
        player = trained(run, task, options, trusted, checkpoint, device, seed, sample=sample)
    else:
        if sample:
            raise UsageError("--sample is for trained actors.", f"Leave it away with {policy}.")
        player = _named(policy, run, task, options, trusted, seed)
    echo(player.task, seed)
    if player.longest is None:
        say_limits(player.task, "--set")
    else:
        say(f"{player.task.task} has no time limit: episodes are cut after {player.longest:,}")
        say("steps, the length of the longest episode of the run's data.")
    signal.signal(signal.SIGTERM, interrupt)
    with console.progress(f"Evaluating {player.task.task}", episodes, noun="episode") as bar:
        report = play(
            player.task,
            player.policy,
            episodes=episodes,
            seed=seed,
            envs=envs,
            workers=workers,
            schema=player.schema,
            max_episode_steps=player.longest,
            introspector=player.mind,
            record=video is not None,
            on_progress=lambda p: bar.update(completed=p.episodes, description=_describe(p)),
            on_message=warn,
        )
    if random is None:
        random = _random_by_default(player, episodes)
    chance = None
    if not report.interrupted:
        try:
            chance = _random(player, random, seed, envs, workers)
        except EnvironmentFailedError as error:  # what was asked for is there already
            warn(f"Random play failed: {error.message}")
    if report.results:
        console.emit(record_of(player, report, chance), json=json, render=render)
    if video is not None and report.recording is not None:
        _film(video, report.recording, player, fps)
    if report.interrupted or (chance is not None and chance.interrupted):
        _tell_interruption(report, episodes, video)
        raise typer.Exit(console.INTERRUPTED)


def _describe(progress: RolloutProgress) -> str:
    mean = f", mean return {progress.mean_return:.1f}" if progress.episodes else ""
    return f"Evaluating{mean}, {console.human_count(progress.steps_taken, 'step')}"


def _tell_interruption(report: EvalReport, episodes: int, video: Path | None) -> None:
    done = len(report.results)
    if not report.interrupted:
        say("Random play was interrupted.")
    elif done:
        say(f"Interrupted after {done:,} of {console.human_count(episodes, 'episode')}. Short ones")
        say("end first: these may be shorter than most.")
    else:
        say("Interrupted before an episode was whole.")
    if video is not None and report.recording is None:
        say(f"{video} was not written: the episode to film was not whole.")


# --- who plays --------------------------------------------------------------------------------


def trained(
    path: Path | None,
    task: str | None,
    options: dict[str, str],
    trust_env: list[str],
    checkpoint: str,
    device: str,
    seed: int,
    *,
    sample: bool,
) -> Player:
    """The actor of a run."""
    if path is None:
        raise UsageError(
            "No policy given: pass a run directory or --policy.",
            "Random play is --policy random.",
        )
    from wmtk.agent.actor_policy import ActorIntrospector
    from wmtk.agent.device import choose_device, tune_threads
    from wmtk.agent.load import load
    from wmtk.collecting import schema_of, task_of
    from wmtk.collecting.evaluator import EVALUATION
    from wmtk.datasets.schema_match import require_fit

    agent = load(path, checkpoint, choose_device(device))
    tune_threads(rows=1, depth=agent.model.config.cnn_depth)  # acting is little work
    policy = agent.make_policy(sample=sample, seed=[seed, EVALUATION])
    resolved = task_of(agent.run.about["env"], task, options, trust_env=trust_env)
    schema = schema_of(resolved)
    require_fit(agent.data_schema, schema, f"The policy of {path} and {resolved.task}")
    actions = "sampled actions" if sample else "most likely actions"
    return Player(
        task=resolved,
        schema=schema,
        policy=policy,
        name=f"{path}, update {console.human_count(agent.step)}, {actions}",
        mind=ActorIntrospector(policy),
        seed=int(agent.run.about["seed"]),
        run=str(path),
        about={"sample": sample, "update": agent.step, "checkpoint": agent.hash},
        baselines=_stored_baselines(agent.run, resolved),
    )


def _stored_baselines(run: Run, task: ResolvedTask) -> Baselines | None:
    """The baselines of a run, if it is of this very task."""
    from wmtk.runs.baselines import read_baselines

    recorded = run.about["env"]
    usual = dataclasses.asdict(type(task.options)())  # for options that came later than the run
    before = {name: recorded.get(name, usual[name]) for name in usual}
    same = recorded.get("task") == task.task and before == console.to_plain(task.kwargs)
    return read_baselines(run.path) if same else None


def _named(
    name: str,
    run: Path | None,
    task: str | None,
    options: dict[str, str],
    trust_env: list[str],
    seed: int,
) -> Player:
    """Random play, or a function."""
    from wmtk.collecting import find_policy, load_policy, schema_of, task_of
    from wmtk.collecting.evaluator import EVALUATION

    if os.path.lexists(Path(name) / "run.json"):
        raise UsageError(
            f"{name} is a run.", f"Give it without --policy: wmtk eval {shlex.quote(str(name))}."
        )
    find_policy(name)  # which refuses what does not exist
    stored: dict[str, Any] = {}
    if run is not None:
        from wmtk.runs.run_directory import Run

        stored = dict(Run(run).about["env"])
    elif task is None:
        raise UsageError(
            "No task given: pass a run directory or --task.", "Such as --task wmtk/Catch-v0."
        )
    resolved = task_of(stored, task, options, trust_env=trust_env)
    schema = schema_of(resolved)
    policy = load_policy(name, schema.action, [seed, EVALUATION])
    return Player(resolved, schema, policy, name, seed=seed, agent=name)


def _random_by_default(player: Player, episodes: int) -> int:
    """How many episodes of random play are worth their time, if nobody has said so."""
    from wmtk.envs.known_returns import known_returns

    # A return says little on its own; random play needs none of its own kind beside it.
    measured = player.baselines is not None and player.baselines.random is not None
    known = measured or known_returns(player.task)
    return 0 if known or player.agent == "random" else min(episodes, FEW)


def _random(
    player: Player, episodes: int, seed: int, envs: int, workers: int | None
) -> EvalReport | None:
    """Random play in the same task, if there is to be any."""
    if not episodes:
        return None
    from wmtk.collecting import RandomPolicy
    from wmtk.collecting import evaluate_policy as play
    from wmtk.collecting.evaluator import EVALUATION

    with console.progress("Random play", episodes, noun="episode") as bar:
        return play(
            player.task,
            RandomPolicy(player.schema.action, [seed, EVALUATION]),
            episodes=episodes,
            seed=seed,
            envs=envs,
            workers=workers,
            schema=player.schema,
            max_episode_steps=player.longest,
            on_progress=lambda p: bar.update(completed=p.episodes),
            on_message=warn,
        )


# --- the film ---------------------------------------------------------------------------------


def _film(path: Path, recording: EpisodeRecording, player: Player, fps: float) -> None:
    from wmtk.viz.draw.episode_view import View
    from wmtk.viz.videos.agent_video import agent_frames
    from wmtk.viz.videos.video_file import write_video

    view = View.of(player.schema, player.task.settings)
    title = f"{recording.policy} in {player.task.task}"
    total = recording.episode.length + 1
    with console.progress(f"Drawing {path.name}", total, noun="frame") as bar:

        def frames() -> Any:
            for frame in agent_frames(recording, view, title=title):
                yield frame
                bar.advance()

        written = write_video(path, frames(), fps)
    facts = [
        console.human_count(recording.episode.length, "step"),
        f"return {recording.episode.total_reward:.4g}",
        f"{written.width} × {written.height} pixels",
        console.human_bytes(written.bytes),
    ]
    say(f"{path}: the first episode of environment 0, {', '.join(facts)}.")
