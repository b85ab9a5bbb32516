"""A session: imagination, the real environment, or both in lock-step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.outputs import LatentState, Prediction
from wmtk.collecting import seed_entropy
from wmtk.datasets import Batch, Episode, Schema
from wmtk.errors import UsageError
from wmtk.viz.live import protocol
from wmtk.viz.live.branches import MOST_STEPS_KEPT, Observation, Step
from wmtk.viz.live.catalog import Catalog, DataEntry, ModelPool, RecordingTarget, fits
from wmtk.viz.live.real_env import CONTEXT, RealEnv, window
from wmtk.viz.windows import Window, read_windows

if TYPE_CHECKING:
    from wmtk.agent.stepper import ModelStepper

HUMAN = "human"  # the policy of episodes that a person plays, in their provenance
Codes = Mapping[int, int]  # the forced class of each variable


@dataclass(frozen=True)
class RecordedRows:
    """Recorded rows around the start of a session."""

    batch: Batch
    start: int  # index of the row at which the session starts

    @classmethod
    def read(cls, entry: DataEntry, episode: int, step: int) -> RecordedRows:
        with entry.lock:
            table = entry.dataset.episodes
            if episode >= len(table) or step > int(table.length[episode]):
                raise UsageError(
                    f"{entry.name} has no step {step} of an episode {episode}.",
                    "Choose an episode on the Data page.",
                )
            first = max(0, step - CONTEXT + 1)
            rows = min(int(table.length[episode]) + 1 - first, CONTEXT + MOST_STEPS_KEPT)
            batch = read_windows(entry.dataset, [Window(episode, first, rows)], rows)
        return cls(batch, step - first)

    @property
    def context(self) -> Batch:
        """The rows up to and including the start."""
        end, first = self.start + 1, int(self.batch.start[0])
        obs = {key: rows[0, :end] for key, rows in self.batch.obs.items()}
        return window(obs, self.batch.action[0, :end], self.batch.reward[0, :end], first)

    def obs(self, step: int) -> Observation | None:
        """The observation `step` steps after the start."""
        row = self.start + step
        if row >= self.batch.reward.shape[1]:
            return None
        return {key: rows[0, row] for key, rows in self.batch.obs.items()}

    def action(self, step: int) -> NDArray[Any] | None:
        """The action that led to the observation of that step."""
        row = self.start + step
        return None if row >= self.batch.reward.shape[1] else np.asarray(self.batch.action[0, row])

    def reward(self, step: int) -> float:
        return float(self.batch.reward[0, self.start + step])


@dataclass
class Session:
    """A model, a real environment and recorded rows, each of them optional."""

    schema: Schema  # of the displayed observations: the model's, if there is a model
    seed: int
    stepper: ModelStepper | None = None
    real: RealEnv | None = None
    recording: RecordedRows | None = None

    def begin(self, futures: int, temperature: float) -> tuple[Step, Prediction | None]:
        """The first step."""
        truth, batch = None, None
        if self.real is not None:
            truth = self.real.begin()
            batch = self.real.recent()
        elif self.recording is not None:
            truth, batch = self.recording.obs(0), self.recording.context
        if self.stepper is None:
            return Step("start", None, truth=truth), None
        truth = None if truth is None else self.stepper.preprocess(truth)
        if batch is not None:
            state = self.stepper.observe(batch, [self.seed])
        else:
            state = self.stepper.initial_state([self.seed], temperature)
        state = spread(state, futures)
        prediction = self.stepper.predict(state)
        synced = batch is not None
        first = _make_step("start", None, state, None, prediction, truth=truth, synced=synced)
        return first, prediction

    def actions(
        self,
        current: Step,
        actor: str,
        pressed: NDArray[Any],
        step: int,
        branch_seed: int,
        futures: int,
    ) -> NDArray[Any] | None:
        """The next action of each future, (S, …); None at the end of the recording."""
        if actor == "policy" and self.stepper is not None and current.state is not None:
            state = spread(current.state, futures)
            return self.stepper.act(state, seed=[self.seed, branch_seed, step, 1])
        action: NDArray[Any] | None = pressed
        if actor == "recorded":
            action = None if self.recording is None else self.recording.action(step)
        return None if action is None else np.repeat(action[None], futures, 0)

    def advance(
        self,
        current: Step,
        actions: NDArray[Any],
        by: str,
        *,
        step: int,
        branch_seed: int,
        temperature: float,
        forced: Codes,
    ) -> tuple[Step, Prediction | None, Episode | None]:
        """The step after actions (S, …), and the real episode if it ends here."""
        truth, reward, episode = None, None, None
        if self.real is not None:
            truth, reward, episode = self.real.step(actions[0], by)
        elif self.recording is not None and by == "recorded" and current.truth is not None:
            truth, reward = self.recording.obs(step), self.recording.reward(step)
        if self.stepper is None or current.state is None:
            return Step(by, actions, truth=truth, true_reward=reward), None, episode
        truth = None if truth is None else self.stepper.preprocess(truth)
        reward = None if reward is None else self.stepper.transform_reward(reward)
        before = spread(self.forced(current, forced), len(actions))
        unforced = self.stepper.step(
            before, actions, seed=[self.seed, branch_seed, step], temperature=temperature
        )
        state = with_codes(unforced, forced)
        prediction = self.stepper.predict(state)
        step_after = _make_step(
            by,
            actions,
            state,
            unforced if forced else None,
            prediction,
            truth=truth,
            true_reward=reward,
        )
        return step_after, prediction, episode

    def synchronize(self, current: Step) -> tuple[Step, Prediction]:
        """The current step after the model has observed the latest real rows."""
        assert self.stepper is not None
        assert self.real is not None
        assert current.state is not None
        state = self.stepper.observe(self.real.recent(), [self.seed, self.real.steps])
        state = spread(state, len(current.state.deter))
        prediction = self.stepper.predict(state)
        synced = _make_step(
            current.by,
            current.action,
            state,
            None,
            prediction,
            truth=current.truth,
            true_reward=current.true_reward,
            synced=True,
        )
        return synced, prediction

    def forced(self, current: Step, codes: Codes) -> LatentState:
        """The state of a step with these codes forced instead of codes that were forced earlier."""
        assert current.state is not None
        return with_codes(current.unforced or current.state, codes)

    def close(self) -> None:
        if self.real is not None:
            self.real.close()


def _make_step(
    by: str,
    action: NDArray[Any] | None,
    state: LatentState,
    unforced: LatentState | None,
    prediction: Prediction,
    **rest: Any,
) -> Step:
    return Step(
        by,
        action,
        state,
        unforced,
        prediction.reward,
        prediction.discount,
        prediction.value,
        prediction.entropy,
        **rest,
    )


def spread(state: LatentState, futures: int) -> LatentState:
    """One state per future; additional futures start from the first state."""
    if len(state.deter) == futures:
        return state
    which = [number if number < len(state.deter) else 0 for number in range(futures)]
    return LatentState(state.deter[which], state.codes[which])


def with_codes(state: LatentState, codes: Codes) -> LatentState:
    """The states with some variables set to the given classes."""
    valid = {v: k for v, k in codes.items() if v < state.codes.shape[1]}
    if not valid or state.codes.dtype.kind == "f":
        return state
    changed = state.codes.copy()
    for variable, code in valid.items():
        changed[:, variable] = code
    return replace(state, codes=changed)


@dataclass(frozen=True)
class SessionStart:
    """A session, the run that its model was borrowed from, and the environment's description."""

    session: Session
    run: str | None
    env: Mapping[str, Any]


