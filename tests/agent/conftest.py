"""Fixtures of `tests/training_fixtures.py`."""

from ..training_fixtures import (  # noqa: TID252 — tests are no installed package
    IMAGE,
    SETTINGS,
    VECTOR,
    catch,
    config,
    dataset,
    make_dataset,
    small,
)

__all__ = ["IMAGE", "SETTINGS", "VECTOR", "catch", "config", "dataset", "make_dataset", "small"]
