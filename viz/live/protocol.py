"""The messages between page and server over the websocket.

The page sends small JSON objects that describe a desired state, not a change: of two messages of
one kind only the newer one counts, so that none is queued. The server sends JSON events and binary
frames: the length of a JSON header (4 bytes, little-endian), the header, and the bytes of all tiles
in the order of the header.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from wmtk.errors import UsageError

MAX_MESSAGE = 16 * 1024  # bytes
MOST_FUTURES = 8
MOST_FORCED = 64
MOST_REFUSED = 20  # invalid messages before the connection is closed
MOST_TEXT = 200  # characters of a message that an error repeats

Id = Annotated[str, Field(pattern=r"^[a-z][0-9]{1,4}$")]
Index = Annotated[int, Field(ge=0, le=2**31 - 1)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Actor = Literal["person", "policy", "recorded"]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Start(_Message):
    """Start from a recorded row, from an imagined first state, or in the real environment."""

    kind: Literal["start"]
    source: Literal["data", "seed", "real"]
    run: Id | None = None  # None: the real environment without a model
    data: Id | None = None
    episode: Index = 0
    step: Index = 0
    seed: Seed = 0


class Settings(_Message):
    """Playback settings."""

    kind: Literal["settings"]
    playing: bool
    actor: Actor
    speed: float = Field(ge=0.5, le=60)  # steps per second
    temperature: float = Field(ge=0, le=5)
    futures: int = Field(ge=1, le=MOST_FUTURES)


class Keys(_Message):
    """Held keys by name, and lever positions from −1 to 1."""

    kind: Literal["keys"]
    held: list[Annotated[str, Field(max_length=32)]] = Field(default=[], max_length=16)
    values: list[Annotated[float, Field(ge=-1, le=1)]] = Field(default=[], max_length=256)


class StepOnce(_Message):
    """Make one step while paused."""

    kind: Literal["step"]


class Goto(_Message):
    """Show another step; continuing from there starts a new branch."""

    kind: Literal["goto"]
    branch: Index
    step: Index


class Fork(_Message):
    """Start a new branch at the displayed step, with other random numbers."""

    kind: Literal["fork"]


class Force(_Message):
    """Forced classes by variable."""

    kind: Literal["force"]
    codes: dict[Annotated[str, Field(pattern=r"^[0-9]{1,4}$")], Index] = Field(
        default={}, max_length=MOST_FORCED
    )


class Sync(_Message):
    """Reality check: update the model state with the real observation."""

    kind: Literal["sync"]


class Record(_Message):
    """Whether real episodes are saved when they end."""

    kind: Literal["record"]
    on: bool


class Measure(_Message):
    """Compute the metrics of runs on a dataset; without runs, stop."""

    kind: Literal["measure"]
    runs: list[Id] = Field(max_length=4)
    data: Id | None = None
    windows: int = Field(default=24, ge=2, le=200)
    horizon: int = Field(default=30, ge=1, le=200)


class FrameDrawn(_Message):
    """The page has drawn a frame."""

    kind: Literal["drawn"]
    frame: Index


Incoming = (
    Start | Settings | Keys | StepOnce | Goto | Fork | Force | Sync | Record | Measure | FrameDrawn
)
_INCOMING: TypeAdapter[Incoming] = TypeAdapter(Annotated[Incoming, Field(discriminator="kind")])


def parse(text: str | bytes) -> Incoming:
    """Parse a message of the page; raises UsageError for an invalid one."""
    if len(text) > MAX_MESSAGE:
        raise UsageError(f"A message of {len(text):,} characters is too long.")
    try:
        return _INCOMING.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        text = f"{where}: {first['msg']}"[:MOST_TEXT]
        raise UsageError(f"Invalid message: {text}.") from error


@dataclass(frozen=True)
class Frame:
    """What the page draws for a step. `rows` are the numbers of steps up to it, for plots."""

    start: int  # number of sessions started so far
    branch: int
    first: int  # index of the first row
    rows: list[list[Any]]
    header: dict[str, Any]
    tiles: list[tuple[dict[str, Any], NDArray[np.uint8]]] = field(default_factory=list)

    def after(self, older: Frame | None) -> Frame:
        """This frame with the rows of an older frame that it replaces."""
        if older is None or (older.start, older.branch) != (self.start, self.branch):
            return self
        missing = self.first - older.first
        if not 0 < missing <= len(older.rows):
            return self
        rows = older.rows[:missing] + self.rows
        return Frame(self.start, self.branch, older.first, rows, self.header, self.tiles)

    def pack(self, number: int) -> bytes:
        header = {
            "type": "frame",
            "frame": number,
            "start": self.start,
            "branch": self.branch,
            "first": self.first,
            "rows": self.rows,
            **self.header,
            "tiles": [{**about, "shape": pixels.shape} for about, pixels in self.tiles],
        }
        text = dump(header).encode()
        parts = [struct.pack("<I", len(text)), text]
        return b"".join([*parts, *(np.ascontiguousarray(x).tobytes() for _, x in self.tiles)])


def dump(value: Any) -> str:
    """Compact JSON; numbers that are not finite become null."""
    return json.dumps(_plain(value), allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return round(value, 5) if math.isfinite(value) else None
    return value
