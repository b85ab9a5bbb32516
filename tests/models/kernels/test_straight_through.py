"""The straight-through gradient as one node equals the paper's algorithm 1."""

import torch

from wmtk.models import kernels as switch
from wmtk.models.distributions import straight_through_one_hot


def test_samples_and_gradients_equal_the_plain_ones() -> None:
    torch.manual_seed(0)
    logits, uniform = torch.randn(6, 3, 5, requires_grad=True), torch.rand(6, 3)
    weights = torch.randn(6, 3, 5)
    results = []
    for kernels in ("fast", "plain"):
        with switch.using(kernels):
            sample = straight_through_one_hot(logits, uniform)
            (grad,) = torch.autograd.grad((sample * weights).sum(), logits)
        results.append((sample.detach(), grad))
    assert torch.equal(results[0][0], results[1][0])
    torch.testing.assert_close(results[0][1], results[1][1])
    assert results[0][1].any()
