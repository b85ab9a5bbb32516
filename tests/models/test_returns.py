"""λ-targets and weights, worked out by hand."""

import pytest
import torch

from wmtk.models.returns import lambda_targets, step_weights


def rows_of(*rows: list[float]) -> list[torch.Tensor]:
    """Lists over time as (1, H)."""
    return [torch.tensor(row, dtype=torch.float64)[None] for row in rows]


def test_three_steps_by_hand() -> None:
    # states           z0    z1    z2    z3
    reward = [10.0, 1.0, 2.0]  # on arriving at z0, z1, z2; what z3 brings is in its value
    discount = [0.5, 0.8, 0.9]  # of z0, z1, z2
    next_value = [7.0, 5.0, 3.0]  # values of z1, z2, z3
    found = lambda_targets(*rows_of(reward, discount, next_value), 0.75)
    V2 = 2.0 + 0.9 * 3.0  # 4.7: nothing but the value of z3 follows
    V1 = 1.0 + 0.8 * (0.25 * 5.0 + 0.75 * V2)  # 4.82
    V0 = 10.0 + 0.5 * (0.25 * 7.0 + 0.75 * V1)  # 12.6825
    assert found.squeeze().tolist() == pytest.approx([V0, V1, V2])


def test_the_two_ends_of_lambda() -> None:
    reward, discount, next_value = rows_of([1.0, 2.0, 3.0], [0.9, 0.8, 0.7], [4.0, 5.0, 6.0])
    one_step = lambda_targets(reward, discount, next_value, 0.0)
    assert one_step.squeeze().tolist() == pytest.approx([1 + 0.9 * 4, 2 + 0.8 * 5, 3 + 0.7 * 6])
    whole = lambda_targets(reward, discount, next_value, 1.0)
    assert whole[0, 0].item() == pytest.approx(1 + 0.9 * (2 + 0.8 * (3 + 0.7 * 6)))


def test_weights_are_the_discounts_of_the_states_before() -> None:
    (discount,) = rows_of([0.5, 0.8, 0.9])
    assert step_weights(discount).squeeze().tolist() == pytest.approx([1.0, 0.5, 0.4])


def test_after_a_terminal_start_nothing_counts() -> None:
    reward, discount, next_value = rows_of([3.0, 9.0, 9.0], [0.0, 0.9, 0.9], [9.0, 9.0, 9.0])
    assert lambda_targets(reward, discount, next_value, 0.95)[0, 0].item() == 3.0
    assert step_weights(discount).squeeze().tolist() == [1.0, 0.0, 0.0]


def test_targets_pass_gradients_on_to_everything() -> None:
    torch.manual_seed(0)
    arguments = [torch.rand(4, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(lambda *x: lambda_targets(*x, 0.9), arguments)


def test_starts_do_not_mix() -> None:
    torch.manual_seed(0)
    reward, discount, next_value = (torch.rand(3, 5) for _ in range(3))
    together = lambda_targets(reward, discount, next_value, 0.95)
    for n in range(3):
        alone = lambda_targets(*(x[n : n + 1] for x in (reward, discount, next_value)), 0.95)
        torch.testing.assert_close(together[n : n + 1], alone)
