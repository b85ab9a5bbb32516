"""Distributions against scipy, torch.distributions, numpy and plain integration."""

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats
from torch.distributions import Bernoulli, Independent, Normal, OneHotCategorical, kl_divergence

from wmtk.agent.actor_networks import action_distribution
from wmtk.errors import ConfigError
from wmtk.models.distributions import (
    EDGE,
    Binary,
    Categorical,
    Gaussian,
    TruncatedNormal,
    straight_through_one_hot,
    truncated_sample,
)
from wmtk.spaces import ArraySpec

# --- stochastic states ---


def test_one_hot_samples_come_from_the_inverse_of_the_cumulative_distribution() -> None:
    logits = torch.log(torch.tensor([0.2, 0.5, 0.3])).expand(5, 3)
    uniform = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.99])
    drawn = straight_through_one_hot(logits, uniform).argmax(-1)
    assert drawn.tolist() == [0, 0, 1, 1, 2]


def test_samples_have_the_frequencies_of_their_probabilities() -> None:
    torch.manual_seed(0)
    latent = Categorical([4])
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
    latent = Categorical([2] * 2)
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
    categorical = Categorical([4] * 3)
    p, q = (Independent(OneHotCategorical(logits=x.view(7, 3, 4)), 1) for x in (a, b))
    torch.testing.assert_close(categorical.kl(a, b), kl_divergence(p, q))
    torch.testing.assert_close(categorical.entropy(a), p.entropy())
    gaussian = Gaussian(6)
    p, q = (Independent(Normal(x[:, :6], 2 * torch.sigmoid(x[:, 6:] / 2) + 0.1), 1) for x in (a, b))
    torch.testing.assert_close(gaussian.kl(a, b), kl_divergence(p, q))
    torch.testing.assert_close(gaussian.entropy(a), p.entropy())
    binary = Binary(12)
    p, q = (Independent(Bernoulli(logits=x), 1) for x in (a, b))
    torch.testing.assert_close(binary.kl(a, b), kl_divergence(p, q))
    torch.testing.assert_close(binary.entropy(a), p.entropy())


@pytest.mark.parametrize(
    "latent", [Categorical([4] * 3), Gaussian(6), Binary(5)], ids=lambda x: type(x).__name__
)
def test_samples_and_modes_have_the_right_size_and_gradient(latent) -> None:
    stats = torch.randn(2, 7, latent.params_size, requires_grad=True)
    sample = latent.sample(stats)
    assert sample.shape == latent.mode(stats).shape == (2, 7, latent.size)
    assert not latent.mode(stats).requires_grad
    (grad,) = torch.autograd.grad((sample * torch.randn_like(sample)).sum(), stats)
    assert grad.abs().sum() > 0


# Means at and near the ends, the smallest and the largest spread.
CORNERS = [(m, s) for m in (-9.0, -2.0, 0.0, 0.3, 9.0) for s in (-20.0, -1.0, 0.0, 3.0, 20.0)]


def corner_stats() -> torch.Tensor:
    return torch.tensor(CORNERS, dtype=torch.float64)  # (25, 2)


def frozen_scipy(mean: float, std: float):
    return scipy_stats.truncnorm((-1 - mean) / std, (1 - mean) / std, mean, std)


# --- truncated normal ---


def test_its_moments_by_hand() -> None:
    mean, std = TruncatedNormal(1).moments(torch.tensor([[0.5, 1.2], [-8.0, -60.0]]))
    assert mean.squeeze().tolist() == pytest.approx([np.tanh(0.5), np.tanh(-8.0)])
    assert std.squeeze().tolist() == pytest.approx([2 / (1 + np.exp(-0.6)) + 0.1, 0.1])


def test_log_probability_and_entropy_are_scipys() -> None:
    actions = TruncatedNormal(1)
    x = torch.linspace(-1, 1, 41, dtype=torch.float64)
    for row in corner_stats():
        mean, std = (v.item() for v in actions.moments(row))
        theirs = frozen_scipy(mean, std)
        ours = actions.log_prob(row.expand(41, 2), x[:, None])
        np.testing.assert_allclose(ours.numpy(), theirs.logpdf(x.numpy()), rtol=1e-6, atol=1e-9)
        assert actions.entropy(row).item() == pytest.approx(theirs.entropy(), abs=1e-6)


