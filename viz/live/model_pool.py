"""Open models, shared by the pages that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmtk.viz.live.catalog import Catalog

if TYPE_CHECKING:
    from wmtk.agent.stepper import ModelStepper


class ModelPool:
    """Opens each model once and frees it when its last user gives it back."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._open: dict[str, ModelStepper] = {}
        self._users: dict[str, int] = {}

    def borrow(self, run: str) -> ModelStepper:
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
