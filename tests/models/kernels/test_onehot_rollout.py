"""The rollout of one-hot states equals the plain one, gradients included."""

from __future__ import annotations

import pytest
import torch

from wmtk.models import kernels as switch
from wmtk.models.actor_critic import ActorCritic, ActorCriticConfig
from wmtk.models.distributions import ActionDistribution, Categorical
from wmtk.models.imagination import StartStates, Trajectory, imagine
from wmtk.models.kernels import onehot_rollout
from wmtk.models.kernels.onehot_mlp import (
    GatheredLinear,
    GatheredMLP,
    draw_rows,
    first_rows,
    one_hot_rows,
    with_gradient,
)
from wmtk.models.networks import MLP
from wmtk.models.rssm import State
from wmtk.models.world_model import WorldModel, WorldModelConfig
from wmtk.spaces import ArraySpec

CONFIG = WorldModelConfig.build(
    {"layers": 2, "units": 8, "rssm": {"deter": 6, "hidden": 7, "stoch": 3, "classes": 4}}
)
OBS = {"state": ArraySpec("box", (3,), "float32")}


def make_parts(
    actions: ActionDistribution, cls: type[WorldModel] = WorldModel, **changes: object
) -> tuple[WorldModel, ActorCritic, StartStates]:
    torch.manual_seed(0)
    model = cls(CONFIG.override(changes), OBS, actions.size)
    logits, deter = torch.randn(5, 12), torch.randn(5, 6)
    state = State(deter, model.rssm.latent.sample(logits), logits)
    settings = ActorCriticConfig(layers=3, units=8)
    actor_critic = ActorCritic(settings, model.rssm.feat_size, actions)
    for parameter in actor_critic.target_critic.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model, actor_critic, StartStates(state, torch.tensor([0.99] * 4 + [0.0]))


@pytest.mark.parametrize("discount_scale", [5.0, 0.0])
@pytest.mark.parametrize("actions", [Categorical([3]), Categorical([2, 3])], ids=["one", "two"])
def test_the_rollout_and_its_gradients_equal_the_plain_ones(actions, discount_scale) -> None:
    model, actor_critic, starts = make_parts(actions, discount_scale=discount_scale)
    assert onehot_rollout.applies(model, actor_critic)
    results: list[tuple[Trajectory, list[torch.Tensor]]] = []
    for kernels in ("fast", "plain"):
        with switch.using(kernels):
            torch.manual_seed(3)
            trajectory = imagine(model, actor_critic, starts, 4, backprop_dynamics=False)
            torch.manual_seed(4)
            loss = sum(
                (x * torch.randn(x.shape)).sum() for x in (trajectory.dist_params, trajectory.value)
            )
            weights = [*actor_critic.actor.parameters(), *actor_critic.critic.parameters()]
            results.append((trajectory, list(torch.autograd.grad(loss, weights))))
    for name, ours, theirs in zip(Trajectory._fields, results[0][0], results[1][0], strict=True):
        torch.testing.assert_close(ours, theirs, msg=lambda m, name=name: f"{name}: {m}")
    for ours, theirs in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(ours, theirs)


class DoubledReward(WorldModel):
    def reward(self, feat: torch.Tensor) -> torch.Tensor:
        return 2 * super().reward(feat)


class TanhHead(MLP):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(super().forward(x))


class HeadOfItsOwn(WorldModel):
    def make_reward_head(self, feat_size: int) -> TanhHead:
        return TanhHead(feat_size, 1, 1, 4)


@pytest.mark.parametrize("cls", [DoubledReward, HeadOfItsOwn])
def test_the_parts_of_a_subclass_are_computed_by_the_subclass(cls: type[WorldModel]) -> None:
    model, actor_critic, starts = make_parts(Categorical([3]), cls)
    trajectory = imagine(model, actor_critic, starts, 4, backprop_dynamics=False)
    torch.testing.assert_close(trajectory.reward, model.reward(trajectory.feat[:, :-1]))


# --- perceptrons of one-hot states ---


def test_a_gathered_perceptron_is_the_perceptron_with_its_gradient() -> None:
    torch.manual_seed(0)
    latent, mlp = Categorical([4] * 3), MLP(5 + 12, 2, 3, 9)
    for parameter in mlp.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    stoch, deter = latent.sample(torch.randn(20, 12)), torch.randn(20, 5)
    feat, weights = torch.cat([deter, stoch], -1), torch.randn(20, 2)
    with torch.no_grad():
        gathered = GatheredMLP(mlp, 5)
        layer = GatheredLinear([gathered.of_stoch], [gathered.bias], latent.classes[0])
        (of_stoch,) = layer(one_hot_rows(latent, stoch))
        outputs = gathered.buffers(20)
        gathered(deter, of_stoch, outputs)
    ours = with_gradient(mlp, feat, outputs)
    torch.testing.assert_close(ours, mlp(feat))
    parameters = list(mlp.parameters())
    ours_by = torch.autograd.grad((ours * weights).sum(), parameters)
    theirs_by = torch.autograd.grad((mlp(feat) * weights).sum(), parameters)
    for a, b in zip(ours_by, theirs_by, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("keep", [True, False])
def test_heads_are_evaluated_alike_in_chunks(keep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    latent, mlp = Categorical([4] * 3), MLP(5 + 12, 2, 3, 9)
    stoch, deter = latent.sample(torch.randn(20, 12)), torch.randn(20, 5)
    rows = one_hot_rows(latent, stoch)
    monkeypatch.setattr(onehot_rollout, "_CHUNK", 6)
    with torch.no_grad():
        *hidden, out = onehot_rollout.evaluate_head(mlp, latent, deter, rows, keep=keep)
        feat = torch.cat([deter, stoch], -1)
        torch.testing.assert_close(out, mlp(feat))
        first = torch.nn.functional.elu(mlp.hidden[0](feat))
        torch.testing.assert_close(
            hidden[0], first if keep else torch.cat([first[18:], first[14:18]])
        )


def test_rows_are_drawn_as_one_hot_samples_are() -> None:
    latent = Categorical([7] * 5)
    stats = torch.randn(50, 35) * 3
    torch.manual_seed(0)
    sample = latent.sample(stats)
    torch.manual_seed(0)
    rows = draw_rows(latent, stats, first_rows(latent, stats.device))
    assert torch.equal(one_hot_rows(latent, sample), rows)
    assert torch.equal(torch.zeros(50, 35).scatter_(-1, rows, 1.0), sample)
