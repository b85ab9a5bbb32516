"""One page's play: what is started, who acts, where on which line it is."""

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
from wmtk.viz.live.catalog import Catalog
from wmtk.viz.live.controls import Controls
from wmtk.viz.live.frame_painter import Painter, code_tile
from wmtk.viz.live.model_pool import ModelPool
from wmtk.viz.live.real_env import RealWorld
from wmtk.viz.live.recorder import Recorder
from wmtk.viz.live.session import Session
from wmtk.viz.live.session_factory import make_world

PATIENCE = 5.0  # seconds that a page may leave frames undrawn before it is waited for
LOOK_AGAIN = 0.1  # seconds until a page that is waited for is looked at again
RATE = 30  # steps over which the speed is measured

_FIRST = protocol.Settings(
    kind="settings", playing=False, actor="person", speed=15, temperature=1, futures=1
)


class Page(Protocol):
    """The other end: where frames and events go. Neither call waits."""

    def draw(self, frame: protocol.Frame) -> None: ...

    def tell(self, kind: str, **about: Any) -> None: ...

    def unseen_for(self) -> float:
        """For how many seconds the page has been owing a sign of having drawn."""


class Play:
    """Reacts to messages and, while playing, to the clock. All of it in the inference thread."""

    def __init__(
        self, catalog: Catalog, shelf: ModelPool, recorder: Recorder | None, page: Page
    ) -> None:
        self._catalog, self._shelf, self._recorder, self._page = catalog, shelf, recorder, page
        self._settings = _FIRST
        self._keys = protocol.Keys(kind="keys")
        self._forced: dict[int, int] = {}
        self._codes: tuple[int, ...] = (0, 0)  # variables and classes that can be forced
        self._recording = recorder is not None
        self._world: Session | None = None
        self._run: str | None = None
        self._request: protocol.Start | None = None
        self._env: Mapping[str, Any] = {}
        self._starts = 0
        self._lines = BranchTree()
        self._line, self._step = Branch(0, 0), 0
        self._sent = (0, 0, 0)  # start, line and step up to which the page has rows
        self._due = math.inf
        self._times: deque[float] = deque(maxlen=RATE)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            protocol.Start: self._on_start,
            protocol.Settings: self._on_settings,
            protocol.Keys: self._on_keys,
            protocol.Step: self._on_step,
            protocol.Goto: self._on_goto,
            protocol.Fork: self._on_fork,
            protocol.Force: self._on_force,
            protocol.Sync: self._on_sync,
            protocol.Record: self._on_record,
        }

    # --- what the engine calls ---

    @property
    def due(self) -> float:
        """When the next step is to be made; never, while paused."""
        return self._due

    def handle(self, message: protocol.Incoming) -> None:
        self._handlers[type(message)](message)

    def tick(self) -> None:
        """One step, and the time of the next."""
        now = time.monotonic()
        if self._page.unseen_for() > PATIENCE:
            # No pause: what a person wanted is theirs to change, and P would mean the opposite.
            self._due = now + LOOK_AGAIN
            return
        # A clock that has fallen behind starts anew: lost steps are not made up for.
        self._due = max(self._due + 1 / self._settings.speed, now)
        self._times.append(now)
        self._advance()

    def fail(self, error: BaseException) -> None:
        """Something went wrong: stop, and say so."""
        self._set_playing(False)
        if isinstance(error, WmtkError):
            self._page.tell("error", message=error.message, hint=error.hint)
        else:
            text = f"{type(error).__name__}: {error}"
            self._page.tell("error", message=text, hint="This was not foreseen; please report it.")

    def close(self) -> None:
        """Free everything."""
        self._due = math.inf
        if self._world is not None:
            self._world.close()
            self._world = None
        if self._run is not None:
            self._shelf.give_back(self._run)
            self._run = None
        self._lines = BranchTree()
        self._line = Branch(0, 0)

    # --- starting ---

    def _on_start(self, message: protocol.Start) -> None:
        world = self._world
        if world is None or not self._goes_on(world, message):
            # The model before is given back only afterwards: it may be the same.
            made = make_world(self._catalog, self._shelf, message)
            self.close()
            world, self._run, self._env = made.world, made.run, made.env
        self._world, self._request = world, message
        self._starts += 1
        self._forced = {}
        self._times.clear()
        self._settings = _changed(self._settings, playing=False, actor=self._allowed())
        self._controls = Controls(world.schema.action, self._env)
        names = tuple(button.label for button in self._controls.buttons)
        self._action_look = ActionLook(world.schema.action, names)
        self._painter = Painter(world.schema)
        moment, look = world.begin(self._settings.futures, self._settings.temperature)
        self._line, self._step = self._lines.begin(moment), 0
        discrete = world.dreamer is not None and world.dreamer.latent != "gaussian"
        self._codes = look.prior.shape[1:] if look is not None and discrete else (0, 0)
        self._tell_started(message)
        self._tell_state()
        self._show(moment, look)

    def _goes_on(self, world: Session, message: protocol.Start) -> bool:
        """Whether the next episode of the same environment is meant, and not the same one again."""
        if world.real is None or message != self._request:
            return False
        return bool(world.real.ended) or message.run is None

    def _allowed(self) -> protocol.Actor:
        """The actor that was chosen, or a person where that one is not there."""
        world, actor = self._world, self._settings.actor
        assert world is not None
        if actor == "policy" and (world.dreamer is None or not world.dreamer.has_actor):
            return "person"
        return "person" if actor == "recorded" and world.recording is None else actor

    # --- settings ---

    def _on_settings(self, message: protocol.Settings) -> None:
        self._settings = message
        if self._world is None:
            self._settings = _changed(message, playing=False)
            return
        self._settings = _changed(message, actor=self._allowed())
        self._set_playing(message.playing)

    def _set_playing(self, playing: bool) -> None:
        if playing and self._over():
            self._page.tell("note", text=self._over())
            playing = False
        if playing and math.isinf(self._due):
            self._due = time.monotonic()
            self._times.clear()
        if not playing:
            self._due = math.inf
        self._settings = _changed(self._settings, playing=playing)
        self._tell_state()

    def _pause(self, text: str) -> None:
        self._set_playing(False)
        self._page.tell("note", text=text)

    def _on_keys(self, message: protocol.Keys) -> None:
        self._keys = message

    def _on_record(self, message: protocol.Record) -> None:
        self._recording = message.on and self._recorder is not None
        self._tell_state()

    # --- moving ---

    def _on_step(self, _: protocol.Step) -> None:
        if self._world is not None:
            if not self._over():
                self._advance()
            self._set_playing(False)

    def _over(self) -> str:
        """Why nothing can follow; empty if something can."""
        real = self._world.real if self._world is not None else None
        if real is None or not real.ended:
            return ""
        return f"The real episode is over ({real.ended}). Press R for the next one."

    def _advance(self) -> None:
        """One step from where we are; on a new line, if that is not the end of one."""
        world = self._world
        assert world is not None
        if world.real is not None:
            self._step = self._line.last  # what is real cannot be taken back
        elif self._step < self._line.last:
            self._line = self._lines.fork(self._line, self._step, same_dice=True)
        settings, line, step = self._settings, self._line, self._step + 1
        moment = line.at(self._step)
        held = self._controls.action(self._keys.held, self._keys.values)
        actions = world.actions(moment, settings.actor, held, step, line.dice, settings.futures)
        if actions is None:
            self._pause("The recording ends here. Choose who acts on.")
            return
        made, look, episode = world.follow(
            moment,
            actions,
            settings.actor,
            step=step,
            dice=line.dice,
            temperature=settings.temperature,
            forced=self._forced,
        )
        line.add(made)
        self._step = step
        if world.real is not None and world.real.ended:
            self._pause(self._end_of_episode(world.real, episode))
        self._show(made, look)

    def _end_of_episode(self, real: RealWorld, episode: Episode | None) -> str:
        recorder = self._recorder
        over = f"Episode over ({real.ended}): {real.steps} steps, return {real.total:g}."
        if recorder is None or not self._recording or episode is None:
            return f"{over} Press R for the next one."
        if real.schema is not recorder.target.dataset.schema:
            return f"{over} It does not fit {recorder.name} and was not saved."
        recorder.save(episode)
        self._page.tell("recorded", **recorder.describe())
        return f"{over} Saved to {recorder.name}. Press R for the next one."

    def _on_goto(self, message: protocol.Goto) -> None:
        if self._world is None:
            return
        line = self._lines.lines.get(message.line)
        if line is None or message.step > line.last:
            # Steps before the first one that is kept are clamped: it moves on while others play.
            raise UsageError(
                f"There is no step {message.step} on line {message.line}.",
                "Choose a moment from the timeline.",
            )
        self._line, self._step = line, line.clamp(message.step)
        self._set_playing(False)
        self._show_here()

    def _on_fork(self, _: protocol.Fork) -> None:
        world = self._world
        if world is None or world.dreamer is None:
            return
        if world.real is not None:
            self._page.tell("note", text="The real environment cannot be forked: dreams can.")
            return
        self._line = self._lines.fork(self._line, self._step, same_dice=False)
        self._page.tell("note", text=f"Branch {self._line.number} begins at step {self._step}.")
        self._show_here()

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
        if self._world is not None and math.isinf(self._due):
            self._show_here()

    def _on_sync(self, _: protocol.Sync) -> None:
        world = self._world
        if world is None or world.real is None or world.dreamer is None:
            self._page.tell("note", text="A reality check needs the real environment.")
            return
        self._step = self._line.last
        moment, look = world.synchronize(self._line.at(self._step))
        self._line.moments[-1] = moment
        self._sent = (0, 0, 0)
        self._show(moment, look)
        self._page.tell("note", text=f"Reality check at step {self._step}: the model has looked.")

    # --- showing ---

    def _show_here(self) -> None:
        """The moment that we are at, as it is with what is forced now."""
        world, moment = self._world, self._line.at(self._step)
        assert world is not None
        look = None
        if world.dreamer is not None and moment.mind is not None:
            look = world.dreamer.predict(world.forced(moment, self._forced))
        self._show(moment, look)

    def _show(self, moment: Step, look: Prediction | None) -> None:
        world = self._world
        assert world is not None
        free, header = None, self._header()
        if look is not None and world.dreamer is not None:
            mind = world.forced(moment, self._forced)
            if self._forced:
                free = world.dreamer.decode(world.forced(moment, {}))
            codes, header["codes"] = code_tile(look, mind, world.dreamer.latent)
        tiles, header["numbers"] = self._painter.paint(look, moment.truth, free)
        if look is not None and codes is not None:
            tiles.append(codes)
        first, rows = self._rows()
        self._page.draw(protocol.Frame(self._starts, self._line.number, first, rows, header, tiles))

    def _rows(self) -> tuple[int, list[list[Any]]]:
        """The rows of the line that the page does not have yet."""
        line, (start, number, upto) = self._line, self._sent
        known = (start, number) == (self._starts, line.number)
        first = max(line.first, upto + 1) if known else line.first
        rows = [self._row(line.at(step)) for step in range(first, line.last + 1)]
        self._sent = (self._starts, line.number, line.last)
        return first, rows

    def _row(self, moment: Step) -> list[Any]:
        return moment.row("" if moment.action is None else self._action_look.text(moment.action[0]))

    def _header(self) -> dict[str, Any]:
        # Not whether it plays: a frame may be sent later than what was said after it.
        real = self._world.real if self._world is not None else None
        return {
            "step": self._step,
            "lines": self._lines.describe(),
            "rate": self._rate(),
            "forced": {str(v): k for v, k in self._forced.items()},
            "ended": real.ended if real is not None else "",
        }

    def _rate(self) -> float:
        """Steps a second, lately."""
        if len(self._times) < 2:
            return 0.0
        return (len(self._times) - 1) / max(self._times[-1] - self._times[0], 1e-6)

    def _tell_state(self) -> None:
        # Where it is: frames up to there may come later, and a pause is not over before.
        here = {"line": self._line.number, "step": self._step}
        settings = self._settings.model_dump(exclude={"kind"})
        self._page.tell("state", **settings, **here, recording=self._recording)

    def _tell_started(self, message: protocol.Start) -> None:
        world = self._world
        assert world is not None
        self._page.tell(
            "started",
            start=self._starts,
            request=message.model_dump(),
            controls=self._controls.describe(),
            image=self._painter.image,
            dream=world.dreamer is not None,
            real=world.real is not None,
            recording=world.recording is not None,
            policy=world.dreamer is not None and world.dreamer.has_actor,
            latent=world.dreamer.latent if world.dreamer is not None else "",
            saves=self._recorder is not None
            and world.real is not None
            and world.real.schema is self._recorder.target.dataset.schema,
        )


def _changed(settings: protocol.Settings, **changes: Any) -> protocol.Settings:
    return settings.model_copy(update=changes)
