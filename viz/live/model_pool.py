"""Models that are open, as long as somebody plays in them."""

from __future__ import annotations

from wmtk.viz.live.catalog import Catalog, Dreamer


class ModelPool:
    """Lends models out; the last one to give a model back frees it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._open: dict[str, Dreamer] = {}
        self._users: dict[str, int] = {}

    def borrow(self, run: str) -> Dreamer:
        if run not in self._open:
            self._open[run] = self._catalog.run(run).open()
        self._users[run] = self._users.get(run, 0) + 1
        return self._open[run]

    def give_back(self, run: str) -> None:
        self._users[run] -= 1
        if not self._users[run]:
            del self._open[run], self._users[run]

    def __len__(self) -> int:
        return len(self._open)
