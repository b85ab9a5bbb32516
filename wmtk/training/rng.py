"""Independent random states for trainers that alternate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor

from wmtk.runs.state_dict import fork_rng, load_rng_state, rng_state


class RngState:
    """A separate state of torch's generators, initially a copy of their current state."""

    def __init__(self) -> None:
        self._state = rng_state()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Set torch's generators to this state, and store their state at the end of the block."""
        load_rng_state(self._state)
        yield
        self._state = rng_state()

    def state_dict(self, name: str) -> dict[str, Tensor]:
        """The states of all generators, by names that contain `name`."""
        return {f"stream/{name}/{key}": state for key, state in self._state.items()}

    def load_state_dict(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Load the states that `state_dict` returned for `name`."""
        start = f"stream/{name}/"
        saved = {key.removeprefix(start): x for key, x in tensors.items() if key.startswith(start)}
        with fork_rng():
            load_rng_state(saved)  # raises if they are invalid
        self._state |= saved
