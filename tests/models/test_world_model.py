"""The world model: its size, its parts, what gradients reach, and that it learns."""

import pytest
import torch

from wmtk.errors import ConfigError
from wmtk.models.conv import ConvDecoder
from wmtk.models.rssm import RSSM, RSSMConfig
from wmtk.models.world_model import Inputs, WorldModel, WorldModelConfig
from wmtk.spaces import ArraySpec

IMAGE = ArraySpec("box", (64, 64, 1), "uint8", 0, 255)
VECTOR = ArraySpec("box", (3,), "float32")
TINY = WorldModelConfig.build(
    {
        "cnn_depth": 4,
        "layers": 2,
        "units": 16,
        "rssm": {"deter": 16, "hidden": 16, "stoch": 4, "classes": 4},
    }
)


def inputs(keys: dict[str, ArraySpec], B: int = 2, T: int = 5, A: int = 3) -> Inputs:
    torch.manual_seed(0)
    obs = {
        key: torch.randint(0, 256, (B, T, *spec.shape), dtype=torch.uint8)
        if spec.is_image
        else torch.randn(B, T, *spec.shape)
        for key, spec in keys.items()
    }
    first = torch.zeros(B, T, dtype=torch.bool)
    first[:, 0] = True
    return Inputs(
        obs, torch.randn(B, T, A), torch.randn(B, T), ~first & False, first, torch.ones_like(first)
    )


def test_at_paper_size_it_has_20_million_parameters() -> None:
    model = WorldModel(WorldModelConfig(), {"image": IMAGE}, action_size=18)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(20e6, rel=0.005)


def glorot(inputs: int, outputs: int) -> float:
    """The bound of uniform weights, and of none above it."""
    return float((6 / (inputs + outputs)) ** 0.5)


def test_decoders_can_begin_at_the_mean_color_of_what_is_no_padding() -> None:
    spec = ArraySpec("box", (64, 64, 3), "uint8", 0, 255)
    batch = inputs({"image": spec})
    batch.obs["image"][:] = torch.tensor([0, 51, 255], dtype=torch.uint8)
    batch.mask[1, 3:] = False
    batch.obs["image"][1, 3:] = 77  # padding
    model = WorldModel(TINY, {"image": spec}, action_size=3)
    model.start_at_mean(batch)
    decoder = model.decoders["image"]
    assert isinstance(decoder, ConvDecoder)
    torch.testing.assert_close(decoder.last.bias, torch.tensor([-0.5, -0.3, 0.5]))


def test_weights_begin_as_in_the_reference() -> None:
    """Uniform within Glorot's bounds of each layer, also where one is computed in parts."""
    torch.manual_seed(0)
    model = WorldModel(WorldModelConfig(), {"image": IMAGE}, action_size=18)
    rssm, decoder = model.rssm, model.decoders["image"]
    bounds = {
        rssm.from_stoch: glorot(1024 + 18, 600),
        rssm.from_action: glorot(1024 + 18, 600),
        rssm.cell.linear: glorot(600 + 600, 3 * 600),
        rssm.prior_stats: glorot(600, 1024),
        rssm.post_from_deter: glorot(600 + 1536, 600),
        rssm.post_from_embed: glorot(600 + 1536, 600),
        model.encoders["image"].layers[1]: glorot(48 * 16, 96 * 16),
        decoder.first: glorot(1536 * 25, 192 * 25),
        decoder.third: glorot(96 * 36, 48 * 36),
        model.reward_head.out: glorot(400, 1),
    }
    for layer, bound in bounds.items():
        assert 0.97 * bound < layer.weight.abs().max().item() <= bound * (1 + 1e-6), layer
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1), layer
    biases = {name: value for name, value in model.named_parameters() if name.endswith("bias")}
    assert len(biases) > 20
    assert not any(value.any() for value in biases.values())
    assert (rssm.cell.norm.weight == 1).all()
    assert rssm.cell.norm.eps == 1e-3


def test_as_many_binary_latents_as_there_are_classes_in_all() -> None:
    sizes = {"stoch": 3, "classes": 5, "deter": 4}
    feats = {
        latent: RSSM(RSSMConfig.build({**sizes, "latent": latent}), 1, 1).feat_size
        for latent in ("categorical", "binary", "gaussian")
    }
    assert feats == {"categorical": 4 + 15, "binary": 4 + 15, "gaussian": 4 + 3}


def test_what_vectors_become_is_no_linear_function_of_the_last_layer() -> None:
    """As the last convolution of an image, so that the layer after it has something to do."""
    torch.manual_seed(0)
    model = WorldModel(TINY, {"state": VECTOR}, 3)
    obs = {"state": torch.randn(2, 40, 3)}
    linear = model.vector_encoder(obs["state"])
    assert linear.min() < -0.1
    torch.testing.assert_close(model.encode(obs), torch.where(linear > 0, linear, linear.expm1()))


@pytest.mark.parametrize("latent", ["categorical", "gaussian", "binary"])
@pytest.mark.parametrize(
    "keys",
    [{"image": IMAGE}, {"state": VECTOR}, {"camera/left": IMAGE, "pos": VECTOR}],
    ids=["image", "vector", "both"],
)
def test_every_kind_of_latent_and_observation(latent, keys) -> None:
    model = WorldModel(TINY.override({"rssm.latent": latent}), keys, action_size=3)
    loss, post, metrics = model.loss(inputs(keys))
    loss.backward()
    assert post.feat.shape == (2, 5, model.rssm.feat_size)
    assert torch.isfinite(loss)
    assert all(p.grad is not None for p in model.parameters())
    assert ("codes/perplexity" in metrics) == (latent == "categorical")


