"""A policy's dreams as rollouts: what is known of them, what is not, and what they bring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wmtk.agent.outputs import PolicyRollout
from wmtk.datasets import Batch
from wmtk.viz import metrics
from wmtk.viz.draw.actions import ActionLook
from wmtk.viz.draw.canvas import RED
from wmtk.viz.draw.rollout_panels import OBSERVED, chart_traces, image_rows, number_traces
from wmtk.viz.rollouts import policy_rollouts
from wmtk.viz.sheets.rollout_sheet import rollout_sheet
from wmtk.viz.videos.rollout_video import rollout_frames

from .dots import PLACES, SCHEMA, DotModel, draw, find, move, record

GAMMA = 0.9


@dataclass
class Walker(DotModel):
    """Always goes right; its critic says how far it has come."""

    def value_of(self, deter: NDArray[Any], stoch: NDArray[Any]) -> NDArray[np.float32]:
        return stoch.argmax(-1).astype(np.float32)

    def rollout_policy(
        self,
        batch: Batch,
        *,
        context: int,
        horizon: int,
        samples: int = 1,
        sample: bool = False,
        seed: int = 0,
    ) -> PolicyRollout:
        place = find(batch.obs["image"][:, context - 1])
        places = []
        for _ in range(horizon):
            place = move(place, np.full_like(place, 2))
            places.append(place)
        found = np.stack(places, 1)[:, None].repeat(samples, 1)
        return PolicyRollout(
            obs={"image": self._show(found)},
            action=np.full(found.shape, 2),
            reward=self._reward(found),
            discount=np.full(found.shape, GAMMA, np.float32),
            value=found.astype(np.float32),
        )


def test_what_is_known_of_a_dream() -> None:
    batch = record(windows=3, rows=4)
    look = ActionLook(SCHEMA.action, ("left", "stay", "right"))
    found = policy_rollouts(Walker(), batch, horizon=6, samples=2, actions=look)
    assert len(found) == 3
    rollout = found[1].rollout
    assert (rollout.rows, rollout.context, rollout.samples) == (10, 4, 2)
    assert rollout.title == "episode 1, from step 3"
    np.testing.assert_array_equal(rollout.truth["image"], batch.obs["image"][1])
    np.testing.assert_array_equal(rollout.predicted["image"][0, :4], batch.obs["image"][1])
    last = find(batch.obs["image"][1, -1])
    walk = np.minimum(last + np.arange(1, 7), PLACES - 1)
    np.testing.assert_array_equal(rollout.predicted["image"][1, 4:], draw(walk))
    np.testing.assert_array_equal(rollout.reward[:4], batch.reward[1])
    assert np.isnan(rollout.reward[4:]).all()
    assert np.isnan(rollout.end[4:]).all()
    assert rollout.value is not None
    np.testing.assert_array_equal(rollout.value[0, :4], find(batch.obs["image"][1]))
    np.testing.assert_array_equal(rollout.value[0, 4:], walk)
    assert rollout.actions == ("", "", "", "", *["right"] * 6)


def test_what_a_dream_brings() -> None:
    batch = record(windows=1, rows=3)
    place = int(find(batch.obs["image"][0, -1]))
    (found,) = policy_rollouts(Walker(), batch, horizon=3)
    walk = [min(place + step, PLACES - 1) for step in (1, 2, 3)]
    rewards = [float(at == PLACES - 1) for at in walk]
    by_hand = rewards[0] + GAMMA * rewards[1] + GAMMA**2 * walk[2]
    assert found.imagined_return == pytest.approx([by_hand])
    assert found.value == pytest.approx([walk[0]])


def test_the_last_value_stands_for_what_follows() -> None:
    found = metrics.expected_return([[1.0, 2.0, 4.0]], [[0.5, 0.25, 0.9]], [[7.0, 7.0, 16.0]])
    assert found == pytest.approx([1 + 2 * 0.5 + 16 * 0.5 * 0.25])
    reward = np.array([1.0, 2.0])
    metrics.expected_return(reward, [0.5, 0.5], [3.0, 4.0])
    assert reward.tolist() == [1, 2]  # it is not changed


def test_rows_and_charts_of_a_dream() -> None:
    (found,) = policy_rollouts(Walker(), record(windows=1, rows=4), horizon=6, samples=2)
    rows = dict(image_rows(found.rollout, "image"))
    assert {name: len(frames) for name, frames in rows.items()} == {
        "recorded": 4,
        "dream, 1": 10,
        "dream, 2": 10,
    }
    charts = chart_traces(found.rollout)
    assert [chart[0].name for chart in charts] == ["reward", "end", "value"]


def test_pictures_of_a_dream() -> None:
    (found,) = policy_rollouts(Walker(), record(windows=1, rows=4), horizon=6)
    sheet = rollout_sheet([found.rollout], "image", columns=8)
    greens, reds = ((sheet == color).all(-1).any(1) for color in (OBSERVED, RED))
    # The recorded row ends with what was seen, so that its lines have no red.
    top = int(np.flatnonzero(greens)[0])
    assert not reds[top]
    assert reds.any()
    frames = list(rollout_frames([found.rollout], "image"))
    assert len(frames) == 10
    assert (frames[0] == RED).all(-1).sum() < (frames[-1] == RED).all(-1).sum()


def test_a_dream_of_numbers_is_lines() -> None:
    (found,) = policy_rollouts(Walker(), record(windows=1, rows=4), horizon=6)
    rollout = found.rollout
    place = find(rollout.truth["image"]).astype(np.float32)[:, None]
    shown = find(rollout.predicted["image"]).astype(np.float32)[..., None]
    numbers = replace(rollout, truth={"place": place}, predicted={"place": shown})
    ((true, model),) = number_traces(numbers)
    assert true.values[:4].tolist() == place[:, 0].tolist()
    assert np.isnan(true.values[4:]).all()
    assert model.values.tolist() == shown[0, :, 0].tolist()
    assert rollout_sheet([numbers], None).shape[0] > 200
    assert len(list(rollout_frames([numbers], None))) == 10
