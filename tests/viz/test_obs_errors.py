"""Errors of observations whose numbers never vary."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np

from wmtk.viz.evaluation.obs_errors import Scale, obs_errors


def test_a_key_that_never_varies_has_no_errors_and_no_warnings() -> None:
    rows = np.zeros((6, 2), np.float32)
    scale = Scale.of(False, [rows])
    futures = np.ones((3, 4, 2), np.float32)
    errors = obs_errors(scale, rows[:4], futures, rows[:4], rows[0], scale.baseline)
    assert errors.error.shape == (3, 4)
    assert errors.moved_error.shape == (4,)
    assert all(np.isnan(values).all() for values in astuple(errors))
