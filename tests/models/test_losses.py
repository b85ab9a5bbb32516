"""The terms of the loss, by hand."""

import math

import pytest
import torch

from wmtk.models.distributions import Categorical
from wmtk.models.losses import (
    balanced_kl,
    code_perplexity,
    discount_nll,
    gaussian_nll,
    masked_mean,
)

LATENT = Categorical([3])
ALL = torch.ones(2, 4, dtype=torch.bool)


def stats() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return tuple(torch.randn(2, 4, 3, requires_grad=True) for _ in range(2))  # type: ignore[return-value]


def test_padding_does_not_count() -> None:
    values = torch.tensor([[1.0, 2.0, 99.0], [3.0, 99.0, 99.0]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert masked_mean(values, mask).item() == 2.0


def test_balancing_changes_the_gradients_and_not_the_value() -> None:
    post, prior = stats()
    plain = balanced_kl(LATENT, post, prior, ALL, None)
    g_post, g_prior = torch.autograd.grad(plain, [post, prior])
    balanced = balanced_kl(LATENT, post, prior, ALL, 0.8)
    b_post, b_prior = torch.autograd.grad(balanced, [post, prior])
    torch.testing.assert_close(balanced, plain)
    torch.testing.assert_close(b_prior, 0.8 * g_prior)  # the prior learns four times faster
    torch.testing.assert_close(b_post, 0.2 * g_post)


def test_balancing_is_the_papers_algorithm() -> None:
    post, prior = stats()
    to_prior, to_post = LATENT.kl(post.detach(), prior), LATENT.kl(post, prior.detach())
    expected = (0.8 * to_prior + 0.2 * to_post).mean()  # algorithm 2
    found = balanced_kl(LATENT, post, prior, ALL, 0.8)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad(found, [post, prior]),
        torch.autograd.grad(expected, [post, prior]),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_the_divergence_and_its_gradients_by_hand() -> None:
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    post, prior = (x.log().reshape(1, 1, 2).requires_grad_() for x in (p, q))
    one = torch.ones(1, 1, dtype=torch.bool)
    kl = balanced_kl(Categorical([2]), post, prior, one, 0.8)
    assert kl.item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))  # 0.1438
    of_post, of_prior = torch.autograd.grad(kl, [post, prior])
    # By the logits of the prior: q − p. By those of the posterior: p · (ln p/q − KL).
    assert of_prior.flatten().tolist() == pytest.approx([0.8 * -0.25, 0.8 * 0.25])
    by_hand = 0.5 * (math.log(2) - 0.5 * math.log(4 / 3))
    assert of_post.flatten().tolist() == pytest.approx([0.2 * by_hand, -0.2 * by_hand], abs=1e-6)


def test_the_likelihood_is_half_the_squared_error_and_a_constant() -> None:
    mean, target = torch.zeros(1, 2, 2), torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])
    constant = 4 * 0.5 * math.log(2 * math.pi)
    assert gaussian_nll(mean, target, 2).tolist() == pytest.approx([2.5 + constant])
    assert (gaussian_nll(mean, target, 2) - constant).tolist() == pytest.approx([5 / 2])
    mean.requires_grad_()
    (grad,) = torch.autograd.grad(gaussian_nll(mean, target, 2).sum(), mean)
    assert torch.equal(grad, -target)  # mean − target


def test_the_discount_loss_has_soft_targets() -> None:
    logits = torch.tensor([0.0, 2.0])
    terminal = torch.tensor([False, True])
    p = 1 / (1 + math.exp(-2.0))
    expected = [math.log(2), -math.log(1 - p)]
    assert discount_nll(logits, terminal, 0.99).tolist() == pytest.approx(expected)
    # The minimum is at the logit of γ itself.
    logit = torch.tensor([math.log(0.99 / 0.01)], requires_grad=True)
    (grad,) = torch.autograd.grad(discount_nll(logit, torch.tensor([False]), 0.99).sum(), logit)
    assert grad.item() == pytest.approx(0, abs=1e-6)
    # Elsewhere it is the probability minus the target, which an end makes 0.
    away = torch.tensor([0.5, 0.5], requires_grad=True)
    nll = discount_nll(away, torch.tensor([False, True]), 0.99)
    (grad,) = torch.autograd.grad(nll.sum(), away)
    likely = 1 / (1 + math.exp(-0.5))
    assert grad.tolist() == pytest.approx([likely - 0.99, likely])


def test_perplexity_counts_the_classes_in_use() -> None:
    logits = torch.full((1, 4, 8), -50.0)
    for t, (first, second) in enumerate([(0, 0), (1, 0), (0, 0), (1, 0)]):
        logits[0, t, first] = logits[0, t, 4 + second] = 50.0  # two variables of four classes
    mask = torch.ones(1, 4, dtype=torch.bool)
    assert code_perplexity(Categorical([4, 4]), logits, mask).item() == pytest.approx((2 + 1) / 2)
