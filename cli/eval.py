"""`wmtk eval`: the return of a policy."""

from __future__ import annotations

import os
import shlex
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmtk.cli.common import console, process
from wmtk.cli.common.console import human_count, note, warn
from wmtk.cli.common.env_options import echo, note_limits
from wmtk.cli.common.eval_table import render
from wmtk.cli.common.options import (
    OUTPUT,
    POLICY,
    TASK,
    Checkpoint,
    Device,
    Envs,
    EnvSettings,
    Fps,
    TrustEnv,
    Workers,
    parse_pairs,
    seed_option,
)
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.agent.policy_evaluation import PolicyEvaluation
    from wmtk.collecting import EvalReport, RolloutProgress
    from wmtk.envs import ResolvedTask

RANDOM_EPISODES = 10  # of random play, by default


def evaluate(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="RUN", help="A run directory with a policy.", show_default=False),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, metavar="N", help="Number of episodes.")] = 20,
    random: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Episodes of random play to compare with.",
            metavar="N",
            show_default=f"up to {RANDOM_EPISODES} if no returns of the task are known, else 0",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Evaluate this instead: random, or package.module:function from observation to "
            "action. RUN then only provides the task.",
            show_default=False,
            rich_help_panel=POLICY,
        ),
    ] = None,
    checkpoint: Checkpoint = "latest",
    sample: Annotated[
        bool,
        typer.Option(
            "--sample",
            help="Sample actions instead of taking the most likely ones.",
            rich_help_panel=POLICY,
        ),
    ] = False,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="TASK",
            help="The task.",
            show_default="that of the run's data",
            rich_help_panel=TASK,
        ),
    ] = None,
    env_settings: EnvSettings = None,
    trust_env: TrustEnv = None,
    video: Annotated[
        Path | None,
        typer.Option(
            help="Write one episode as .mp4, .webm or .gif.", metavar="F", rich_help_panel=OUTPUT
        ),
    ] = None,
    fps: Fps = 15.0,
    envs: Envs = 10,
    workers: Workers = None,
    device: Device = "auto",
    seed: Annotated[int, seed_option("The same seed gives the same episodes.")] = 0,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the record that wmtk scores reads.", rich_help_panel=OUTPUT
        ),
    ] = False,
) -> None:
    """Measure the return of a policy.

    The actor takes its most likely actions. Each environment plays its share of the episodes to
    the end, so that short episodes are not overrepresented. Intervals are 95% bootstrap intervals
    of the mean.

    The return is compared with known returns of the task or, if there are none, with a few
    episodes of random play. The return that the critic expected at the start of the episodes is
    shown beside the discounted return: if it is much larger, the policy exploits errors of its
    world model.

    Ctrl-C reports the completed episodes and exits with code 130.

    \b
    Examples:
      wmtk eval runs/policy
      wmtk eval runs/pong-policy --episodes 100 --json > pong.json
      wmtk eval runs/policy --video catch.mp4
      wmtk eval --policy random --task CartPole-v1
      wmtk eval --policy my_policies:greedy --task wmtk/Catch-v0
    """
    process.reserve_stdout()
    from wmtk.agent.policy_evaluation import evaluate as measure
    from wmtk.viz.videos.video_file import VIDEO_ENDINGS, require_ending

    if video is not None:
        require_ending(video, VIDEO_ENDINGS)
    target = run if policy is None else policy
    if target is None:
        raise UsageError(
            "No policy given: pass a run directory or --policy.", "Random play is --policy random."
        )
    if policy is not None and os.path.lexists(Path(policy) / "run.json"):
        hint = f"Pass it without --policy: wmtk eval {shlex.quote(policy)}."
        raise UsageError(f"{policy} is a run.", hint)

    def start(resolved: ResolvedTask, longest: int | None) -> None:
        echo(resolved, seed)
        if longest is None:
            note_limits(resolved)
        else:
            note(
                f"{resolved.task} has no time limit: episodes are truncated after {longest:,} "
                "steps, the length of the longest episode of the run's data."
            )

    signal.signal(signal.SIGTERM, process.interrupt)
    with _Bars(episodes, random) as bars:
        evaluation = measure(
            target,
            task,
            episodes=episodes,
            envs=envs,
            workers=workers,
            seed=seed,
            sample=sample,
            checkpoint=checkpoint,
            device=device,
            random_episodes=random,
            record=video is not None,
            env_options=parse_pairs(env_settings or [], "--env-set"),
            trust_env=trust_env or [],
            run=None if policy is None else run,
            on_start=start,
            on_progress=bars.update,
            on_random_progress=bars.update_random,
            on_message=warn,
        )
    report, random_report = evaluation.report, evaluation.random
    if report.results:
        console.emit(evaluation.to_json(), json=json, render=render)
    if video is not None and report.recording is not None:
        _write_video(video, evaluation, fps)
    if report.interrupted or (random_report is not None and random_report.interrupted):
        _note_interruption(report, episodes, video)
        raise typer.Exit(console.INTERRUPTED)


class _Bars(ExitStack):
    """A progress bar of the evaluation, then one of random play."""

    def __init__(self, episodes: int, random: int | None) -> None:
        super().__init__()
        self._random = min(episodes, RANDOM_EPISODES) if random is None else random
        self._bar = self.enter_context(console.progress("Evaluating", episodes, noun="episode"))
        self._is_random = False

    def update(self, progress: RolloutProgress) -> None:
        self._bar.update(completed=progress.episodes, description=_describe(progress))

    def update_random(self, progress: RolloutProgress) -> None:
        if not self._is_random:
            self._is_random = True
            self.close()
            bar = console.progress("Random play", self._random, noun="episode")
            self._bar = self.enter_context(bar)
        self._bar.update(completed=progress.episodes)


def _describe(progress: RolloutProgress) -> str:
    mean = f", mean return {progress.mean_return:.1f}" if progress.episodes else ""
    return f"Evaluating{mean}, {human_count(progress.steps_taken, 'step')}"


def _note_interruption(report: EvalReport, episodes: int, video: Path | None) -> None:
    done = len(report.results)
    if not report.interrupted:
        note("Random play was interrupted.")
    elif done:
        total = human_count(episodes, "episode")
        note(f"Interrupted after {done:,} of {total}. Short episodes end first: the result may be")
        note("biased towards them.")
    else:
        note("Interrupted before an episode was complete.")
    if video is not None and report.recording is None:
        note(f"{video} was not written: its episode was not complete.")


def _write_video(path: Path, evaluation: PolicyEvaluation, fps: float) -> None:
    from wmtk.viz.draw.episode_view import EpisodeView
    from wmtk.viz.videos.agent_video import agent_frames
    from wmtk.viz.videos.video_file import write_video

    recording = evaluation.report.recording
    assert recording is not None
    view = EpisodeView.of(evaluation.schema, evaluation.task.settings)
    title = f"{recording.policy} in {evaluation.task.task}"
    total = recording.episode.length + 1
    with console.progress(f"Drawing {path.name}", total, noun="frame") as bar:

        def frames() -> Any:
            for frame in agent_frames(recording, view, title=title):
                yield frame
                bar.advance()

        written = write_video(path, frames(), fps)
    facts = [
        human_count(recording.episode.length, "step"),
        f"return {recording.episode.total_reward:.4g}",
        f"{written.width} × {written.height} pixels",
        console.human_bytes(written.bytes),
    ]
    note(f"{path}: the first episode of environment 0, {', '.join(facts)}.")