def test_its_probabilities_add_up_and_its_entropy_is_their_integral() -> None:
    actions = TruncatedNormal(1)
    x = torch.linspace(-1, 1, 20_001, dtype=torch.float64)
    logs = actions.log_prob(corner_stats()[:, None, :], x[None, :, None])  # (25, 20001)
    mass = torch.trapezoid(logs.exp(), x)
    np.testing.assert_allclose(mass.numpy(), 1, atol=1e-6)
    entropy = -torch.trapezoid(logs.exp() * logs, x)
    np.testing.assert_allclose(actions.entropy(corner_stats()).numpy(), entropy, atol=1e-5)


def test_samples_follow_the_distribution_and_stay_inside() -> None:
    torch.manual_seed(0)
    actions = TruncatedNormal(1)
    for row in corner_stats().float()[::2]:
        drawn = actions.sample(row.expand(4000, 2)).squeeze(-1)
        assert drawn.abs().max() <= 1 - EDGE / 2
        mean, std = (v.item() for v in actions.moments(row.double()))
        found = scipy_stats.kstest(drawn.numpy(), frozen_scipy(mean, std).cdf)
        assert found.pvalue > 1e-4, (mean, std, found)


@pytest.mark.parametrize("u", [0.0, 1e-30, 1e-7, 0.5, 1 - 2**-24], ids=str)
def test_the_ends_of_the_uniform_numbers_are_safe(u) -> None:
    mean, std = TruncatedNormal(25).moments(corner_stats().T.reshape(-1).float())
    mean, std = mean.requires_grad_(), std.requires_grad_()
    drawn = truncated_sample(mean, std, torch.full_like(mean, u))
    grads = torch.autograd.grad(drawn.sum(), [mean, std])
    assert (drawn.abs() < 1).all()
    # A sample moves no further than its mean does, and by the std at most a few of them.
    assert all(torch.isfinite(grad).all() for grad in grads)
    assert (grads[0] > -0.1).all()
    assert (grads[0] < 1.1).all()
    assert grads[1].abs().max() < 6


def test_the_gradient_of_a_sample_is_that_of_the_inverse_distribution() -> None:
    rng = np.random.default_rng(0)
    mean, std, u = rng.uniform(-0.99, 0.99, 50), rng.uniform(0.1, 2.1, 50), rng.uniform(0, 1, 50)

    def inverse(m, s):
        return frozen_scipy(m, s).ppf(u)

    arguments = [torch.tensor(x, requires_grad=True) for x in (mean, std)]
    drawn = truncated_sample(*arguments, torch.tensor(u))
    np.testing.assert_allclose(drawn.detach().numpy(), inverse(mean, std), atol=2 * EDGE)
    by_mean, by_std = torch.autograd.grad(drawn.sum(), arguments)
    h = 1e-5
    numeric = (inverse(mean + h, std) - inverse(mean - h, std)) / (2 * h)
    np.testing.assert_allclose(by_mean.numpy(), numeric, rtol=1e-4, atol=1e-5)
    numeric = (inverse(mean, std + h) - inverse(mean, std - h)) / (2 * h)
    np.testing.assert_allclose(by_std.numpy(), numeric, rtol=1e-4, atol=1e-5)


def test_gradients_of_log_probability_and_entropy() -> None:
    actions = TruncatedNormal(3)
    stats = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    action = torch.rand(4, 3, dtype=torch.float64) * 2 - 1
    assert torch.autograd.gradcheck(lambda s: actions.log_prob(s, action), stats)
    assert torch.autograd.gradcheck(actions.entropy, stats)


def test_the_numbers_of_an_action_are_independent() -> None:
    one, three = TruncatedNormal(1), TruncatedNormal(3)
    stats, action = torch.randn(5, 2, 3), torch.rand(5, 3) * 2 - 1
    parts = [one.log_prob(stats[..., i], action[:, i : i + 1]) for i in range(3)]
    torch.testing.assert_close(three.log_prob(stats.flatten(1), action), sum(parts))
    parts = [one.entropy(stats[..., i]) for i in range(3)]
    torch.testing.assert_close(three.entropy(stats.flatten(1)), sum(parts))


