"""Disagreement: by hand on small numbers, whom it teaches, and that it tells known from not."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from wmtk.models.actor_critic import ActorCritic, ActorCriticConfig
from wmtk.models.distributions import (
    ActionDistribution,
    Binary,
    Categorical,
    Gaussian,
    Latent,
    TruncatedNormal,
)
from wmtk.models.ensemble import (
    Ensemble,
    Transitions,
    disagreement,
    transitions,
)
from wmtk.models.imagination import StartStates, Trajectory, imagine
from wmtk.models.networks import MLP
from wmtk.models.returns import lambda_targets
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel, WorldModelConfig
from wmtk.spaces import ArraySpec
from wmtk.training.ensemble_trainer import novelty, penalized

LATENTS = {"categorical": Categorical([4] * 2), "gaussian": Gaussian(3), "binary": Binary(4)}


def logs(*probabilities: float) -> list[float]:
    return [math.log(p) for p in probabilities]


# --- the number itself ---


def test_of_classes_the_variances_are_summed_up_and_averaged_over_variables() -> None:
    # Two members, one step, two variables of two classes. Of the first, they expect class 0 with
    # 0.9 and 0.5: mean 0.7, variance 0.04 for either class. On the second they agree.
    stats = torch.tensor(
        [[[*logs(0.9, 0.1), *logs(0.3, 0.7)]], [[*logs(0.5, 0.5), *logs(0.3, 0.7)]]]
    )
    found = disagreement(Categorical([2] * 2), stats)
    assert found.tolist() == pytest.approx([(0.04 + 0.04) / 2])


def test_of_binary_and_gaussian_states() -> None:
    # On with 0.9 and 0.5: variance 0.04; the other variable alike.
    stats = torch.tensor([[[math.log(9), 2.0]], [[0.0, 2.0]]])
    assert disagreement(Binary(2), stats).tolist() == pytest.approx([0.04 / 2])
    # Means (1, 3, 8) have the variance 26/3 and (0, 0, 0) none; spreads do not count.
    stats = torch.tensor([[[1.0, 0, 5, 5]], [[3.0, 0, 1, 1]], [[8.0, 0, -9, 0]]])
    assert disagreement(Gaussian(2), stats).tolist() == pytest.approx([26 / 3 / 2])


@pytest.mark.parametrize("classes", [3, 32])
def test_the_most_that_members_can_disagree_on_classes(classes) -> None:
    certain = 50 * torch.eye(classes)[:3, None]  # three members, each certain of another class
    assert disagreement(Categorical([classes]), certain).item() == pytest.approx(1 - 1 / 3)
    same = certain[:1].expand(3, -1, -1)
    assert disagreement(Categorical([classes]), same).item() == pytest.approx(0)


# --- members ---


@pytest.mark.parametrize("latent", LATENTS.values(), ids=LATENTS)
def test_members_are_perceptrons_of_their_own(latent) -> None:
    torch.manual_seed(0)
    ensemble = Ensemble(latent, 5 + 2, members=3, layers=2, units=6)
    feat, action = torch.randn(4, 5), torch.randn(4, 2)
    stats = ensemble(feat, action)
    assert stats.shape == (3, 4, latent.params_size)
    for member in range(3):
        alone = MLP(7, latent.params_size, 2, 6)
        layers = [*alone.hidden, alone.out]
        with torch.no_grad():
            for layer, weight, bias in zip(layers, ensemble.weights, ensemble.biases, strict=True):
                layer.weight.copy_(weight[member].t())
                layer.bias.copy_(bias[member, 0])
        torch.testing.assert_close(stats[member], alone(torch.cat([feat, action], -1)))
    bound = math.sqrt(6 / (7 + 6))
    assert 0.9 * bound < ensemble.weights[0].abs().max() <= bound


@pytest.mark.parametrize("latent", LATENTS.values(), ids=LATENTS)
def test_each_member_learns_the_divergence_from_what_came(latent) -> None:
    torch.manual_seed(0)
    ensemble = Ensemble(latent, 5 + 2, members=3, layers=1, units=6)
    seen = Transitions(torch.randn(8, 5), torch.randn(8, 2), torch.randn(8, latent.params_size))
    loss, metrics = ensemble.loss(seen)
    stats = ensemble(seen.feat, seen.action)
    alone = [latent.kl(seen.dist_params, stats[member]).mean() for member in range(3)]
    assert loss.item() == pytest.approx(sum(alone).item(), rel=1e-5)
    assert metrics["loss/ensemble"].item() == pytest.approx(loss.item() / 3, rel=1e-5)
    mean = disagreement(latent, stats).mean().item()
    assert metrics["disagreement/data"].item() == pytest.approx(mean)


def test_steps_lead_neither_into_padding_nor_from_one_episode_to_the_next() -> None:
    B, T = 2, 4
    numbers = torch.arange(B * T, dtype=torch.float32).reshape(B, T, 1)
    first = torch.tensor([[True, False, False, True], [False, False, False, False]])
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    nothing = torch.zeros(B, T)
    inputs = Inputs({}, 10 * numbers, nothing, nothing.bool(), first, mask)
    post = State(numbers.clone().requires_grad_(), 100 + numbers, 1000 + numbers)
    found = transitions(post, inputs)
    # 0 → 1 → 2 is an episode, 3 begins another, 4 → 5 goes on with one that began before.
    assert found.feat.tolist() == [[0, 100], [1, 101], [4, 104]]
    assert found.action.ravel().tolist() == [10, 20, 50]  # an action stands in the row it led to
    assert found.dist_params.ravel().tolist() == [1001, 1002, 1005]
    assert not found.feat.requires_grad


# --- whose fault it is ---


def a_trajectory(reward: Tensor, discount: Tensor) -> Trajectory:
    nothing = dict.fromkeys(Trajectory._fields, torch.zeros_like(reward))
    return Trajectory(**nothing | {"reward": reward, "discount": discount})


def test_a_step_is_charged_to_the_action_that_takes_it() -> None:
    """Three steps: rewards 1, 2, 3, discounts 0.9, 0.5 and 0, disagreement 0.1, 0.2, 0.4."""
    trajectory = a_trajectory(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.9, 0.5, 0.0]]))
    uncertainty = torch.tensor([[0.1, 0.2, 0.4]])
    reward = penalized(trajectory, uncertainty, 10.0)
    assert reward.ravel().tolist() == pytest.approx([1 - 0.9, 2 - 0.5 * 2, 3.0])
    next_value = torch.tensor([[7.0, 5.0, 100.0]])
    targets = lambda_targets(reward, trajectory.discount, next_value, 0.5).ravel().tolist()
    V2 = 3.0  # nothing comes after an end, whatever members would say of it
    V1 = (2 - 1.0) + 0.5 * (0.5 * 5 + 0.5 * V2)
    V0 = (1 - 0.9) + 0.9 * (0.5 * 7 + 0.5 * V1)
    assert targets == pytest.approx([V0, V1, V2])
    assert novelty(trajectory, uncertainty).ravel().tolist() == pytest.approx([0.09, 0.1, 0.0])


# A world of three states and two actions: NEXT[s][a], and what the members think of each step.
NEXT = torch.tensor([[1, 2], [2, 0], [0, 1]])
REWARD = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
DISCOUNT = torch.tensor([0.9, 0.5, 0.8], dtype=torch.float64)
UNCERTAINTY = torch.tensor([[0.0, 0.7], [0.2, 0.1], [0.9, 0.3]], dtype=torch.float64)
GUESS = torch.tensor([4.0, -2.0, 1.0], dtype=torch.float64)


class Known(nn.Module):
    """That world. Its state is the one-hot `deter`."""

    @property
    def rssm(self) -> Known:
        return self

    def imagine_step(self, state: State, action: Tensor) -> State:
        table = nn.functional.one_hot(NEXT, 3).double()
        deter = torch.einsum("ns,na,sap->np", state.deter, action, table)
        return State(deter, state.stoch, state.dist_params)

    def reward(self, feat: Tensor) -> Tensor:
        return feat @ REWARD

    def discount(self, feat: Tensor) -> Tensor:
        return feat @ DISCOUNT


class Forced(Categorical):
    """Actions that are not drawn but given."""

    def __init__(self, sequence: tuple[int, ...]) -> None:
        super().__init__([2])
        self.left = [nn.functional.one_hot(torch.tensor([a]), 2).double() for a in sequence]

    def sample(self, stats: Tensor) -> Tensor:
        return self.left.pop(0)


class Guess(nn.Module):
    def forward(self, feat: Tensor) -> Tensor:
        return (feat @ GUESS)[..., None]


@pytest.mark.parametrize("penalty", [0.0, 3.0])
def test_the_gradient_is_that_of_the_return_less_what_its_steps_cost(penalty) -> None:
    """By every sequence of actions, and by the exact value, which blames a step for its own u."""
    torch.manual_seed(0)
    H = 4
    config = ActorCriticConfig(layers=1, units=5, horizon=H, lambda_=1.0, entropy=0.0)
    actor_critic = ActorCritic(config, 3, Categorical([2])).double()
    actor_critic.target_critic = Guess()
    weights = list(actor_critic.actor.parameters())
    logs = torch.log_softmax(actor_critic.actor(torch.eye(3).double()), -1)  # (3, 2)
    found = [torch.zeros_like(w) for w in weights]
    for sequence in itertools.product(range(2), repeat=H):
        state, log = 0, 0.0
        for action in sequence:
            log, state = log + logs[state, action].item(), int(NEXT[state, action])
        actor_critic.actions = Forced(sequence)
        at = torch.eye(3).double()[:1]
        starts = StartStates(State(at, at[:, :0], at[:, :0]), DISCOUNT[:1])
        trajectory = imagine(Known(), actor_critic, starts, H, backprop_dynamics=False)
        uncertainty = torch.einsum(
            "nhs,nha,sa->nh", trajectory.grad_feat, trajectory.action, UNCERTAINTY
        )
        loss, _, _ = actor_critic.losses(trajectory, 1, penalized(trajectory, uncertainty, penalty))
        for sum_, grad in zip(found, torch.autograd.grad(loss, weights), strict=True):
            sum_ -= H * math.exp(log) * grad

    def worth(state: int, steps: int) -> Tensor:
        if steps == 0:
            return GUESS[state]
        after = torch.stack([worth(int(s), steps - 1) for s in NEXT[state]])
        return REWARD[state] + DISCOUNT[state] * (
            logs[state].exp() @ (after - penalty * UNCERTAINTY[state])
        )

    exact = torch.autograd.grad(worth(0, H), weights)
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours, theirs)
        assert theirs.abs().sum() > 0


# --- in imagination ---


def make_world(
    latent: str, actions: ActionDistribution
) -> tuple[WorldModel, ActorCritic, StartStates, Ensemble]:
    torch.manual_seed(0)
    sizes = {"deter": 6, "hidden": 7, "stoch": 3, "classes": 4, "latent": latent}
    config = WorldModelConfig.build({"layers": 2, "units": 8, "rssm": sizes})
    world = WorldModel(config, {"state": ArraySpec("box", (3,), "float32")}, actions.size)
    F, latents = world.rssm.feat_size, world.rssm.latent
    stats = torch.randn(5, latents.params_size)
    starts = StartStates(
        State(torch.randn(5, 6), latents.sample(stats), stats), torch.full((5,), 0.99)
    )
    ensemble = Ensemble(latents, F + actions.size, members=3, layers=1, units=8)
    return world, ActorCritic(ActorCriticConfig(layers=2, units=8), F, actions), starts, ensemble


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("rho", [1.0, 0.0])
def test_imagined_steps_are_judged_with_the_action_chosen_there(latent, rho) -> None:
    world, actor_critic, starts, ensemble = make_world(latent, Categorical([3]))
    trajectory = imagine(world, actor_critic, starts, 4, backprop_dynamics=rho < 1)
    uncertainty = ensemble.uncertainty(trajectory)
    assert uncertainty.shape == (5, 4)
    for t in range(4):
        stats = ensemble(trajectory.feat[:, t], trajectory.action[:, t])
        torch.testing.assert_close(uncertainty[:, t], disagreement(world.rssm.latent, stats))
    assert uncertainty.requires_grad == (rho < 1)


@pytest.mark.parametrize("actions", [Categorical([3]), TruncatedNormal(2)], ids=["one", "numbers"])
def test_with_backpropagation_it_moves_actions_and_not_the_members(actions) -> None:
    world, actor_critic, starts, ensemble = make_world("categorical", actions)
    chosen: list[Tensor] = []  # one by one: in a trajectory they are a copy, which leads nowhere
    draw = actor_critic.actions.sample
    actor_critic.actions.sample = lambda stats: chosen.append(draw(stats)) or chosen[-1]
    trajectory = imagine(world, actor_critic, starts, 3, backprop_dynamics=True)
    uncertainty = ensemble.uncertainty(trajectory)
    grads = torch.autograd.grad(
        uncertainty[:, 1].sum(), chosen, retain_graph=True, allow_unused=True
    )
    moved = [grad is not None and bool(grad.any()) for grad in grads]
    assert moved == [True, True, False]  # what led there, the step itself, what was done later
    penalized(trajectory, uncertainty, 2.0).sum().backward()
    assert all(w.grad is not None and w.grad.any() for w in actor_critic.actor.parameters())
    assert all(w.grad is None for w in [*ensemble.parameters(), *world.parameters()])
    assert all(w.requires_grad for w in ensemble.parameters())  # they learn on


# --- known and unknown ---


def steps_of(latent: Latent, n: int, actions: list[int], reach: float = 1.0) -> Transitions:
    """Steps of a made-up world: states in a box, and three actions of which some are taken."""
    table = torch.randn(4 + 3, latent.params_size, generator=torch.Generator().manual_seed(0))
    feat = reach * (2 * torch.rand(n, 4) - 1)
    chosen = torch.tensor(actions)[torch.randint(len(actions), (n,))]
    action = nn.functional.one_hot(chosen, 3).float()
    return Transitions(feat, action, 3 * torch.tanh(3 * torch.cat([feat, action], -1) @ table))


def taught(latent: Latent, updates: int = 200) -> Ensemble:
    """An ensemble that has seen actions 0 and 1."""
    torch.manual_seed(0)
    ensemble = Ensemble(latent, 4 + 3, members=5, layers=2, units=32)
    adam = torch.optim.Adam(ensemble.parameters(), lr=3e-3)
    for _ in range(updates):
        loss, _ = ensemble.loss(steps_of(latent, 64, [0, 1]))
        adam.zero_grad()
        loss.backward()
        adam.step()
    return ensemble


@torch.no_grad()
def uncertainty_of(ensemble: Ensemble, seen: Transitions) -> float:
    return disagreement(ensemble.latent, ensemble(seen.feat, seen.action)).mean().item()


@pytest.mark.parametrize("latent", LATENTS.values(), ids=LATENTS)
def test_it_falls_where_there_is_data_and_is_higher_elsewhere(latent) -> None:
    before = uncertainty_of(taught(latent, updates=0), steps_of(latent, 500, [0, 1]))
    ensemble = taught(latent)
    known = uncertainty_of(ensemble, steps_of(latent, 500, [0, 1]))
    assert known < 0.5 * before
    assert uncertainty_of(ensemble, steps_of(latent, 500, [2])) > 4 * known  # never taken
    assert (
        uncertainty_of(ensemble, steps_of(latent, 500, [0, 1], reach=4.0)) > 4 * known
    )  # far away


class Promising(nn.Module):
    """A world that makes promises about action 2, of which there was no data: nothing but rewards.

    The state has four numbers, of which the last tells whether action 2 was just taken.
    """

    @property
    def rssm(self) -> Promising:
        return self

    def imagine_step(self, state: State, action: Tensor) -> State:
        place = torch.cat([2 * torch.rand(len(action), 3) - 1, action[:, 2:]], -1)
        return State(place, state.stoch, state.dist_params)

    def reward(self, feat: Tensor) -> Tensor:
        return 0.1 * (feat[..., 3] == 1).float()

    def discount(self, feat: Tensor) -> Tensor:
        return torch.full_like(feat[..., 0], 0.9)


@pytest.mark.parametrize(("penalty", "rho"), [(0.0, 1.0), (20.0, 1.0)], ids=["without", "with"])
def test_a_penalty_keeps_actors_from_what_was_never_tried(penalty, rho) -> None:
    ensemble = taught(LATENTS["categorical"])
    torch.manual_seed(1)
    config = ActorCriticConfig(layers=1, units=16, reinforce_mix=rho, entropy=1e-3)
    actor_critic = ActorCritic(config, 4, Categorical([3]))
    learners = [
        torch.optim.Adam(network.parameters(), lr=1e-2)
        for network in (actor_critic.actor, actor_critic.critic)
    ]
    for update in range(60):
        if update % 10 == 0:
            actor_critic.update_target()
        deter = 2 * torch.rand(64, 4) - 1
        starts = StartStates(State(deter, deter[:, :0], deter[:, :0]), torch.full((64,), 0.9))
        trajectory = imagine(Promising(), actor_critic, starts, 3, backprop_dynamics=rho < 1)
        reward = penalized(trajectory, ensemble.uncertainty(trajectory), penalty)
        for learner, loss in zip(
            learners, actor_critic.losses(trajectory, 1, reward)[:2], strict=True
        ):
            learner.zero_grad()
            loss.backward()
            learner.step()
    share = trajectory.action[..., 2].mean().item()
    assert share < 0.05 if penalty else share > 0.9
