"""The player of one page: its session, settings, and position in the tree of branches."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from wmtk.agent.outputs import Prediction
from wmtk.datasets import Episode
from wmtk.errors import UsageError, WmtkError
from wmtk.viz.draw.actions import ActionLook
from wmtk.viz.live import protocol
from wmtk.viz.live.branches import Branch, BranchTree, Step
from wmtk.viz.live.catalog import Catalog, ModelPool
from wmtk.viz.live.controls import Controls
from wmtk.viz.live.frame_painter import FramePainter, code_tile
from wmtk.viz.live.real_env import RealEnv, Recorder
from wmtk.viz.live.session import Session, make_session

PATIENCE = 5.0  # seconds that a page may be behind before playback waits for it
POLL_INTERVAL = 0.1  # seconds between checks of a page that is behind
RATE = 30  # steps over which the rate is averaged

_FIRST = protocol.Settings(
    kind="settings", playing=False, actor="person", speed=15, temperature=1, futures=1
)


class Page(Protocol):
    """The receiver of frames and events; neither call blocks."""

    def send_frame(self, frame: protocol.Frame) -> None: ...

    def send_event(self, kind: str, **about: Any) -> None: ...

    def seconds_behind(self) -> float:
        """Seconds since the page should have drawn a frame; 0 if it is up to date."""


class Player:
    """Handles messages and, while playing, the clock; runs in the inference thread."""

    def __init__(
        self, catalog: Catalog, models: ModelPool, recorder: Recorder | None, page: Page
    ) -> None:
        self._catalog, self._models, self._recorder, self._page = catalog, models, recorder, page
        self._settings = _FIRST
        self._keys = protocol.Keys(kind="keys")
        self._forced: dict[int, int] = {}
        self._codes: tuple[int, ...] = (0, 0)  # variables and classes that can be forced
        self._recording = recorder is not None
        self._session: Session | None = None
        self._run: str | None = None
        self._request: protocol.Start | None = None
        self._env: Mapping[str, Any] = {}
        self._starts = 0
        self._branches = BranchTree()
        self._branch, self._step = Branch(0, 0), 0
        self._sent = (0, 0, 0)  # session, branch and step up to which the page has rows
        self._due = math.inf
        self._times: deque[float] = deque(maxlen=RATE)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            protocol.Start: self._on_start,
            protocol.Settings: self._on_settings,
            protocol.Keys: self._on_keys,
            protocol.StepOnce: self._on_step,
            protocol.Goto: self._on_goto,
            protocol.Fork: self._on_fork,
            protocol.Force: self._on_force,
            protocol.Sync: self._on_sync,
            protocol.Record: self._on_record,
        }

    # --- called by the engine ---

    @property
    def due(self) -> float:
        """The time of the next step; infinity while paused."""
        return self._due

    def handle(self, message: protocol.Incoming) -> None:
        self._handlers[type(message)](message)

    def tick(self) -> None:
        """Make one step and schedule the next."""
        now = time.monotonic()
        if self._page.seconds_behind() > PATIENCE:
            # Do not pause: that is a setting of the user, and P would toggle it.
            self._due = now + POLL_INTERVAL
            return
        # A clock that is behind restarts: skipped steps are not repeated.
        self._due = max(self._due + 1 / self._settings.speed, now)
        self._times.append(now)
        self._advance()

    def fail(self, error: BaseException) -> None:
        """Pause and report an error."""
        self._set_playing(False)
        if isinstance(error, WmtkError):
            self._page.send_event("error", message=error.message, hint=error.hint)
        else:
            text = f"{type(error).__name__}: {error}"
            self._page.send_event("error", message=text, hint="Unexpected error; please report it.")

    def close(self) -> None:
        """Free all resources."""
        self._due = math.inf
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._run is not None:
            self._models.give_back(self._run)
            self._run = None
        self._branches = BranchTree()
        self._branch = Branch(0, 0)

    # --- starting ---

    def _on_start(self, message: protocol.Start) -> None:
        session = self._session
        if session is None or not self._continues(session, message):
            # Return the previous model afterwards: it may be the same one.
            start = make_session(self._catalog, self._models, message)
            self.close()
            session, self._run, self._env = start.session, start.run, start.env
        self._session, self._request = session, message
        self._starts += 1
        self._forced = {}
        self._times.clear()
        self._settings = _changed(self._settings, playing=False, actor=self._available_actor())
        self._controls = Controls(session.schema.action, self._env)
        names = tuple(button.label for button in self._controls.buttons)
        self._action_look = ActionLook(session.schema.action, names)
        self._painter = FramePainter(session.schema)
        current, prediction = session.begin(self._settings.futures, self._settings.temperature)
        self._branch, self._step = self._branches.begin(current), 0
        discrete = session.stepper is not None and session.stepper.latent != "gaussian"
        self._codes = prediction.prior.shape[1:] if prediction is not None and discrete else (0, 0)
        self._send_started(message)
        self._send_state()
        self._show(current, prediction)

    def _continues(self, session: Session, message: protocol.Start) -> bool:
        """Whether to start the next episode of the same environment."""
        if session.real is None or message != self._request:
            return False
        return bool(session.real.ended) or message.run is None

    def _available_actor(self) -> protocol.Actor:
        """The selected actor, or `person` if it is not available."""
        session, actor = self._session, self._settings.actor
        assert session is not None
        if actor == "policy" and (session.stepper is None or not session.stepper.has_actor):
            return "person"
        return "person" if actor == "recorded" and session.recording is None else actor

    # --- settings ---

    def _on_settings(self, message: protocol.Settings) -> None:
        self._settings = message
        if self._session is None:
            self._settings = _changed(message, playing=False)
            return
        self._settings = _changed(message, actor=self._available_actor())
        self._set_playing(message.playing)

    def _set_playing(self, playing: bool) -> None:
        if playing and self._end_reason():
            self._page.send_event("note", text=self._end_reason())
            playing = False
        if playing and math.isinf(self._due):
            self._due = time.monotonic()
            self._times.clear()
        if not playing:
            self._due = math.inf
        self._settings = _changed(self._settings, playing=playing)
        self._send_state()

    def _pause(self, text: str) -> None:
        self._set_playing(False)
        self._page.send_event("note", text=text)

    def _on_keys(self, message: protocol.Keys) -> None:
        self._keys = message

    def _on_record(self, message: protocol.Record) -> None:
        self._recording = message.on and self._recorder is not None
        self._send_state()

    # --- moving ---

    def _on_step(self, _: protocol.StepOnce) -> None:
        if self._session is not None:
            if not self._end_reason():
                self._advance()
            self._set_playing(False)

    def _end_reason(self) -> str:
        """Why no step can follow; empty otherwise."""
        real = self._session.real if self._session is not None else None
        if real is None or not real.ended:
            return ""
        return f"The real episode is over ({real.ended}). Press R for the next one."

    def _advance(self) -> None:
        """One step from the current one; on a new branch unless it is the last of its branch."""
        session = self._session
        assert session is not None
        if session.real is not None:
            self._step = self._branch.last  # a real environment cannot be rewound
        elif self._step < self._branch.last:
            self._branch = self._branches.fork(self._branch, self._step, same_seed=True)
        settings, branch, step = self._settings, self._branch, self._step + 1
        current = branch.at(self._step)
        pressed = self._controls.action(self._keys.held, self._keys.values)
        actions = session.actions(
            current, settings.actor, pressed, step, branch.branch_seed, settings.futures
        )
        if actions is None:
            self._pause("The recording ends here. Choose another actor.")
            return
        next_step, prediction, episode = session.advance(
            current,
            actions,
            settings.actor,
            step=step,
            branch_seed=branch.branch_seed,
            temperature=settings.temperature,
            forced=self._forced,
        )
        branch.add(next_step)
        self._step = step
        if session.real is not None and session.real.ended:
            self._pause(self._end_of_episode(session.real, episode))
        self._show(next_step, prediction)

    def _end_of_episode(self, real: RealEnv, episode: Episode | None) -> str:
        recorder = self._recorder
        over = f"Episode over ({real.ended}): {real.steps} steps, return {real.total:g}."
        if recorder is None or not self._recording or episode is None:
            return f"{over} Press R for the next one."
        if real.schema is not recorder.target.dataset.schema:
            return f"{over} Its arrays differ from those of {recorder.name}, so it was not saved."
        recorder.save(episode)
        self._page.send_event("recorded", **recorder.describe())
        return f"{over} Saved to {recorder.name}. Press R for the next one."

    def _on_goto(self, message: protocol.Goto) -> None:
        if self._session is None:
            return
        branch = self._branches.branches.get(message.branch)
        if branch is None or message.step > branch.last:
            # Steps before the first one are clamped, as the first one advances during playback.
            raise UsageError(
                f"There is no step {message.step} on branch {message.branch}.",
                "Choose a step on the timeline.",
            )
        self._branch, self._step = branch, branch.clamp(message.step)
        self._set_playing(False)
        self._show_current()

    def _on_fork(self, _: protocol.Fork) -> None:
        session = self._session
        if session is None or session.stepper is None:
            return
        if session.real is not None:
            self._page.send_event(
                "note", text="A real environment cannot be forked, only imagination."
            )
            return
        self._branch = self._branches.fork(self._branch, self._step, same_seed=False)
        self._page.send_event(
            "note", text=f"Branch {self._branch.number} begins at step {self._step}."
        )
        self._show_current()

    def _on_force(self, message: protocol.Force) -> None:
        codes = {int(variable): code for variable, code in message.codes.items()}
        variables, classes = self._codes
        for variable, code in codes.items():
            if variable >= variables or code >= classes:
                raise UsageError(
                    f"There is no class {code} of variable {variable}.",
                    f"Choose variables below {variables} and classes below {classes}."
                    if variables
                    else "Start in a model with discrete latents first.",
                )
        self._forced = codes
        if self._session is not None and math.isinf(self._due):
            self._show_current()

    def _on_sync(self, _: protocol.Sync) -> None:
        session = self._session
        if session is None or session.real is None or session.stepper is None:
            self._page.send_event("note", text="A reality check needs the real environment.")
            return
        self._step = self._branch.last
        current, prediction = session.synchronize(self._branch.at(self._step))
        self._branch.steps[-1] = current
        self._sent = (0, 0, 0)
        self._show(current, prediction)
        self._page.send_event("note", text=f"Reality check: the model observed step {self._step}.")

    # --- frames ---

    def _show_current(self) -> None:
        """Send the current step, with the forced codes applied."""
        session, current = self._session, self._branch.at(self._step)
        assert session is not None
        prediction = None
        if session.stepper is not None and current.state is not None:
            prediction = session.stepper.predict(session.forced(current, self._forced))
        self._show(current, prediction)

    def _show(self, current: Step, prediction: Prediction | None) -> None:
        session = self._session
        assert session is not None
        unforced, header = None, self._header()
        if prediction is not None and session.stepper is not None:
            state = session.forced(current, self._forced)
            if self._forced:
                unforced = session.stepper.decode(session.forced(current, {}))
            codes, header["codes"] = code_tile(prediction, state, session.stepper.latent)
        tiles, header["numbers"] = self._painter.paint(prediction, current.truth, unforced)
        if prediction is not None and codes is not None:
            tiles.append(codes)
        first, rows = self._rows()
        self._page.send_frame(
            protocol.Frame(self._starts, self._branch.number, first, rows, header, tiles)
        )

    def _rows(self) -> tuple[int, list[list[Any]]]:
        """The rows of the branch that the page does not have."""
        branch, (start, number, last) = self._branch, self._sent
        is_same = (start, number) == (self._starts, branch.number)
        first = max(branch.first, last + 1) if is_same else branch.first
        rows = [self._row(branch.at(step)) for step in range(first, branch.last + 1)]
        self._sent = (self._starts, branch.number, branch.last)
        return first, rows

    def _row(self, current: Step) -> list[Any]:
        return current.row(
            "" if current.action is None else self._action_look.text(current.action[0])
        )

    def _header(self) -> dict[str, Any]:
        # Not the playing state: a frame may be sent after a later event.
        real = self._session.real if self._session is not None else None
        return {
            "step": self._step,
            "branches": self._branches.describe(),
            "rate": self._rate(),
            "forced": {str(v): k for v, k in self._forced.items()},
            "ended": real.ended if real is not None else "",
        }

    def _rate(self) -> float:
        """Recent steps per second."""
        if len(self._times) < 2:
            return 0.0
        return (len(self._times) - 1) / max(self._times[-1] - self._times[0], 1e-6)

    def _send_state(self) -> None:
        # The position, so that the page shows "paused" only after the last frame.
        here = {"branch": self._branch.number, "step": self._step}
        settings = self._settings.model_dump(exclude={"kind"})
        self._page.send_event("state", **settings, **here, recording=self._recording)

    def _send_started(self, message: protocol.Start) -> None:
        session = self._session
        assert session is not None
        self._page.send_event(
            "started",
            start=self._starts,
            request=message.model_dump(),
            controls=self._controls.describe(),
            image=self._painter.image,
            dream=session.stepper is not None,
            real=session.real is not None,
            recording=session.recording is not None,
            policy=session.stepper is not None and session.stepper.has_actor,
            latent=session.stepper.latent if session.stepper is not None else "",
            saves=self._recorder is not None
            and session.real is not None
            and session.real.schema is self._recorder.target.dataset.schema,
        )


def _changed(settings: protocol.Settings, **changes: Any) -> protocol.Settings:
    return settings.model_copy(update=changes)
