"""Actions on their way from the data to the model, and from the actor to the environment."""

import numpy as np
import pytest
import torch

from wmtk.agent.actor_networks import action_distribution
from wmtk.agent.batch_tensors import ActionCodec
from wmtk.spaces import ArraySpec

SPACES = {
    "discrete": (ArraySpec("discrete", (), "int64", 0, 4), [0, 3, 4]),
    "from two": (ArraySpec("discrete", (), "int64", 2, 4), [2, 4, 3]),
    "multi": (
        ArraySpec("multi_discrete", (2,), "int64", (0, 5), (2, 6)),
        [[0, 5], [2, 6], [1, 5]],
    ),
    "switches": (ArraySpec("multi_binary", (3,), "int8", 0, 1), [[0, 1, 1], [0, 0, 0], [1, 0, 1]]),
    "numbers": (ArraySpec("box", (2,), "float32", -1.0, 1.0), [[0.5, -1], [1, 0.25], [0, 0]]),
    "bounds": (
        ArraySpec("box", (2,), "float64", (-2.0, 0.0), (2.0, 10.0)),
        [[-2, 10], [0, 5], [1, 2.5]],
    ),
    "unbounded": (ArraySpec("box", (1,), "float32"), [[0.5], [-0.7], [0.0]]),
}


@pytest.mark.parametrize("name", SPACES)
def test_what_an_actor_chooses_reaches_the_environment(name) -> None:
    spec, values = SPACES[name]
    codec, actions = ActionCodec(spec), action_distribution(spec)
    wanted = np.array(values, spec.dtype)
    encoded = codec.encode(wanted[None])[0]  # (3, A)
    assert encoded.shape == (3, codec.size)
    assert codec.size == actions.size
    back = codec.decode(encoded)
    assert back.dtype == spec.dtype
    np.testing.assert_allclose(back, wanted, atol=1e-6)
    torch.manual_seed(0)
    drawn = actions.sample(torch.randn(50, actions.params_size) * 3)
    space = spec.to_gymnasium()
    for action in codec.decode(drawn):
        assert space.contains(action if spec.shape else action[()])


def test_numbers_are_scaled_to_their_bounds() -> None:
    spec, _ = SPACES["bounds"]
    codec = ActionCodec(spec)
    encoded = codec.encode(np.array([[[-2.0, 10.0], [0.0, 5.0], [2.0, 0.0]]]))
    assert encoded.tolist() == [[[-1.0, 1.0], [0.0, 0.0], [1.0, -1.0]]]
    beyond = codec.decode(torch.tensor([[1.0 + 1e-7, -1.0 - 1e-7]]))
    assert beyond.tolist() == [[2.0, 0.0]]
