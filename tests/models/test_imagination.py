"""Imagined steps: the fast way is the plain one, and what gradients reach."""

import pytest
import torch

import wmtk.models.imagination as imagination
from wmtk.models.actions import Actions, Categoricals, TruncatedNormal
from wmtk.models.actor_critic import ActorCritic, Objective
from wmtk.models.distributions import Categorical
from wmtk.models.imagination import Players, StartStates, Trajectory, imagine
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
DISCRETE = Categoricals([3])


def make_world(actions: Actions, **changes: object) -> WorldModel:
    torch.manual_seed(0)
    config = CONFIG.override(changes)
    return WorldModel(config, {"state": ArraySpec("box", (3,), "float32")}, actions.size)


def make_starts(world: WorldModel, N: int = 5) -> StartStates:
    torch.manual_seed(1)
    stats = torch.randn(N, world.rssm.latent.stats_size)
    deter = torch.randn(N, world.rssm.config.deter)
    state = State(deter, world.rssm.latent.sample(stats), stats)
    return StartStates(state, torch.tensor([0.99] * (N - 1) + [0.0]))


def make_players(world: WorldModel, actions: Actions) -> Players:
    torch.manual_seed(2)
    behavior = ActorCritic(world.rssm.feat_size, actions, 3, 8)
    for parameter in behavior.slow.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # not a copy, to be told apart
    return Players(actions, behavior.actor, behavior.critic, behavior.slow)


@pytest.mark.parametrize("discount_scale", [5.0, 0.0])
@pytest.mark.parametrize("actions", [DISCRETE, Categoricals([2, 3])], ids=["one", "two"])
def test_gathering_dreams_the_same_dream(monkeypatch, actions, discount_scale) -> None:
    world = make_world(actions, discount_scale=discount_scale)
    players, starts = make_players(world, actions), make_starts(world)
    found: list[tuple[Trajectory, list[torch.Tensor]]] = []
    for fast in (True, False):
        if not fast:
            monkeypatch.setattr(
                imagination,
                "_imagine_gathered",
                lambda w, _, p, s, h: imagination._imagine(w, p, s, h, through=False),
            )
        torch.manual_seed(3)
        dream = imagine(world, players, starts, 4, through=False)
        torch.manual_seed(4)
        loss = (dream.stats * torch.randn_like(dream.stats)).sum()
        loss = loss + (dream.value * torch.randn_like(dream.value)).sum()
        weights = [*players.actor.parameters(), *players.critic.parameters()]
        found.append((dream, list(torch.autograd.grad(loss, weights))))
    for name, ours, theirs in zip(Trajectory._fields, found[0][0], found[1][0], strict=True):
        torch.testing.assert_close(ours, theirs, msg=lambda m, name=name: f"{name}: {m}")
    for ours, theirs in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("through", [True, False])
@pytest.mark.parametrize("latent", ["categorical", "gaussian", "binary"])
def test_every_field_belongs_to_the_state_that_it_says(latent, through) -> None:
    world = make_world(DISCRETE, **{"rssm.latent": latent})
    players, starts = make_players(world, DISCRETE), make_starts(world)
    H, N = 4, 5
    dream = imagine(world, players, starts, H, through=through)
    assert dream.feat.shape == (H + 1, N, world.rssm.feat_size)
    assert dream.action.shape == dream.stats.shape == (H, N, 3)
    torch.testing.assert_close(dream.feat[0], starts.state.feat)
    torch.testing.assert_close(dream.stats, players.actor(dream.feat[:-1]))
    torch.testing.assert_close(dream.reward, world.reward(dream.feat[:-1]))
    torch.testing.assert_close(dream.discount[1:], world.discount(dream.feat[1:-1]))
    torch.testing.assert_close(dream.discount[0], starts.discount)
    torch.testing.assert_close(dream.value, players.critic(dream.feat[:-1]).squeeze(-1))
    torch.testing.assert_close(dream.following, players.slow(dream.feat[1:]).squeeze(-1))
    # Action t is what led from state t to state t+1.
    D = world.rssm.config.deter
    deter, stoch = dream.feat[..., :D], dream.feat[..., D:]
    moved = world.rssm.advance(deter[:-1], stoch[:-1], world.rssm.from_action(dream.action))
    torch.testing.assert_close(deter[1:], moved)