@pytest.mark.parametrize("free_nats", [0.0, 1000.0])
def test_below_the_free_nats_the_divergence_teaches_nothing(free_nats: float) -> None:
    model = WorldModel(TINY.override({"free_nats": free_nats}), {"image": IMAGE}, action_size=3)
    loss, _, metrics = model.loss(inputs({"image": IMAGE}))
    loss.backward()
    assert float(metrics["loss/kl"]) == pytest.approx(0.1 * max(float(metrics["kl"]), free_nats))
    taught = model.rssm.prior_stats.weight.grad
    assert taught is not None
    assert bool(taught.any()) == (free_nats == 0)


def test_the_scale_of_the_divergence_may_follow_a_schedule() -> None:
    ramp = {"start": 0.0, "end": 0.5, "steps": 100}
    model = WorldModel(TINY.override({"kl_scale": ramp}), {"image": IMAGE}, action_size=3)
    batch = inputs({"image": IMAGE})
    shares = []
    for step in (0, 20, 100, 1000):
        _, _, metrics = model.loss(batch, step)
        shares.append(float(metrics["loss/kl"] / metrics["kl"]))
    assert shares == pytest.approx([0.0, 0.1, 0.5, 0.5])
    for wrong in (-1.0, float("nan"), ramp | {"end": -0.5}):
        with pytest.raises(ConfigError, match=r"kl_scale.*(not negative|finite)"):
            TINY.override({"kl_scale": wrong})


def test_the_linear_layer_is_the_transposed_convolution_that_it_stands_for() -> None:
    torch.manual_seed(0)
    decoder = ConvDecoder(7, 1, depth=2)
    conv = torch.nn.ConvTranspose2d(64, 8, 5, stride=2)
    weight = decoder.first.weight.detach().view(5, 5, 8, 64).permute(3, 2, 0, 1)
    conv.weight.data, conv.bias.data = weight.clone(), torch.randn(8)
    decoder.first_bias.data = conv.bias.data
    x = torch.randn(3, 64)
    ours = (decoder.first(x).reshape(3, 5, 5, 8) + decoder.first_bias).permute(0, 3, 1, 2)
    torch.testing.assert_close(ours, conv(x[:, :, None, None]), atol=1e-5, rtol=1e-5)


def test_padded_rows_change_nothing() -> None:
    keys = {"image": IMAGE, "state": VECTOR}
    model = WorldModel(TINY, keys, 3)
    batch = inputs(keys)
    mask = batch.mask.clone()
    mask[1, 3:] = False
    other = inputs(keys)  # the same numbers, and quite others in the padded rows
    for part in (*other.obs.values(), other.action, other.reward, other.terminal):
        part[1, 3:] = 77
    found = []
    for rows in (batch, other):
        model.zero_grad()
        torch.manual_seed(1)
        loss, _, metrics = model.loss(rows._replace(mask=mask))
        loss.backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        found.append((metrics, gradients))
    (metrics, gradients), (others, other_gradients) = found
    for name, value in metrics.items():
        torch.testing.assert_close(others[name], value, msg=name)
    for name, value in gradients.items():
        torch.testing.assert_close(other_gradients[name], value, msg=name)


@pytest.mark.parametrize("stopped", ["image_gradients", "reward_gradients"])
def test_the_ablations_stop_gradients_at_the_states(stopped) -> None:
    silent = {"image_gradients": "reward_scale", "reward_gradients": "image_scale"}[stopped]
    changes = {stopped: False, silent: 0.0, "discount_scale": 0.0, "kl_scale": 0.0}
    model = WorldModel(TINY.override(changes), {"image": IMAGE}, 3)
    model.loss(inputs({"image": IMAGE}))[0].backward()
    assert all(p.grad is None or not p.grad.any() for p in model.rssm.cell.parameters())
    head = model.decoders["image"] if stopped == "image_gradients" else model.reward_head
    assert any(p.grad is not None and p.grad.any() for p in head.parameters())


def test_without_a_discount_head_the_discount_is_gamma() -> None:
    model = WorldModel(TINY.override({"discount_scale": 0.0, "discount": 0.9}), {"image": IMAGE}, 3)
    feat = torch.randn(2, 3, model.rssm.feat_size)
    assert model.discount(feat).unique().tolist() == pytest.approx([0.9])


def test_an_image_of_another_size_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match="84"):
        WorldModel(TINY, {"image": ArraySpec("box", (84, 84, 1), "uint8")}, 3)


def test_grids_of_symbols_are_learned_as_numbers() -> None:
    symbols = {"image": IMAGE, "grid": ArraySpec("box", (7, 7), "uint8")}
    assert WorldModel(TINY, symbols, 3).vector_size == 49


def test_misspelled_settings_get_the_right_name() -> None:
    with pytest.raises(ConfigError, match="kl_scale"):
        TINY.override({"kl_scal": 1.0})
    with pytest.raises(ConfigError, match="deter"):
        TINY.override({"rssm.detre": 1})
    with pytest.raises(ConfigError, match="greater than or equal"):
        TINY.override({"rssm.deter": 0})


def test_it_learns_a_batch_by_heart() -> None:
    torch.manual_seed(0)
    model = WorldModel(TINY, {"state": VECTOR}, 3)
    batch = inputs({"state": VECTOR}, B=4, T=6)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    found = []
    for _ in range(150):
        loss, _, metrics = model.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(metrics["loss/vector"].item())
    constant = 3 * 0.9189  # what no learning can take away
    assert found[0] - constant > 1.0
    assert found[-1] - constant < 0.25 * (found[0] - constant)