# --- discrete ---


@pytest.mark.parametrize("sizes", [[4], [3, 2, 5]], ids=str)
def test_categoricals_are_torchs(sizes) -> None:
    torch.manual_seed(0)
    actions = Categorical(sizes)
    stats = torch.randn(6, 7, sum(sizes))
    action = actions.sample(stats)
    theirs = [OneHotCategorical(logits=part) for part in stats.split(sizes, -1)]
    logs = sum(d.log_prob(a) for d, a in zip(theirs, action.split(sizes, -1), strict=True))
    torch.testing.assert_close(actions.log_prob(stats, action), logs)
    torch.testing.assert_close(actions.entropy(stats), sum(d.entropy() for d in theirs))
    modes = torch.cat([d.mode for d in theirs], -1)
    torch.testing.assert_close(actions.mode(stats), modes)


def test_categoricals_are_drawn_by_their_probabilities() -> None:
    torch.manual_seed(0)
    actions = Categorical([3, 2])
    stats = torch.tensor([0.0, 1.0, -1.0, 0.5, -0.5])
    drawn = actions.sample(stats.expand(20_000, 5))
    assert (drawn[:, :3].sum(-1) == 1).all()
    assert (drawn[:, 3:].sum(-1) == 1).all()
    wanted = torch.cat([stats[:3].softmax(0), stats[3:].softmax(0)])
    torch.testing.assert_close(drawn.mean(0), wanted, atol=0.015, rtol=0)
    # Choices that are independent: the joint is the product.
    joint = (drawn[:, 0] * drawn[:, 3]).mean()
    assert joint.item() == pytest.approx((wanted[0] * wanted[3]).item(), abs=0.015)


def test_the_gradient_of_a_choice_is_that_of_its_probabilities() -> None:
    actions = Categorical([3, 2])
    stats = torch.randn(8, 5, requires_grad=True)
    weights = torch.randn(8, 5)
    (ours,) = torch.autograd.grad((actions.sample(stats) * weights).sum(), stats)
    probs = torch.cat([part.softmax(-1) for part in stats.split([3, 2], -1)], -1)
    (theirs,) = torch.autograd.grad((probs * weights).sum(), stats)
    torch.testing.assert_close(ours, theirs)


def test_switches_are_torchs_bernoulli() -> None:
    torch.manual_seed(0)
    actions = Binary(3)
    stats = torch.randn(6, 3)
    action = actions.sample(stats).round()  # off by a rounding error, for the gradient's sake
    theirs = Independent(Bernoulli(logits=stats), 1)
    torch.testing.assert_close(actions.log_prob(stats, action), theirs.log_prob(action))
    torch.testing.assert_close(actions.entropy(stats), theirs.entropy())


def test_what_is_logged() -> None:
    found = Categorical([2]).metrics(torch.tensor([[0.0, 0.0], [0.0, 50.0]]))
    assert {name: value.item() for name, value in found.items()} == pytest.approx(
        {"probability/0": 0.25, "probability/1": 0.75}
    )
    assert list(Categorical([2, 1]).metrics(torch.zeros(4, 3))) == [
        "probability/0/0",
        "probability/0/1",
        "probability/1/0",
    ]
    found = TruncatedNormal(2).metrics(torch.tensor([[50.0, 0.0, -99.0, -99.0]]))
    assert found["size"].item() == pytest.approx(0.5)
    assert found["std"].item() == pytest.approx(0.1)


def test_an_actor_for_each_space() -> None:
    assert action_distribution(ArraySpec("discrete", (), "int64", 3, 7)).size == 5
    multi = action_distribution(ArraySpec("multi_discrete", (2,), "int64", 0, (1, 3)))
    assert isinstance(multi, Categorical)
    assert multi.classes == [2, 4]
    assert isinstance(action_distribution(ArraySpec("multi_binary", (3,), "int8", 0, 1)), Binary)
    assert isinstance(
        action_distribution(ArraySpec("box", (3,), "float32", -1, 1)), TruncatedNormal
    )
    with pytest.raises(ConfigError, match="box of integers"):
        action_distribution(ArraySpec("box", (3,), "uint8", 0, 9))