@pytest.mark.parametrize("actions", [DISCRETE, TruncatedNormal(2)], ids=["discrete", "numbers"])
def test_gradients_through_the_dynamics_reach_the_actor_and_nothing_else(actions) -> None:
    world = make_world(actions)
    players, starts = make_players(world, actions), make_starts(world)
    dream = imagine(world, players, starts, 4, through=True)
    for part in (dream.reward[1:], dream.discount[2:], dream.following):
        for parameter in players.actor.parameters():
            parameter.grad = None
        part.sum().backward(retain_graph=True)
        assert all(p.grad is not None and p.grad.any() for p in players.actor.parameters())
    assert all(p.grad is None for p in world.parameters())
    assert all(p.grad is None for p in players.slow.parameters())
    assert all(p.grad is None for p in players.critic.parameters())
    assert all(p.requires_grad for p in world.parameters())  # they can learn again afterwards
    # The critic learns about states; it does not move them.
    weights = list(players.actor.parameters())
    by_actor = torch.autograd.grad(dream.value.sum(), weights, allow_unused=True)
    assert by_actor == (None,) * len(weights)


def test_no_gradient_passes_through_what_the_actor_sees() -> None:
    """An action depends on the state before, but the actor is not to move states by looking."""
    actions = TruncatedNormal(2)
    world = make_world(actions)
    players, starts = make_players(world, actions), make_starts(world)
    dream = imagine(world, players, starts, 3, through=True)
    weights = list(players.actor.parameters())
    ours = torch.autograd.grad(dream.stats.square().sum(), weights)
    theirs = torch.autograd.grad(players.actor(dream.feat[:-1]).square().sum(), weights)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("latent", ["categorical", "gaussian"])
def test_with_reinforce_alone_nothing_is_recorded_through_the_dynamics(latent) -> None:
    world = make_world(DISCRETE, **{"rssm.latent": latent})
    players, starts = make_players(world, DISCRETE), make_starts(world)
    dream = imagine(world, players, starts, 4, through=False)
    recorded = {name for name, x in zip(Trajectory._fields, dream, strict=True) if x.requires_grad}
    assert recorded == {"stats", "value"}
    (dream.stats.sum() + dream.value.sum()).backward()
    assert all(p.grad is None for p in world.parameters())
    assert all(p.grad is None for p in players.slow.parameters())


def test_a_horizon_of_one_step() -> None:
    world = make_world(DISCRETE)
    behavior = ActorCritic(world.rssm.feat_size, DISCRETE, 2, 8)
    objective = Objective(horizon=1)
    dream = behavior.imagine(world, make_starts(world), objective)
    actor, critic, metrics = behavior.losses(dream, objective)
    assert torch.isfinite(actor)
    assert torch.isfinite(critic)
    assert all(torch.isfinite(value) for value in metrics.values())


# --- perceptrons of one-hot states ---


def test_a_gathered_perceptron_is_the_perceptron_with_its_gradient() -> None:
    torch.manual_seed(0)
    latent, mlp = Categorical(3, 4), MLP(5 + 12, 2, 3, 9)
    for parameter in mlp.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    stoch, deter = latent.sample(torch.randn(20, 12)), torch.randn(20, 5)
    feat, weights = torch.cat([deter, stoch], -1), torch.randn(20, 2)
    with torch.no_grad():
        gathered = GatheredMLP(mlp, 5)
        layer = GatheredLinear([gathered.of_stoch], [gathered.bias], latent.classes)
        (of_stoch,) = layer(one_hot_rows(latent, stoch))
        outputs = gathered.room(20)
        gathered(deter, of_stoch, outputs)
    ours = with_gradient(mlp, feat, outputs)
    torch.testing.assert_close(ours, mlp(feat))
    parameters = list(mlp.parameters())
    ours_by = torch.autograd.grad((ours * weights).sum(), parameters)
    theirs_by = torch.autograd.grad((mlp(feat) * weights).sum(), parameters)
    for a, b in zip(ours_by, theirs_by, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("keep", [True, False])
def test_states_are_judged_alike_in_pieces(keep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    latent, mlp = Categorical(3, 4), MLP(5 + 12, 2, 3, 9)
    stoch, deter = latent.sample(torch.randn(20, 12)), torch.randn(20, 5)
    rows = one_hot_rows(latent, stoch)
    monkeypatch.setattr(imagination, "_PIECE", 6)
    with torch.no_grad():
        *hidden, out = imagination._judge(mlp, latent, deter, rows, keep=keep)
        feat = torch.cat([deter, stoch], -1)
        torch.testing.assert_close(out, mlp(feat))
        first = torch.nn.functional.elu(mlp.hidden[0](feat))
        torch.testing.assert_close(
            hidden[0], first if keep else torch.cat([first[18:], first[14:18]])
        )


def test_rows_are_drawn_as_one_hot_samples_are() -> None:
    latent = Categorical(5, 7)
    stats = torch.randn(50, 35) * 3
    torch.manual_seed(0)
    sample = latent.sample(stats)
    torch.manual_seed(0)
    rows = draw_rows(latent, stats, first_rows(latent, stats.device))
    assert torch.equal(one_hot_rows(latent, sample), rows)
    assert torch.equal(torch.zeros(50, 35).scatter_(-1, rows, 1.0), sample)
