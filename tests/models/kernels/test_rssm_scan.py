"""The loop whose gradient is written by hand, against autograd's of the plain loop."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from wmtk.models import kernels as switch
from wmtk.models.distributions import Binary, Categorical, Gaussian, Latent
from wmtk.models.kernels import rssm_scan
from wmtk.models.rssm import RSSM, RSSMConfig, State

LATENTS: dict[str, Latent] = {
    "categorical": Categorical([4] * 3),
    "gaussian": Gaussian(5),
    "binary": Binary(6),
}


def results(rssm: RSSM, leaves: tuple[Tensor, Tensor], first: Tensor) -> list[Tensor]:
    """The states and all gradients of a loss that weighs every number of them differently."""
    torch.manual_seed(7)
    states = rssm.observe(*leaves, first, start(rssm, len(first)))
    loss = sum(
        (part * torch.linspace(-1, 1, part.numel(), dtype=part.dtype).reshape(part.shape)).sum()
        for part in states
    )
    wanted = [*leaves, *(p for n, p in rssm.named_parameters() if not n.startswith("prior"))]
    return [*states, *torch.autograd.grad(loss, wanted)]


def start(rssm: RSSM, batch: int) -> State:
    """Somewhere else than at zero."""
    generator = torch.Generator().manual_seed(3)
    return State(
        *(
            torch.rand(part.shape, generator=generator, dtype=torch.float64)
            for part in rssm.initial(batch)
        )
    )


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("latent", ["categorical", "gaussian", "binary"])
def test_scan_equals_the_plain_loop(latent: str, layer_norm: bool) -> None:
    torch.manual_seed(0)
    sizes = {"deter": 6, "hidden": 7, "stoch": 3, "classes": 4}
    config = RSSMConfig.build({**sizes, "latent": latent, "layer_norm": layer_norm})
    rssm = RSSM(config, action_size=2, embed_size=5).double()
    for parameter in rssm.parameters():  # biases and norms away from where they start
        parameter.data += 0.3 * torch.randn_like(parameter)
    embed = torch.randn(4, 9, 5, dtype=torch.float64, requires_grad=True)
    action = torch.randn(4, 9, 2, dtype=torch.float64, requires_grad=True)
    first = torch.zeros(4, 9, dtype=torch.bool)
    first[1, 0] = first[1, 4] = first[2, 8] = first[:, 6] = True
    assert rssm_scan.applies(rssm.latent, embed, rssm.initial(4).deter)
    scanned = results(rssm, (embed, action), first)
    with switch.using("plain"):
        plain = results(rssm, (embed, action), first)
    assert len(scanned) == len(plain) > 12
    for mine, other in zip(scanned, plain, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LATENTS)
def test_pull_back_is_the_gradient_of_a_sample(name: str) -> None:
    latent = LATENTS[name]
    torch.manual_seed(0)
    dist_params = torch.randn(8, latent.params_size, dtype=torch.float64, requires_grad=True)
    sample = latent.sample(dist_params)
    grad = torch.randn_like(sample)
    (expected,) = torch.autograd.grad(sample, dist_params, grad)
    slope = rssm_scan.sample_slope(latent, dist_params.detach(), sample.detach())
    found = rssm_scan.pull_back(latent, slope, grad)
    torch.testing.assert_close(found, expected)


class Rounded(Gaussian):
    """A latent of another kind, whose gradient the scan does not have."""

    def draw(self, dist_params: Tensor, noise: Tensor) -> Tensor:
        return super().draw(dist_params, noise).mul(4).round()


def test_a_latent_of_another_kind_takes_the_plain_loop() -> None:
    torch.manual_seed(0)
    config = RSSMConfig.build({"deter": 6, "hidden": 7})
    rssm = RSSM(config, action_size=2, embed_size=5, latent=Rounded(3))
    embed = torch.randn(2, 3, 5, requires_grad=True)
    assert not rssm_scan.applies(rssm.latent, embed, rssm.initial(2).deter)
    states = rssm.observe(embed, torch.zeros(2, 3, 2), torch.zeros(2, 3, dtype=torch.bool))
    assert torch.equal(states.stoch, states.stoch.round())
