"""The stochastic states against numpy and torch.distributions."""

import numpy as np
import pytest
import torch
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Independent, Normal, OneHotCategorical, kl_divergence

from wmtk.models.distributions import Binary, Categorical, Gaussian, straight_through_one_hot


def test_one_hot_samples_come_from_the_inverse_of_the_cumulative_distribution() -> None:
    logits = torch.log(torch.tensor([0.2, 0.5, 0.3])).expand(5, 3)
    uniform = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.99])
    drawn = straight_through_one_hot(logits, uniform).argmax(-1)
    assert drawn.tolist() == [0, 0, 1, 1, 2]


def test_samples_have_the_frequencies_of_their_probabilities() -> None:
    torch.manual_seed(0)
    latent = Categorical(1, 4)
    probs = torch.tensor([0.1, 0.2, 0.3, 0.4])
    mean = latent.sample(probs.log().expand(40_000, 4)).mean(0)
    torch.testing.assert_close(mean, probs, atol=0.01, rtol=0)


def test_the_straight_through_gradient_is_the_papers() -> None:
    logits = torch.randn(6, 5, requires_grad=True)
    weights = torch.randn(6, 5)
    sample = straight_through_one_hot(logits, torch.rand(6))
    (ours,) = torch.autograd.grad((sample * weights).sum(), logits)
    probs = torch.softmax(logits, -1)
    reference = sample.detach() + probs - probs.detach()  # algorithm 1
    (expected,) = torch.autograd.grad((reference * weights).sum(), logits)
    torch.testing.assert_close(ours, expected)


def test_numbers_at_the_very_top_still_give_a_class() -> None:
    logits = torch.full((1000, 32), -20.0)
    drawn = straight_through_one_hot(logits, torch.full((1000,), 1 - 1e-7))
    assert (drawn.sum(-1) == 1).all()


def test_categorical_kl_and_entropy_by_hand() -> None:
    latent = Categorical(2, 2)
    p = np.array([[0.5, 0.5], [0.9, 0.1]])
    q = np.array([[0.25, 0.75], [0.5, 0.5]])
    kl = latent.kl(torch.tensor(np.log(p)).flatten(), torch.tensor(np.log(q)).flatten())
    # ½ ln 2 + ½ ln ⅔ + 0.9 ln 1.8 + 0.1 ln 0.2
    assert kl.item() == pytest.approx(0.14384 + 0.36806, abs=1e-4)
    entropy = latent.entropy(torch.tensor(np.log(p)).flatten())
    assert entropy.item() == pytest.approx(np.log(2) + 0.32508, abs=1e-4)


def test_against_torch_distributions() -> None:
    torch.manual_seed(1)
    a, b = torch.randn(7, 12), torch.randn(7, 12)
    categorical = Categorical(3, 4)
    p, q = (Independent(OneHotCategorical(logits=x.view(7, 3, 4)), 1) for x in (a, b))
    torch.testing.assert_close(categorical.kl(a, b), kl_divergence(p, q))
    torch.testing.assert_close(categorical.entropy(a), p.entropy())
    gaussian = Gaussian(6)
    p, q = (Independent(Normal(x[:, :6], 2 * torch.sigmoid(x[:, 6:] / 2) + 0.1), 1) for x in (a, b))
    torch.testing.assert_close(gaussian.kl(a, b), kl_divergence(p, q))
    torch.testing.assert_close(gaussian.entropy(a), p.entropy())
    binary = Binary(12)
    p, q = (Independent(TorchBernoulli(logits=x), 1) for x in (a, b))
    torch.testing.assert_close(binary.kl(a, b), kl_divergence(p, q))
    torch.testing.assert_close(binary.entropy(a), p.entropy())


@pytest.mark.parametrize(
    "latent", [Categorical(3, 4), Gaussian(6), Binary(5)], ids=lambda x: type(x).__name__
)
def test_samples_and_modes_have_the_right_size_and_gradient(latent) -> None:
    stats = torch.randn(2, 7, latent.stats_size, requires_grad=True)
    sample = latent.sample(stats)
    assert sample.shape == latent.mode(stats).shape == (2, 7, latent.size)
    assert not latent.mode(stats).requires_grad
    (grad,) = torch.autograd.grad((sample * torch.randn_like(sample)).sum(), stats)
    assert grad.abs().sum() > 0
