"""The recurrent model: the cell by hand, resets, and the two ways of running it."""

import numpy as np
import pytest
import torch

from wmtk.models.networks import GRUCell
from wmtk.models.rssm import RSSM, RSSMConfig, State

SMALL = RSSMConfig(deter=6, hidden=7, stoch=3, classes=4)


@pytest.fixture
def rssm() -> RSSM:
    torch.manual_seed(0)
    return RSSM(SMALL, action_size=2, embed_size=5)


def sequence(B: int = 3, T: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    first = torch.zeros(B, T, dtype=torch.bool)
    first[:, 0] = True
    return torch.randn(B, T, 5), torch.randn(B, T, 2), first


@pytest.mark.parametrize("layer_norm", [True, False])
def test_the_cell_in_numpy(layer_norm) -> None:
    torch.manual_seed(0)
    cell = GRUCell(3, 4, layer_norm=layer_norm).double()
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter)
    x, h = (
        np.random.default_rng(0).normal(size=(2, 3)),
        np.random.default_rng(1).normal(size=(2, 4)),
    )
    parts = np.concatenate([x, h], 1) @ cell.linear.weight.detach().numpy().T
    parts = parts + cell.linear.bias.detach().numpy()
    if layer_norm:
        mean, var = parts.mean(1, keepdims=True), parts.var(1, keepdims=True)
        weight, bias = cell.norm.weight.detach().numpy(), cell.norm.bias.detach().numpy()
        parts = (parts - mean) / np.sqrt(var + 1e-3) * weight + bias
    reset, candidate, update = np.split(parts, 3, axis=1)
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    candidate, update = np.tanh(sigmoid(reset) * candidate), sigmoid(update - 1)
    expected = update * candidate + (1 - update) * h
    found = cell(torch.tensor(x), torch.tensor(h)).detach().numpy()
    np.testing.assert_allclose(found, expected)


def test_the_bias_comes_before_the_layer_norm() -> None:
    """Parts 0, 3, −3 of variance 6 become 0, ±3/√6.001 = ±1.22464, whatever the inputs."""
    cell = GRUCell(1, 1, layer_norm=True).double()
    torch.nn.init.zeros_(cell.linear.weight)
    cell.linear.bias.data = torch.tensor([0.0, 3.0, -3.0], dtype=torch.float64)
    h = cell(torch.full((1, 1), 7.0).double(), torch.ones(1, 1).double())
    # 1 + sigmoid(−1.22464 − 1) · (tanh(sigmoid(0) · 1.22464) − 1) = 1 − 0.097559 · 0.454237
    assert h.item() == pytest.approx(0.955685, abs=1e-6)


@pytest.mark.parametrize("layer_norm", [True, False])
def test_the_gradients_of_the_cell_are_differences(layer_norm) -> None:
    torch.manual_seed(0)
    cell = GRUCell(3, 4, layer_norm=layer_norm).double()
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter)
    names = [name for name, _ in cell.named_parameters()]
    inputs = [torch.randn(2, size, dtype=torch.float64, requires_grad=True) for size in (3, 4)]

    def call(x, h, *parameters):
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(cell, weights, (x, h))

    assert torch.autograd.gradcheck(call, (*inputs, *cell.parameters()))


def test_an_episode_that_begins_inside_a_sequence_forgets_what_was_before(rssm) -> None:
    embed, action, first = sequence()
    first[1, 3] = True
    torch.manual_seed(5)
    whole = rssm.observe(embed, action, first)
    torch.manual_seed(5)
    changed = embed.clone()
    changed[1, :3] = 99.0  # the past of the sequence that is reset
    other = rssm.observe(changed, action, first)
    torch.testing.assert_close(whole.deter[1, 3:], other.deter[1, 3:])
    torch.testing.assert_close(whole.stoch[1, 3:], other.stoch[1, 3:])
    zeroed = action.clone()
    zeroed[1, 3] = 7.0  # an action that led to a reset means nothing
    torch.manual_seed(5)
    assert torch.equal(rssm.observe(embed, zeroed, first).deter, whole.deter)


def test_acting_step_by_step_gives_the_states_of_training(rssm) -> None:
    embed, action, first = sequence()
    torch.manual_seed(7)
    trained = rssm.observe(embed, action, first)
    torch.manual_seed(7)
    state, steps = rssm.initial(3), []
    for t in range(embed.shape[1]):
        state = rssm.observe_step(state, action[:, t], embed[:, t], first[:, t])
        steps.append(state)
    acted = State(*(torch.stack(parts, 1) for parts in zip(*steps, strict=True)))
    for ours, theirs in zip(acted, trained, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_imagination_goes_on_from_any_state_by_the_prior(rssm) -> None:
    embed, action, first = sequence()
    post = rssm.observe(embed, action, first)
    start = post.at(-1)
    torch.manual_seed(3)
    trajectory = rssm.imagine(start, action[:, :4])
    assert trajectory.deter.shape == (3, 4, 6)
    torch.manual_seed(3)
    step = rssm.imagine_step(start, action[:, 0])
    torch.testing.assert_close(trajectory.deter[:, 0], step.deter)
    torch.testing.assert_close(trajectory.dist_params[:, 0], rssm.prior(step.deter))


def test_gradients_reach_back_through_time(rssm) -> None:
    embed, action, first = sequence()
    embed.requires_grad_()
    state = rssm.observe(embed, action, first)
    (grad,) = torch.autograd.grad(state.deter[:, -1].sum(), embed)
    assert (grad[:, 0].abs().sum() > 0).item()
