"""The balanced KL from a single KL equals the sum of its two terms, gradients included."""

import pytest
import torch

from wmtk.models import kernels as switch
from wmtk.models.distributions import Categorical, Gaussian
from wmtk.models.losses import balanced_kl


@pytest.mark.parametrize(
    "latent", [Categorical([4] * 3), Gaussian(6)], ids=["categorical", "gaussian"]
)
@pytest.mark.parametrize("balance", [0.8, 0.0, 1.0, None])
def test_values_and_gradients_equal_the_plain_ones(latent, balance) -> None:
    torch.manual_seed(0)
    post, prior = (torch.randn(2, 4, 12, requires_grad=True) for _ in range(2))
    mask = torch.ones(2, 4, dtype=torch.bool)
    mask[1, 2:] = False
    results = []
    for kernels in ("fast", "plain"):
        with switch.using(kernels):
            kl = balanced_kl(latent, post, prior, mask, balance)
            results.append([kl, *torch.autograd.grad(kl, [post, prior], materialize_grads=True)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
