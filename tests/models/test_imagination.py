"""Imagined steps: the alignment of their fields, and what gradients reach."""

import pytest
import torch

from wmtk.models.actor_critic import ActorCritic, ActorCriticConfig
from wmtk.models.distributions import ActionDistribution, Categorical, TruncatedNormal
from wmtk.models.imagination import StartStates, Trajectory, imagine
from wmtk.models.rssm import State
from wmtk.models.world_model import WorldModel, WorldModelConfig
from wmtk.spaces import ArraySpec

CONFIG = WorldModelConfig.build(
    {"layers": 2, "units": 8, "rssm": {"deter": 6, "hidden": 7, "stoch": 3, "classes": 4}}
)
DISCRETE = Categorical([3])


def make_world(actions: ActionDistribution, **changes: object) -> WorldModel:
    torch.manual_seed(0)
    config = CONFIG.override(changes)
    return WorldModel(config, {"state": ArraySpec("box", (3,), "float32")}, actions.size)


def make_starts(world: WorldModel, N: int = 5) -> StartStates:
    torch.manual_seed(1)
    stats = torch.randn(N, world.rssm.latent.params_size)
    deter = torch.randn(N, world.rssm.config.deter)
    state = State(deter, world.rssm.latent.sample(stats), stats)
    return StartStates(state, torch.tensor([0.99] * (N - 1) + [0.0]))


def make_actor_critic(world: WorldModel, actions: ActionDistribution) -> ActorCritic:
    torch.manual_seed(2)
    config = ActorCriticConfig(layers=3, units=8)
    actor_critic = ActorCritic(config, world.rssm.feat_size, actions)
    for parameter in actor_critic.target_critic.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # not a copy, to be told apart
    return actor_critic


@pytest.mark.parametrize("backprop_dynamics", [True, False])
@pytest.mark.parametrize("latent", ["categorical", "gaussian", "binary"])
def test_every_field_belongs_to_the_state_that_it_says(latent, backprop_dynamics) -> None:
    world = make_world(DISCRETE, **{"rssm.latent": latent})
    actor_critic, starts = make_actor_critic(world, DISCRETE), make_starts(world)
    H, N = 4, 5
    trajectory = imagine(world, actor_critic, starts, H, backprop_dynamics=backprop_dynamics)
    assert trajectory.feat.shape == (N, H + 1, world.rssm.feat_size)
    assert trajectory.action.shape == trajectory.dist_params.shape == (N, H, 3)
    torch.testing.assert_close(trajectory.feat[:, 0], starts.state.feat)
    torch.testing.assert_close(trajectory.dist_params, actor_critic.actor(trajectory.feat[:, :-1]))
    torch.testing.assert_close(trajectory.reward, world.reward(trajectory.feat[:, :-1]))
    torch.testing.assert_close(trajectory.discount[:, 1:], world.discount(trajectory.feat[:, 1:-1]))
    torch.testing.assert_close(trajectory.discount[:, 0], starts.discount)
    torch.testing.assert_close(
        trajectory.value, actor_critic.critic(trajectory.feat[:, :-1]).squeeze(-1)
    )
    torch.testing.assert_close(
        trajectory.next_value, actor_critic.target_critic(trajectory.feat[:, 1:]).squeeze(-1)
    )
    # Action t is what led from state t to state t+1.
    D = world.rssm.config.deter
    deter, stoch = trajectory.feat[..., :D], trajectory.feat[..., D:]
    moved = world.rssm.advance(
        deter[:, :-1], stoch[:, :-1], world.rssm.from_action(trajectory.action)
    )
    torch.testing.assert_close(deter[:, 1:], moved)


@pytest.mark.parametrize("actions", [DISCRETE, TruncatedNormal(2)], ids=["discrete", "numbers"])
def test_gradients_through_the_dynamics_reach_the_actor_and_nothing_else(actions) -> None:
    world = make_world(actions)
    actor_critic, starts = make_actor_critic(world, actions), make_starts(world)
    trajectory = imagine(world, actor_critic, starts, 4, backprop_dynamics=True)
    for part in (trajectory.reward[:, 1:], trajectory.discount[:, 2:], trajectory.next_value):
        for parameter in actor_critic.actor.parameters():
            parameter.grad = None
        part.sum().backward(retain_graph=True)
        assert all(p.grad is not None and p.grad.any() for p in actor_critic.actor.parameters())
    assert all(p.grad is None for p in world.parameters())
    assert all(p.grad is None for p in actor_critic.target_critic.parameters())
    assert all(p.grad is None for p in actor_critic.critic.parameters())
    assert all(p.requires_grad for p in world.parameters())  # they can learn again afterwards
    # The critic learns about states; it does not move them.
    weights = list(actor_critic.actor.parameters())
    by_actor = torch.autograd.grad(trajectory.value.sum(), weights, allow_unused=True)
    assert by_actor == (None,) * len(weights)


def test_no_gradient_passes_through_what_the_actor_sees() -> None:
    """An action depends on the state before, but the actor is not to move states by looking."""
    actions = TruncatedNormal(2)
    world = make_world(actions)
    actor_critic, starts = make_actor_critic(world, actions), make_starts(world)
    trajectory = imagine(world, actor_critic, starts, 3, backprop_dynamics=True)
    weights = list(actor_critic.actor.parameters())
    ours = torch.autograd.grad(trajectory.dist_params.square().sum(), weights)
    theirs = torch.autograd.grad(
        actor_critic.actor(trajectory.feat[:, :-1]).square().sum(), weights
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("latent", ["categorical", "gaussian"])
def test_with_reinforce_alone_nothing_is_recorded_through_the_dynamics(latent) -> None:
    world = make_world(DISCRETE, **{"rssm.latent": latent})
    actor_critic, starts = make_actor_critic(world, DISCRETE), make_starts(world)
    trajectory = imagine(world, actor_critic, starts, 4, backprop_dynamics=False)
    recorded = {
        name for name, x in zip(Trajectory._fields, trajectory, strict=True) if x.requires_grad
    }
    assert recorded == {"dist_params", "value"}
    (trajectory.dist_params.sum() + trajectory.value.sum()).backward()
    assert all(p.grad is None for p in world.parameters())
    assert all(p.grad is None for p in actor_critic.target_critic.parameters())


def test_a_horizon_of_one_step() -> None:
    world = make_world(DISCRETE)
    actor_critic = make_actor_critic(world, DISCRETE)
    trajectory = imagine(world, actor_critic, make_starts(world), 1, backprop_dynamics=False)
    actor, critic, metrics = actor_critic.losses(trajectory, 1)
    assert torch.isfinite(actor)
    assert torch.isfinite(critic)
    assert all(torch.isfinite(value) for value in metrics.values())
