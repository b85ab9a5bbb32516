"""The error of scores that cannot be used."""

from __future__ import annotations

from wmtk.errors import WmtkError


class ScoreError(WmtkError):
    """A score, a game's name or a file of scores that makes no sense."""
