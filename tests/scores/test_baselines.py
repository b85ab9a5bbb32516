"""What is said of a mean return beside random play, the data, and a reward threshold."""

from __future__ import annotations

import pytest

from wmtk.scores import Baselines, MeanReturn, compare_return

RANDOM = MeanReturn(22.0, 18.0, 26.0, 10)
DATA = MeanReturn(22.0, 20.0, 24.0, 200)


@pytest.mark.parametrize(
    ("result", "baselines", "sentence"),
    [
        (
            MeanReturn(305.0, 270.0, 340.0, 10),
            Baselines(RANDOM, DATA, 475.0),
            "Mean return 305 (95% interval 270 to 340, 10 episodes): random 22, the data 22, "
            "solved at 475: better than random play, better than the data, not solved.",
        ),
        (
            MeanReturn(490.0, 480.0, 500.0, 10),
            Baselines(RANDOM, MeanReturn(495.0, 490.0, 500.0, 9), 475.0),
            "Mean return 490 (95% interval 480 to 500, 10 episodes): random 22, the data 495, "
            "solved at 475: better than random play, no better than the data, solved.",
        ),
        (  # the intervals overlap, though the mean is higher
            MeanReturn(30.0, 25.0, 35.0, 20),
            Baselines(RANDOM),
            "Mean return 30 (95% interval 25 to 35, 20 episodes): random 22: "
            "no better than random play.",
        ),
        (
            MeanReturn(9.5, 9.0, 10.0, 20),
            Baselines(MeanReturn(22.0)),
            "Mean return 9.5 (95% interval 9 to 10, 20 episodes): random 22: "
            "worse than random play.",
        ),
        (
            MeanReturn(12345.6, None, None, 1),
            Baselines(RANDOM),
            "Mean return 12,346 (1 episode): random 22: one episode is too few to judge.",
        ),
        (
            MeanReturn(-200.0, -200.0, -200.0, 10),
            Baselines(MeanReturn(-200.0, -200.0, -200.0, 10), None, -110.0),
            "Mean return -200 (95% interval -200 to -200, 10 episodes): random -200, "
            "solved at -110: no better than random play, not solved.",
        ),
        (
            MeanReturn(1.0, 0.5, 1.5, 5),
            Baselines(),
            "Mean return 1 (95% interval 0.5 to 1.5, 5 episodes): no baseline is known.",
        ),
    ],
)
def test_the_sentence(result, baselines, sentence) -> None:
    comparison = compare_return(result, baselines)
    assert comparison.sentence() == sentence
    assert comparison.to_json()["sentence"] == sentence
    assert comparison.to_json()["result"]["mean"] == result.mean
