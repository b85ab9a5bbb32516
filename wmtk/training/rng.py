"""Random numbers that belong to one of several who draw in turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor

from wmtk.runs.state_dict import fork_rng, load_rng_state, rng_state


class RngState:
    """Goes on where it stopped, whatever others have drawn in between."""

    def __init__(self) -> None:
        """Begins where torch's generators are now."""
        self._state = rng_state()

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Within, torch's generators are this stream."""
        load_rng_state(self._state)
        yield
        self._state = rng_state()

    def tensors(self, name: str) -> dict[str, Tensor]:
        return {f"stream/{name}/{key}": state for key, state in self._state.items()}

    def restore(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        start = f"stream/{name}/"
        saved = {key.removeprefix(start): x for key, x in tensors.items() if key.startswith(start)}
        with fork_rng():
            load_rng_state(saved)  # raises if they are no states
        self._state |= saved
