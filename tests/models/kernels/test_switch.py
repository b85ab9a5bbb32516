"""One switch selects between the plain definitions and the kernels."""

import pytest
import torch

from wmtk.models import kernels as switch
from wmtk.models.kernels.elu import elu
from wmtk.models.world_model import Inputs, WorldModel, WorldModelConfig
from wmtk.spaces import ArraySpec


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ("auto", {(True, True)}),
        ("plain", set()),
        ("fast", {(True, True), (True, False)}),
    ],
)
def test_when_a_kernel_runs(kernels, expected) -> None:
    cases = [(applies, pays) for applies in (True, False) for pays in (True, False)]
    with switch.using(kernels):
        assert {case for case in cases if switch.enabled(*case)} == expected


def test_a_block_restores_the_selection_also_after_an_error() -> None:
    assert switch.selected() == "fast"  # conftest.py
    with pytest.raises(KeyError), switch.using("plain"):
        raise KeyError
    assert switch.selected() == "fast"


def test_a_wrong_name_is_refused() -> None:
    with pytest.raises(AssertionError, match="quick"):
        switch.select("quick")


def test_plain_elu_leaves_its_input_alone() -> None:
    x = torch.tensor([-1.0, 2.0])
    with switch.using("plain"):
        y = elu(x)
    assert x.tolist() == [-1.0, 2.0]
    torch.testing.assert_close(y, torch.nn.functional.elu(x))


def test_the_plain_definitions_run_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function of autograd that is written by hand belongs to a kernel."""
    spec = {"image": ArraySpec("box", (64, 64, 1), "uint8", 0, 255)}
    sizes = {"rssm.deter": 8, "rssm.hidden": 8, "rssm.stoch": 2, "rssm.classes": 4, "cnn_depth": 2}
    model = WorldModel(WorldModelConfig().override(sizes | {"units": 8}), spec, 2)
    nodes = {kernels: graph_of(model, kernels) for kernels in ("plain", "fast")}
    assert not {name for name in nodes["plain"] if name.startswith("_")}
    assert {"_SumChunksBackward", "_ObserveScanBackward"} <= nodes["fast"]


def graph_of(model: WorldModel, kernels: switch.Kernels) -> set[str]:
    """The names of all nodes of the graph of a loss."""
    B, T = 2, 3
    first = torch.zeros(B, T, dtype=torch.bool)
    images = {"image": torch.zeros(B, T, 64, 64, 1, dtype=torch.uint8)}
    zeros = torch.zeros(B, T)
    inputs = Inputs(images, torch.zeros(B, T, 2), zeros, first, first, ~first)
    with switch.using(kernels):
        nodes = {model.loss(inputs)[0].grad_fn}
    visited = set()
    while nodes:
        visited |= nodes
        nodes = {parent for node in nodes for parent, _ in node.next_functions if parent} - visited
    return {node.name() for node in visited}
