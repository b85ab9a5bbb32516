"""What actor and critic learn: gradients against exact expectations, and that they find the way."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from wmtk.models.actor_critic import ActorCritic, ActorCriticConfig
from wmtk.models.distributions import Categorical, TruncatedNormal
from wmtk.models.imagination import StartStates, Trajectory, imagine
from wmtk.models.returns import lambda_targets, step_weights
from wmtk.models.rssm import State

# A world of four states and two actions that can be enumerated: NEXT[s][a], and per state a
# reward on arriving, a discount, and what the target critic thinks of it.
NEXT = torch.tensor([[1, 2], [3, 0], [3, 1], [2, 0]])
REWARD = torch.tensor([0.3, -1.0, 2.0, 0.7], dtype=torch.float64)
DISCOUNT = torch.tensor([0.9, 0.5, 0.8, 0.7], dtype=torch.float64)
GUESS = torch.tensor([4.0, -2.0, 1.0, 3.0], dtype=torch.float64)
START = 0


class Grid(nn.Module):
    """That world. Its state is the one-hot `deter`."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(nn.functional.one_hot(NEXT, 4).double())  # (4, 2, 4)

    @property
    def rssm(self) -> Grid:
        return self

    def imagine_step(self, state: State, action: Tensor) -> State:
        deter = torch.einsum("ns,na,sap->np", state.deter, action, self.table)
        return State(deter, state.stoch, state.dist_params)

    def reward(self, feat: Tensor) -> Tensor:
        return feat @ REWARD

    def discount(self, feat: Tensor) -> Tensor:
        return feat @ DISCOUNT


class Table(nn.Module):
    """A critic that knows a number for each state."""

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.values = values

    def forward(self, feat: Tensor) -> Tensor:
        return (feat @ self.values)[..., None]


class Forced(Categorical):
    """Actions that are not drawn but given, one sequence for each start."""

    def __init__(self, sequence: list[int]) -> None:
        super().__init__([2])
        self.left = [nn.functional.one_hot(torch.tensor([a]), 2).double() for a in sequence]

    def sample(self, stats: Tensor) -> Tensor:
        return self.left.pop(0)


def make_actor_critic(values: Tensor = GUESS) -> ActorCritic:
    torch.manual_seed(0)
    actor_critic = ActorCritic(ActorCriticConfig(layers=1, units=5), 4, Categorical([2])).double()
    actor_critic.target_critic = Table(values)
    return actor_critic


def start(n: int = 1) -> StartStates:
    deter = nn.functional.one_hot(torch.tensor([START] * n), 4).double()
    nothing = deter[:, :0]
    return StartStates(State(deter, nothing, nothing), DISCOUNT[START].expand(n))


def imagined(
    actor_critic: ActorCritic, world: nn.Module, starts: StartStates, config: ActorCriticConfig
) -> Trajectory:
    """A trajectory with other settings than the actor was made with; the losses use them too."""
    actor_critic.config = config
    backprop = actor_critic.rho(1) < 1
    return imagine(world, actor_critic, starts, config.horizon, backprop_dynamics=backprop)


def log_probs(actor_critic: ActorCritic) -> Tensor:
    """ln π(a|s) of all states: (4, 2)."""
    return torch.log_softmax(actor_critic.actor(torch.eye(4).double()), -1)


