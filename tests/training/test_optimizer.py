"""The optimizer and the schedules, by hand."""

import pytest
import torch

from wmtk.runs.training_config import OptimizerConfig
from wmtk.schedules import LinearSchedule, value
from wmtk.training.optim import Optimizer
from wmtk.training.presets import PRESETS, training_config


def test_every_update_shrinks_the_weights_whatever_the_rate() -> None:
    weight = torch.nn.Parameter(torch.tensor([2.0]))
    optimizer = Optimizer(OptimizerConfig(lr=1e-12, weight_decay=0.1), [weight])
    for step in range(3):
        optimizer.update((0 * weight).sum(), step)
    assert weight.item() == pytest.approx(2 * 0.9**3)


def test_the_gradient_is_clipped_by_its_global_norm() -> None:
    a, b = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = Optimizer(OptimizerConfig(lr=1e-3, clip=1.0), iter([a, b]))
    norm = optimizer.update((3 * a + 4 * b).sum(), 0)
    assert norm.item() == pytest.approx(5.0)
    assert [a.grad.item(), b.grad.item()] == pytest.approx([0.6, 0.8], abs=1e-5)


def test_the_first_step_of_adam_by_hand() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = Optimizer(OptimizerConfig(lr=0.1, eps=1e-5, weight_decay=0.0), [weight])
    optimizer.update((2 * weight).sum(), 0)
    assert weight.item() == pytest.approx(1 - 0.1 * 2 / (2 + 1e-5))


@pytest.mark.parametrize(
    ("gradient", "steps"),
    [  # of a constant gradient g: g / (|g| + ε / √(1 − 0.999ᵗ)) in update t
        (1.0, [0.999683872, 0.999776387, 0.999817369]),
        (1e-3, [0.759746927, 0.817219397, 0.845546895]),
        (-1e-4, [-0.240253073, -0.308964106, -0.353776037]),
        (1e-5, [0.030653430, 0.042796780, 0.051903527]),
        (1e-7, [0.000316128, 0.000446903, 0.000547150]),
    ],
)
def test_the_eps_of_the_reference_by_hand(gradient: float, steps: list[float]) -> None:
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    config = OptimizerConfig(lr=1.0, eps=1e-5, weight_decay=0.0, eps_before_correction=True)
    optimizer, found = Optimizer(config, [weight]), []
    for step in range(1, 4):
        before = weight.item()
        optimizer.update((gradient * weight).sum(), step)
        found.append(before - weight.item())
    assert found == pytest.approx(steps, rel=1e-5)


def test_the_eps_of_the_reference_when_gradients_change() -> None:
    """Kingma and Ba's ε̂: θ −= α·√(1 − β₂ᵗ)/(1 − β₁ᵗ) · m / (√v + ε); g = 1e-3, 3e-3, −1e-3.

    t=1: m = 1.00e-4, v = 1e-9;        0.0316228/0.1   · 1.00e-4 / (3.16228e-5 + 1e-5) = 0.759747
    t=2: m = 3.90e-4, v = 9.999e-9;    0.0447102/0.19  · 3.90e-4 / (9.99950e-5 + 1e-5) = 0.834344
    t=3: m = 2.51e-4, v = 1.0989e-8;   0.0547449/0.271 · 2.51e-4 / (1.04828e-4 + 1e-5) = 0.441569
    """
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    config = OptimizerConfig(lr=1.0, eps=1e-5, weight_decay=0.0, eps_before_correction=True)
    optimizer, found = Optimizer(config, [weight]), []
    for step, gradient in enumerate((1e-3, 3e-3, -1e-3), 1):
        before = weight.item()
        optimizer.update((gradient * weight).sum(), step)
        found.append(before - weight.item())
    assert found == pytest.approx([0.759747, 0.834344, 0.441569], rel=1e-5)


def test_the_paper_presets_place_eps_as_the_reference() -> None:
    for name in PRESETS:
        config = training_config(name)
        behavior = config.behavior
        every = (config.optimizer, behavior.actor, behavior.critic, behavior.ensemble)
        assert {each.eps_before_correction for each in every} == {name != "tiny"}, name


def test_the_rate_warms_up() -> None:
    config = OptimizerConfig(lr=LinearSchedule(start=2.0, end=1.0, steps=10), warmup=4)
    assert [config.lr_at(s) for s in (1, 2, 4, 5, 10, 99)] == pytest.approx(
        [1.9 / 4, 1.8 / 2, 1.6, 1.5, 1.0, 1.0]
    )
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = Optimizer(config, [weight])
    optimizer.update((2 * weight).sum(), 2)
    assert optimizer.adam.param_groups[0]["lr"] == pytest.approx(0.9)


def test_a_schedule_is_linear_and_stays_at_its_end() -> None:
    schedule = LinearSchedule(start=3e-3, end=3e-4, steps=100)
    assert [value(schedule, s) for s in (0, 50, 100, 1000)] == pytest.approx(
        [3e-3, 1.65e-3, 3e-4, 3e-4]
    )
    assert value(0.5, 7) == 0.5


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_a_gradient_that_is_not_finite_never_reaches_the_weights(scaled) -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0) if scaled else None
    optimizer = Optimizer(OptimizerConfig(lr=0.1), [weight], scaler)
    norm = optimizer.update((weight * torch.inf).sum(), 0)
    assert not torch.isfinite(norm)
    assert weight.item() == 1
    assert scaler is None or scaler.get_scale() == 4
    assert torch.isfinite(optimizer.update((2 * weight).sum(), 1))
    assert 0 < weight.item() < 1


def test_scaling_the_loss_leaves_the_update_as_it_is() -> None:
    weights = [torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2)]
    scalers = [None, torch.amp.GradScaler("cpu", init_scale=1024.0)]
    for weight, scaler in zip(weights, scalers, strict=True):
        optimizer = Optimizer(OptimizerConfig(lr=0.1, clip=0.5), [weight], scaler)
        for step in range(3):
            assert optimizer.update(weight.square().sum(), step) > 0.5
    assert torch.equal(*weights)