def make_session(catalog: Catalog, models: ModelPool, request: protocol.Start) -> SessionStart:
    """The requested session; raises UsageError before anything is opened if parts do not match."""
    if request.run is None:
        target = catalog.target
        if target is None:
            raise UsageError("No model was selected.", "Select a run.")
        return SessionStart(_real_session(target, request), None, target.task.settings)
    entry = catalog.run(request.run)
    recording = real = None
    if request.source == "data":
        data = catalog.data(request.data)
        if not fits(entry.schema, data.dataset.schema):
            raise UsageError(
                f"{entry.name} has other observations or actions than {data.name}.",
                "Choose a dataset of the same task.",
            )
        recording = RecordedRows.read(data, request.episode, request.step)
    elif request.source == "real":
        names = {"person": HUMAN, "policy": f"{entry.name}@{entry.update}"}
        schema = _stored_schema(entry.schema, catalog.target)
        real = RealEnv(entry.task(), schema, [request.seed], names)
    stepper = models.borrow(request.run)
    session = Session(stepper.schema, request.seed, stepper, real, recording)
    return SessionStart(session, request.run, entry.about.get("env", {}))


def _real_session(target: RecordingTarget, request: protocol.Start) -> Session:
    seed = seed_entropy(target.dataset, target.seed)
    schema = target.dataset.schema
    return Session(schema, request.seed, real=RealEnv(target.task, schema, seed, {"person": HUMAN}))


def _stored_schema(model: Schema, target: RecordingTarget | None) -> Schema:
    """The schema of real episodes: that of the dataset if they can be saved to it."""
    if target is not None and fits(model, target.dataset.schema):
        return target.dataset.schema
    return replace(model, info={})