def expected_gradient(actor_critic: ActorCritic, config: ActorCriticConfig) -> list[Tensor]:
    """Of the actor's loss, exactly: every sequence of actions, by its probability."""
    logs = log_probs(actor_critic).detach()
    parameters = list(actor_critic.actor.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for sequence in itertools.product(range(2), repeat=config.horizon):
        state, log = START, 0.0
        for action in sequence:
            log, state = log + logs[state, action].item(), int(NEXT[state, action])
        actor_critic.actions = Forced(list(sequence))
        trajectory = imagined(actor_critic, Grid(), start(), config)
        loss, _, _ = actor_critic.losses(trajectory, 1)
        for sum_, grad in zip(total, torch.autograd.grad(loss, parameters), strict=True):
            sum_ += math.exp(log) * grad
    return total


def exact_objective(actor_critic: ActorCritic, horizon: int, entropy: float = 0.0) -> Tensor:
    """E[Σ_t w_t·(r_t + η·H_t) + w_H·v_H] over all sequences, differentiable in the actor."""
    logs = log_probs(actor_critic)
    bonus = -entropy * (logs.exp() * logs).sum(-1)  # (4,)

    def value(state: int, steps: int) -> Tensor:
        if steps == 0:
            return GUESS[state]
        next_value = torch.stack([value(int(s), steps - 1) for s in NEXT[state]])
        return REWARD[state] + bonus[state] + DISCOUNT[state] * logs[state].exp() @ next_value

    return value(START, horizon)


def assert_ascends(
    actor_critic: ActorCritic, gradient: list[Tensor], objective: Tensor, H: int
) -> None:
    """The loss is the mean over H steps of minus what the objective sums up."""
    wanted = torch.autograd.grad(objective, list(actor_critic.actor.parameters()))
    assert any(grad.abs().max() > 1e-3 for grad in wanted)
    for found, exact in zip(gradient, wanted, strict=True):
        torch.testing.assert_close(-H * found, exact)


def test_reinforce_is_the_gradient_of_the_expected_return() -> None:
    actor_critic = make_actor_critic()
    config = ActorCriticConfig(horizon=4, lambda_=1.0, reinforce_mix=1.0, entropy=0.0)
    found = expected_gradient(actor_critic, config)
    assert_ascends(actor_critic, found, exact_objective(actor_critic, 4), 4)


def test_the_baseline_changes_no_expectation() -> None:
    config = ActorCriticConfig(horizon=3, reinforce_mix=1.0, entropy=0.0)
    actor_critic, other = make_actor_critic(), make_actor_critic()
    other.critic = Table(torch.tensor([100.0, -50.0, 7.0, 3.0], dtype=torch.float64))
    one, two = expected_gradient(actor_critic, config), expected_gradient(other, config)
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("lambda_", [0.0, 0.6])
def test_with_true_values_every_lambda_has_the_same_gradient(lambda_, monkeypatch) -> None:
    actor_critic = make_actor_critic()
    with torch.no_grad():
        policy = torch.einsum(
            "sa,sap->sp", log_probs(actor_critic).exp(), nn.functional.one_hot(NEXT, 4).double()
        )
        true = torch.linalg.solve(torch.eye(4).double() - DISCOUNT[:, None] * policy, REWARD)
    monkeypatch.setattr(f"{__name__}.GUESS", true)
    actor_critic.target_critic = Table(true)
    config = ActorCriticConfig(horizon=3, lambda_=lambda_, reinforce_mix=1.0, entropy=0.0)
    found = expected_gradient(actor_critic, config)
    assert_ascends(actor_critic, found, exact_objective(actor_critic, 3), 3)


def test_long_term_entropy_is_part_of_the_return() -> None:
    actor_critic = make_actor_critic()
    config = ActorCriticConfig(
        horizon=3, lambda_=1.0, reinforce_mix=1.0, entropy=0.7, long_term_entropy=True
    )
    found = expected_gradient(actor_critic, config)
    assert_ascends(actor_critic, found, exact_objective(actor_critic, 3, 0.7), 3)


def test_long_term_entropy_blames_the_way_there_through_the_dynamics_too() -> None:
    """Of three steps, by hand: the second and third state's entropies, reached by actions."""
    actor_critic = make_actor_critic()
    config = ActorCriticConfig(
        horizon=3, lambda_=1.0, reinforce_mix=0.0, entropy=0.7, long_term_entropy=True
    )
    torch.manual_seed(0)
    trajectory = imagined(actor_critic, Grid(), start(6), config)
    loss, _, _ = actor_critic.losses(trajectory, 1)
    fixed = {name: weight.detach() for name, weight in actor_critic.actor.named_parameters()}
    logs = torch.log_softmax(functional_call(actor_critic.actor, fixed, trajectory.grad_feat), -1)
    reward = trajectory.reward - 0.7 * (logs.exp() * logs).sum(-1)
    discount = trajectory.discount
    V2 = reward[:, 2] + discount[:, 2] * trajectory.next_value[:, 2]
    V1 = reward[:, 1] + discount[:, 1] * V2
    V0 = reward[:, 0] + discount[:, 0] * V1
    weight = step_weights(trajectory.discount.detach())
    logs = torch.log_softmax(trajectory.dist_params, -1)
    own = -0.7 * (logs.exp() * logs).sum(-1)
    by_hand = -(weight * (torch.stack([V0, V1, V2], 1) + own)).mean()
    torch.testing.assert_close(loss, by_hand)
    parameters = list(actor_critic.actor.parameters())
    ours = torch.autograd.grad(loss, parameters, retain_graph=True)
    theirs = torch.autograd.grad(by_hand, parameters)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    assert all(parameter.requires_grad for parameter in parameters)


def test_short_term_entropy_is_that_of_the_states_as_they_come() -> None:
    actor_critic = make_actor_critic()
    plain = ActorCriticConfig(horizon=3, lambda_=1.0, reinforce_mix=1.0, entropy=0.0)
    without = expected_gradient(actor_critic, plain)
    config = ActorCriticConfig(horizon=3, lambda_=1.0, reinforce_mix=1.0, entropy=0.7)
    found = expected_gradient(actor_critic, config)
    logs = log_probs(actor_critic)
    entropies = -(logs.exp() * logs).sum(-1)
    chance, reached = logs.exp().detach(), torch.zeros(4).double()
    at = nn.functional.one_hot(torch.tensor(START), 4).double()
    for _ in range(3):  # how often each state is come to, discounted
        reached += at
        at = torch.einsum("s,s,sa,sap->p", at, DISCOUNT, chance, Grid().table.detach())
    bonus = torch.autograd.grad(0.7 * reached @ entropies, list(actor_critic.actor.parameters()))
    for f, w, b in zip(found, without, bonus, strict=True):
        torch.testing.assert_close(f, w - b / 3)


def test_sampled_gradients_average_to_the_exact_one() -> None:
    actor_critic = make_actor_critic()
    config = ActorCriticConfig(horizon=3, lambda_=1.0, reinforce_mix=1.0, entropy=0.0)
    exact = torch.cat([g.ravel() for g in expected_gradient(actor_critic, config)])
    actor_critic.actions = Categorical([2])
    torch.manual_seed(1)
    trajectory = imagined(actor_critic, Grid(), start(40_000), config)
    loss, _, _ = actor_critic.losses(trajectory, 1)
    parts = torch.autograd.grad(loss, list(actor_critic.actor.parameters()))
    found = torch.cat([g.ravel() for g in parts])
    assert (found - exact).norm() < 0.03 * exact.norm()


@pytest.mark.parametrize("rho", [0.0, 0.3])
def test_backpropagation_and_the_mix(rho) -> None:
    """ρ·Reinforce + (1−ρ)·dynamics, each worked out apart from the same trajectory."""
    torch.manual_seed(0)
    actor_critic = make_actor_critic()
    config = ActorCriticConfig(horizon=3, reinforce_mix=rho, entropy=0.1)
    trajectory = imagined(actor_critic, Grid(), start(6), config)
    loss, _, _ = actor_critic.losses(trajectory, 1)
    r, d, v = (x.unbind(1) for x in (trajectory.reward, trajectory.discount, trajectory.next_value))
    V2 = r[2] + d[2] * v[2]
    V1 = r[1] + d[1] * (0.05 * v[1] + 0.95 * V2)
    V0 = r[0] + d[0] * (0.05 * v[0] + 0.95 * V1)
    target = torch.stack([V0, V1, V2], 1)
    weight = torch.stack([torch.ones(6), d[0], d[0] * d[1]], 1)
    logs = torch.log_softmax(trajectory.dist_params, -1)
    log_prob = (logs * trajectory.action.detach()).sum(-1)
    reinforce = log_prob * (target - trajectory.value).detach()
    entropy = -(logs.exp() * logs).sum(-1)
    by_hand = -(weight.detach() * (rho * reinforce + (1 - rho) * target + 0.1 * entropy)).mean()
    parameters = list(actor_critic.actor.parameters())
    ours = torch.autograd.grad(loss, parameters, retain_graph=True)
    theirs = torch.autograd.grad(by_hand, parameters)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
        assert b.abs().sum() > 0


def test_the_critic_learns_the_weighted_targets() -> None:
    actor_critic = make_actor_critic()
    config = ActorCriticConfig(horizon=3)
    trajectory = imagined(actor_critic, Grid(), start(6), config)
    _, loss, metrics = actor_critic.losses(trajectory, 1)
    weight = step_weights(trajectory.discount)
    V = torch.tensor(0.0)
    total = torch.tensor(0.0)
    for t in reversed(range(3)):
        next_value = trajectory.next_value[:, t]
        next_value = next_value if t == 2 else 0.05 * next_value + 0.95 * V
        V = trajectory.reward[:, t] + trajectory.discount[:, t] * next_value
        total = total + (weight[:, t] * (trajectory.value[:, t] - V) ** 2 / 2).sum()
    torch.testing.assert_close(loss, total / 18)
    assert metrics["loss/critic"].item() == pytest.approx(loss.item())
    parameters = list(actor_critic.actor.parameters())
    assert torch.autograd.grad(loss, parameters, allow_unused=True) == (None,) * len(parameters)


def test_the_target_critic_is_a_frozen_copy() -> None:
    actor_critic = ActorCritic(ActorCriticConfig(layers=2, units=5), 4, Categorical([2]))
    feat = torch.randn(7, 4)
    torch.testing.assert_close(actor_critic.target_critic(feat), actor_critic.critic(feat))
    nn.init.normal_(actor_critic.critic.out.weight)
    assert not torch.allclose(actor_critic.target_critic(feat), actor_critic.critic(feat))
    actor_critic.update_target()
    torch.testing.assert_close(actor_critic.target_critic(feat), actor_critic.critic(feat))
    assert not any(p.requires_grad for p in actor_critic.target_critic.parameters())


def test_at_paper_size_actor_and_critic_have_1_1_million_parameters_each() -> None:
    actor_critic = ActorCritic(ActorCriticConfig(), 600 + 1024, Categorical([18]))
    for network in (actor_critic.actor, actor_critic.critic):
        assert sum(p.numel() for p in network.parameters()) == pytest.approx(1.13e6, rel=0.01)


# --- finding the way ---


class Line(nn.Module):
    """A number that actions move; being at `target` is worth most. For either gradient."""

    target = 0.2

    def __init__(self, *, discrete: bool) -> None:
        super().__init__()
        moves = [[-0.2], [0.0], [0.2]] if discrete else [[0.2]]
        self.moves = nn.Parameter(torch.tensor(moves))

    @property
    def rssm(self) -> Line:
        return self

    def imagine_step(self, state: State, action: Tensor) -> State:
        return State(state.deter + action @ self.moves, state.stoch, state.dist_params)

    def reward(self, feat: Tensor) -> Tensor:
        return -(feat[..., 0] - self.target).square()

    def discount(self, feat: Tensor) -> Tensor:
        return torch.full_like(feat[..., 0], 0.9)


@pytest.mark.parametrize(
    ("discrete", "rho"),
    [(True, 1.0), (True, 0.9), (False, 0.0), (False, 1.0)],
    ids=["choices-reinforce", "choices-mixed", "numbers-dynamics", "numbers-reinforce"],
)
def test_the_actor_finds_the_way(discrete, rho) -> None:
    torch.manual_seed(0)
    world = Line(discrete=discrete)
    config = ActorCriticConfig(layers=2, units=24, horizon=5, reinforce_mix=rho, entropy=1e-3)
    actor_critic = ActorCritic(config, 1, Categorical([3]) if discrete else TruncatedNormal(1))
    learners = [
        torch.optim.Adam(network.parameters(), lr=1e-2)
        for network in (actor_critic.actor, actor_critic.critic)
    ]
    for update in range(150):
        if update % 10 == 0:
            actor_critic.update_target()
        deter = torch.rand(128, 1) * 2 - 0.8
        starts = StartStates(State(deter, deter[:, :0], deter[:, :0]), torch.full((128,), 0.9))
        trajectory = imagined(actor_critic, world, starts, config)
        for learner, loss in zip(learners, actor_critic.losses(trajectory, 1)[:2], strict=True):
            learner.zero_grad()
            loss.backward()
            learner.step()
    assert world.moves.grad is None
    places = torch.cat([torch.linspace(-0.8, -0.1, 8), torch.linspace(0.5, 1.2, 8)])[:, None]
    with torch.no_grad():
        moved = actor_critic.act(places, sample=False) @ world.moves
    assert torch.equal(torch.sign(moved), torch.sign(world.target - places))


def test_losses_accept_other_rewards() -> None:
    """As a penalty for what the model does not know needs it."""
    actor_critic = make_actor_critic()
    config = ActorCriticConfig(horizon=3)
    torch.manual_seed(0)
    trajectory = imagined(actor_critic, Grid(), start(6), config)
    penalty = torch.rand_like(trajectory.reward)  # (N, H)
    *losses, before = actor_critic.losses(trajectory, 1)
    *others, after = actor_critic.losses(trajectory, 1, trajectory.reward - penalty)
    # What is learned is what a trajectory with these rewards of its own would teach …
    wanted = actor_critic.losses(trajectory._replace(reward=trajectory.reward - penalty), 1)
    for loss, other, exact in zip(losses, others, wanted[:2], strict=True):
        torch.testing.assert_close(other, exact)
        assert not torch.isclose(other, loss)
    fall = lambda_targets(penalty, trajectory.discount, torch.zeros_like(penalty), config.lambda_)
    torch.testing.assert_close(after["critic/target"], before["critic/target"] - fall.mean())
    assert after["critic/target"] < before["critic/target"]
    # … and what is reported of the trajectory is what the model has said.
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"loss/actor", "loss/critic", "actor/advantage", "critic/target"}
