"""`wmtk.evaluate`: returns of whole episodes, compared with baselines."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wmtk.agent.named_policy import (
    PolicyLike,
    acting_threads,
    agent_of,
    named_task,
    policy_name,
    simple_policy,
)
from wmtk.collecting import (
    EvalReport,
    RandomPolicy,
    RolloutProgress,
    evaluate_policy,
    schema_of,
    task_of,
)
from wmtk.collecting.evaluator import EVALUATION
from wmtk.datasets import Schema
from wmtk.datasets.schema_match import require_fit
from wmtk.envs import ResolvedTask
from wmtk.envs.known_returns import known_returns, reward_threshold
from wmtk.errors import EnvironmentFailedError, UsageError
from wmtk.reprs import brief_repr
from wmtk.scores import (
    Baselines,
    MeanReturn,
    ReturnComparison,
    compare_return,
    normalize,
    summarize_returns,
)

if TYPE_CHECKING:
    from wmtk.agent.actor_policy import ActorIntrospector
    from wmtk.agent.load import LoadedModel
    from wmtk.runs.run_directory import Run

FEW = 10  # maximal default number of episodes of the random policy


@dataclass(frozen=True)
class PolicyEvaluation:
    """The returns of a policy, and baselines to compare them with."""

    task: ResolvedTask
    schema: Schema  # of the task
    policy: str  # description
    report: EvalReport
    random: EvalReport | None = None  # episodes of the random policy, if it was evaluated
    baselines: Baselines | None = None  # stored by the run, if it is of this task
    training_seed: int = 0
    agent: str = ""  # name of a policy that is not a run
    run: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)  # of a run: update, checkpoint, …

    __repr__ = brief_repr

    @property
    def returns(self) -> tuple[float, ...]:
        """Sums of rewards, in the order in which the episodes ended."""
        return self.report.returns

    @property
    def mean_return(self) -> float:
        """The mean of `returns`; NaN without episodes."""
        return sum(self.returns) / len(self.returns) if self.returns else float("nan")

    def comparison(self) -> ReturnComparison:
        """Compare the mean return with the random policy, the data and the task's threshold."""
        stored = self.baselines or Baselines()
        known = known_returns(self.task)
        random = MeanReturn(known["random"]) if known else stored.random
        if self.random is not None and self.random.results:
            random = MeanReturn.of(summarize_returns(self.random.returns))
        elif self.agent == "random":
            random = None
        baselines = Baselines(random, stored.data, reward_threshold(self.task))
        return compare_return(MeanReturn.of(summarize_returns(self.returns)), baselines)

    def to_json(self) -> dict[str, Any]:
        """The record that `wmtk scores` reads, plus lengths, comparisons and settings."""
        report = self.report
        base = report.evaluation(seed=self.training_seed, agent=self.agent, run=self.run).to_json()
        known = known_returns(self.task)
        imagined = None
        if report.discount is not None:
            pairs = zip(report.predicted_returns, report.discounted_returns, strict=True)
            imagined = {
                "discount": report.discount,
                "expected": _spread(report.predicted_returns),
                "real": _spread(report.discounted_returns),
                "excess": _spread([expected - real for expected, real in pairs]),
                "expected_returns": report.predicted_returns,
                "real_returns": report.discounted_returns,
            }
        measured = self.random is not None and bool(self.random.results)
        return {
            **base,
            "policy": self.policy,
            **self.details,
            "settings": self.task.settings,
            "length": _spread(report.lengths),
            "known": known,
            "reached": _reached(base["mean"], known),
            "measured_random": _spread(self.random.returns) if self.random and measured else None,
            "comparison": self.comparison().to_json(),
            "imagined": imagined,
            "steps": sum(report.lengths),
            "frames": report.frames,
            "dropped": report.dropped,
            "seconds": report.seconds,
            "interrupted": report.interrupted,
        }


def evaluate(
    policy: PolicyLike,
    task: str | ResolvedTask | None = None,
    *,
    episodes: int = 20,
    envs: int = 10,
    workers: int | None = 0,
    seed: int = 0,
    sample: bool = False,
    checkpoint: str = "latest",
    device: str = "auto",
    random_episodes: int | None = None,
    record: bool = False,
    env_options: Mapping[str, Any] | None = None,
    trust_env: str | Collection[str] = (),
    run: str | os.PathLike[str] | None = None,
    timeout: float = 60.0,
    on_start: Callable[[ResolvedTask, int | None], None] = lambda task, longest: None,
    on_progress: Callable[[RolloutProgress], None] = lambda _: None,
    on_random_progress: Callable[[RolloutProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
) -> PolicyEvaluation:
    """Run a policy in whole episodes and report their returns.

    Each environment runs an equal share of the episodes to the end, so that short episodes are not
    over-represented. The same seed gives the same episodes. They differ from those of
    `wmtk.collect` with any seed.

    Example:
        >>> import wmtk
        >>> result = wmtk.evaluate("random", "wmtk/Catch-v0", episodes=4)
        >>> len(result.returns)
        4
        >>> push_left = wmtk.evaluate(lambda obs: 0, "CartPole-v1", episodes=2, random_episodes=0)
        >>> push_left.mean_return < 20
        True

    Args:
        policy: The run directory of a trained policy, a loaded agent, `"random"`,
            `"package.module:function"`, a function from an observation to an action, or a `Policy`.
        task: The task; by default the one that the run was trained on.
        episodes: Number of episodes.
        envs: Environments that run in parallel.
        workers: Processes for the environments; 0 runs them in this process. None starts one per
            core, except for the environments of wmtk, which are faster without.
        seed: Seed of the environments and of the policy.
        sample: Sample the actions of a trained policy instead of taking the most likely ones.
        checkpoint: `"latest"`, `"best"`, or the number of an update.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        random_episodes: Episodes of the random policy, as a baseline. By default 0 if its return
            is known for the task, else `episodes`, at most 10.
        record: Store the first episode of environment 0, with images, in `report.recording`.
        env_options: Options of the environment, which replace the recorded options of the run.
        trust_env: `module:Id` of an environment that the run may import.
        run: A run directory whose recorded task and options are used, for other policies.
        timeout: Seconds without a step after which a worker process is replaced.
        on_start: Called with the resolved task and the number of steps after which episodes are
            truncated (None: the task's own limit), before the first episode.
        on_progress: Called after each round of steps.
        on_random_progress: Like `on_progress`, for the episodes of the random policy.
        on_message: Called with warnings.

    Returns:
        Returns, lengths, and baselines: the random policy, the data and the task's threshold.
        Ctrl-C returns the finished episodes with `report.interrupted=True`.
    """
    agent = agent_of(policy, checkpoint, device)
    if agent is None:
        setup = _setup_policy(policy, task, run, env_options, trust_env, seed, sample=sample)
    else:
        setup = _setup_agent(
            agent, policy_name(policy), task, env_options, trust_env, seed, sample=sample
        )
    on_start(setup.task, setup.longest)

    def run_episodes(
        actor: Any, count: int, introspector: ActorIntrospector | None, **options: Any
    ) -> EvalReport:
        return evaluate_policy(
            setup.task,
            actor,
            episodes=count,
            seed=seed,
            envs=envs,
            workers=workers,
            timeout=timeout,
            schema=setup.schema,
            introspector=introspector,
            max_episode_steps=setup.longest,
            on_message=on_message,
            **options,
        )

    actor = setup.actor
    introspector = _introspector(actor)
    with acting_threads(agent):
        report = run_episodes(actor, episodes, introspector, record=record, on_progress=on_progress)
    random = None
    count = setup.default_random(episodes) if random_episodes is None else random_episodes
    if count and not report.interrupted:
        try:
            random_policy = RandomPolicy(setup.schema.action, [seed, EVALUATION])
            random = run_episodes(random_policy, count, None, on_progress=on_random_progress)
        except EnvironmentFailedError as error:
            on_message(f"Random play failed: {error.message}")
    return setup.result(report, random)


def _introspector(actor: Any) -> ActorIntrospector | None:
    """The introspector of a trained actor; None for other policies. Does not import torch."""
    module = sys.modules.get("wmtk.agent.actor_policy")
    if module is None or not isinstance(actor, module.ActorPolicy):
        return None
    from wmtk.agent.actor_policy import ActorIntrospector

    return ActorIntrospector(actor)


@dataclass(frozen=True)
class _Setup:
    """The task and the policy of an evaluation, and the record of both."""

    task: ResolvedTask
    schema: Schema
    actor: Any
    policy: str
    training_seed: int
    agent: str = ""
    run: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    baselines: Baselines | None = None

    @property
    def longest(self) -> int | None:
        """Steps after which an episode is truncated; None for tasks with a time limit.

        The limit is the longest episode of the data, so that returns are comparable.
        """
        if self.task.time_limit is not None or self.baselines is None:
            return None
        return self.baselines.longest

    def default_random(self, episodes: int) -> int:
        """Episodes of the random policy: 0 if its return is known or `policy` is random itself."""
        measured = self.baselines is not None and self.baselines.random is not None
        known = measured or known_returns(self.task)
        return 0 if known or self.agent == "random" else min(episodes, FEW)

    def result(self, report: EvalReport, random: EvalReport | None) -> PolicyEvaluation:
        return PolicyEvaluation(
            task=self.task,
            schema=self.schema,
            policy=self.policy,
            report=report,
            random=random,
            baselines=self.baselines,
            training_seed=self.training_seed,
            agent=self.agent,
            run=self.run,
            details=self.details,
        )


def _setup_agent(
    agent: LoadedModel,
    name: str,
    task: str | ResolvedTask | None,
    env_options: Mapping[str, Any] | None,
    trust_env: str | Collection[str],
    seed: int,
    *,
    sample: bool,
) -> _Setup:
    policy = agent.make_policy(sample=sample, seed=[seed, EVALUATION])
    resolved = _recorded_task(agent.run, task, env_options, trust_env)
    schema = schema_of(resolved)
    require_fit(agent.data_schema, schema, f"The policy of {agent.run.path} and {resolved.task}")
    actions = "sampled actions" if sample else "most likely actions"
    return _Setup(
        task=resolved,
        schema=schema,
        actor=policy,
        policy=f"{name}, update {agent.step:,}, {actions}",
        training_seed=int(agent.run.about["seed"]),
        run=name,
        details={"sample": sample, "update": agent.step, "checkpoint": agent.hash},
        baselines=_stored_baselines(agent.run, resolved),
    )


def _setup_policy(
    policy: PolicyLike,
    task: str | ResolvedTask | None,
    run: str | os.PathLike[str] | None,
    env_options: Mapping[str, Any] | None,
    trust_env: str | Collection[str],
    seed: int,
    *,
    sample: bool,
) -> _Setup:
    name = policy_name(policy)
    if sample:
        hint = f"Omit sample=True with {name}."
        raise UsageError("Only trained actors can sample actions.", hint)
    make_policy = simple_policy(policy)  # raises for a policy that does not exist
    if run is not None:
        from wmtk.runs.run_directory import Run

        resolved = _recorded_task(Run(run), task, env_options, trust_env)
    elif task is None:
        raise UsageError(
            "No task given: pass a run directory or a task.", "For example task='wmtk/Catch-v0'."
        )
    elif isinstance(task, str):
        resolved = task_of({}, task, env_options, trust_env=trust_env)
    else:
        resolved = named_task(task, env_options)
    schema = schema_of(resolved)
    actor = make_policy(schema, [seed, EVALUATION])
    return _Setup(resolved, schema, actor, name, training_seed=seed, agent=name)


def _recorded_task(
    run: Run,
    task: str | ResolvedTask | None,
    env_options: Mapping[str, Any] | None,
    trust_env: str | Collection[str],
) -> ResolvedTask:
    """`task`, else the recorded task of a run, with options."""
    if task is not None and not isinstance(task, str):
        return named_task(task, env_options)
    return task_of(run.about["env"], task, env_options, trust_env=trust_env)


def _stored_baselines(run: Run, task: ResolvedTask) -> Baselines | None:
    """The baselines of a run; None if its task or options differ from `task`."""
    from wmtk.runs.baselines import read_baselines

    recorded = run.about["env"]
    defaults = dataclasses.asdict(type(task.options)())  # for options that older runs lack
    former = {name: recorded.get(name, defaults[name]) for name in defaults}
    current = json.loads(json.dumps(task.kwargs, default=str))
    same = recorded.get("task") == task.task and former == current
    return read_baselines(run.path) if same else None


def _spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation and interval of the mean."""
    summary = dataclasses.asdict(summarize_returns(values))
    return {name: summary[name] for name in ("episodes", "mean", "std", "low", "high")}


def _reached(mean: float, known: Mapping[str, float]) -> dict[str, float]:
    """The return on a scale from the random policy (0) to each other known return (1)."""
    others = [name for name in known if name != "random"]
    return {name: normalize(mean, known["random"], known[name]).item() for name in others}
