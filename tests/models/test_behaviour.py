"""What actor and critic learn: gradients against exact expectations, and that they find the way."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from wmtk.models.actions import Categoricals, TruncatedNormal
from wmtk.models.actor_critic import ActorCritic, Objective
from wmtk.models.imagination import StartStates
from wmtk.models.returns import lambda_targets, step_weights
from wmtk.models.rssm import State

# A world of four states and two actions that can be enumerated: NEXT[s][a], and per state a
# reward on arriving, a discount, and what the slow critic thinks of it.
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
        return State(deter, state.stoch, state.stats)

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


class Forced(Categoricals):
    """Actions that are not drawn but given, one sequence for each start."""

    def __init__(self, sequence: list[int]) -> None:
        super().__init__([2])
        self.left = [nn.functional.one_hot(torch.tensor([a]), 2).double() for a in sequence]

    def sample(self, stats: Tensor) -> Tensor:
        return self.left.pop(0)


def make_behavior(values: Tensor = GUESS) -> ActorCritic:
    torch.manual_seed(0)
    behavior = ActorCritic(4, Categoricals([2]), 1, 5).double()
    behavior.slow = Table(values)
    return behavior


def start(n: int = 1) -> StartStates:
    deter = nn.functional.one_hot(torch.tensor([START] * n), 4).double()
    nothing = deter[:, :0]
    return StartStates(State(deter, nothing, nothing), DISCOUNT[START].expand(n))


def log_probs(behavior: ActorCritic) -> Tensor:
    """ln π(a|s) of all states: (4, 2)."""
    return torch.log_softmax(behavior.actor(torch.eye(4).double()), -1)


def expected_gradient(behavior: ActorCritic, objective: Objective) -> list[Tensor]:
    """Of the actor's loss, exactly: every sequence of actions, by its probability."""
    logs = log_probs(behavior).detach()
    parameters = list(behavior.actor.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for sequence in itertools.product(range(2), repeat=objective.horizon):
        state, log = START, 0.0
        for action in sequence:
            log, state = log + logs[state, action].item(), int(NEXT[state, action])
        behavior.actions = Forced(list(sequence))
        dream = behavior.imagine(Grid(), start(), objective)
        loss, _, _ = behavior.losses(dream, objective)
        for sum_, grad in zip(total, torch.autograd.grad(loss, parameters), strict=True):
            sum_ += math.exp(log) * grad
    return total


def exact_objective(behavior: ActorCritic, horizon: int, entropy: float = 0.0) -> Tensor:
    """E[Σ_t w_t·(r_t + η·H_t) + w_H·v_H] over all sequences, differentiable in the actor."""
    logs = log_probs(behavior)
    bonus = -entropy * (logs.exp() * logs).sum(-1)  # (4,)

    def value(state: int, steps: int) -> Tensor:
        if steps == 0:
            return GUESS[state]
        following = torch.stack([value(int(s), steps - 1) for s in NEXT[state]])
        return REWARD[state] + bonus[state] + DISCOUNT[state] * logs[state].exp() @ following

    return value(START, horizon)


def assert_ascends(
    behavior: ActorCritic, gradient: list[Tensor], objective: Tensor, H: int
) -> None:
    """The loss is the mean over H steps of minus what the objective sums up."""
    wanted = torch.autograd.grad(objective, list(behavior.actor.parameters()))
    assert any(grad.abs().max() > 1e-3 for grad in wanted)
    for found, exact in zip(gradient, wanted, strict=True):
        torch.testing.assert_close(-H * found, exact)


def test_reinforce_is_the_gradient_of_the_expected_return() -> None:
    behavior = make_behavior()
    objective = Objective(horizon=4, trace=1.0, reinforce=1.0, entropy=0.0)
    found = expected_gradient(behavior, objective)
    assert_ascends(behavior, found, exact_objective(behavior, 4), 4)


def test_the_baseline_changes_no_expectation() -> None:
    objective = Objective(horizon=3, reinforce=1.0, entropy=0.0)
    behavior, other = make_behavior(), make_behavior()
    other.critic = Table(torch.tensor([100.0, -50.0, 7.0, 3.0], dtype=torch.float64))
    one, two = expected_gradient(behavior, objective), expected_gradient(other, objective)
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("trace", [0.0, 0.6])
def test_with_true_values_every_lambda_has_the_same_gradient(trace, monkeypatch) -> None:
    behavior = make_behavior()
    with torch.no_grad():
        policy = torch.einsum(
            "sa,sap->sp", log_probs(behavior).exp(), nn.functional.one_hot(NEXT, 4).double()
        )
        true = torch.linalg.solve(torch.eye(4).double() - DISCOUNT[:, None] * policy, REWARD)
    monkeypatch.setattr(f"{__name__}.GUESS", true)
    behavior.slow = Table(true)
    objective = Objective(horizon=3, trace=trace, reinforce=1.0, entropy=0.0)
    found = expected_gradient(behavior, objective)
    assert_ascends(behavior, found, exact_objective(behavior, 3), 3)


def test_long_term_entropy_is_part_of_the_return() -> None:
    behavior = make_behavior()
    objective = Objective(horizon=3, trace=1.0, reinforce=1.0, entropy=0.7, long_term_entropy=True)
    found = expected_gradient(behavior, objective)
    assert_ascends(behavior, found, exact_objective(behavior, 3, 0.7), 3)


def test_long_term_entropy_blames_the_way_there_through_the_dynamics_too() -> None:
    """Of three steps, by hand: the second and third state's entropies, reached by actions."""
    behavior = make_behavior()
    objective = Objective(horizon=3, trace=1.0, reinforce=0.0, entropy=0.7, long_term_entropy=True)
    torch.manual_seed(0)
    dream = behavior.imagine(Grid(), start(6), objective)
    loss, _, _ = behavior.losses(dream, objective)
    fixed = {name: weight.detach() for name, weight in behavior.actor.named_parameters()}
    logs = torch.log_softmax(functional_call(behavior.actor, fixed, dream.path), -1)
    reward = dream.reward - 0.7 * (logs.exp() * logs).sum(-1)
    V2 = reward[2] + dream.discount[2] * dream.following[2]
    V1 = reward[1] + dream.discount[1] * V2
    V0 = reward[0] + dream.discount[0] * V1
    weight = step_weights(dream.discount.detach())
    logs = torch.log_softmax(dream.stats, -1)
    own = -0.7 * (logs.exp() * logs).sum(-1)
    by_hand = -(weight * (torch.stack([V0, V1, V2]) + own)).mean()
    torch.testing.assert_close(loss, by_hand)
    parameters = list(behavior.actor.parameters())
    ours = torch.autograd.grad(loss, parameters, retain_graph=True)
    theirs = torch.autograd.grad(by_hand, parameters)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    assert all(parameter.requires_grad for parameter in parameters)


def test_short_term_entropy_is_that_of_the_states_as_they_come() -> None:
    behavior = make_behavior()
    plain = Objective(horizon=3, trace=1.0, reinforce=1.0, entropy=0.0)
    without = expected_gradient(behavior, plain)
    objective = Objective(horizon=3, trace=1.0, reinforce=1.0, entropy=0.7)
    found = expected_gradient(behavior, objective)
    logs = log_probs(behavior)
    entropies = -(logs.exp() * logs).sum(-1)
    chance, reached = logs.exp().detach(), torch.zeros(4).double()
    at = nn.functional.one_hot(torch.tensor(START), 4).double()
    for _ in range(3):  # how often each state is come to, discounted
        reached += at
        at = torch.einsum("s,s,sa,sap->p", at, DISCOUNT, chance, Grid().table.detach())
    bonus = torch.autograd.grad(0.7 * reached @ entropies, list(behavior.actor.parameters()))
    for f, w, b in zip(found, without, bonus, strict=True):
        torch.testing.assert_close(f, w - b / 3)


def test_sampled_gradients_average_to_the_exact_one() -> None:
    behavior = make_behavior()
    objective = Objective(horizon=3, trace=1.0, reinforce=1.0, entropy=0.0)
    exact = torch.cat([g.ravel() for g in expected_gradient(behavior, objective)])
    behavior.actions = Categoricals([2])
    torch.manual_seed(1)
    dream = behavior.imagine(Grid(), start(40_000), objective)
    loss, _, _ = behavior.losses(dream, objective)
    parts = torch.autograd.grad(loss, list(behavior.actor.parameters()))
    found = torch.cat([g.ravel() for g in parts])
    assert (found - exact).norm() < 0.03 * exact.norm()


@pytest.mark.parametrize("rho", [0.0, 0.3])
def test_backpropagation_and_the_mix(rho) -> None:
    """ρ·Reinforce + (1−ρ)·dynamics, each worked out apart from the same dream."""
    torch.manual_seed(0)
    behavior = make_behavior()
    objective = Objective(horizon=3, reinforce=rho, entropy=0.1)
    dream = behavior.imagine(Grid(), start(6), objective)
    loss, _, _ = behavior.losses(dream, objective)
    V2 = dream.reward[2] + dream.discount[2] * dream.following[2]
    V1 = dream.reward[1] + dream.discount[1] * (0.05 * dream.following[1] + 0.95 * V2)
    V0 = dream.reward[0] + dream.discount[0] * (0.05 * dream.following[0] + 0.95 * V1)
    target = torch.stack([V0, V1, V2])
    weight = torch.stack([torch.ones(6), dream.discount[0], dream.discount[0] * dream.discount[1]])
    logs = torch.log_softmax(dream.stats, -1)
    log_prob = (logs * dream.action.detach()).sum(-1)
    reinforce = log_prob * (target - dream.value).detach()
    entropy = -(logs.exp() * logs).sum(-1)
    by_hand = -(weight.detach() * (rho * reinforce + (1 - rho) * target + 0.1 * entropy)).mean()
    parameters = list(behavior.actor.parameters())
    ours = torch.autograd.grad(loss, parameters, retain_graph=True)
    theirs = torch.autograd.grad(by_hand, parameters)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
        assert b.abs().sum() > 0


def test_the_critic_learns_the_weighted_targets() -> None:
    behavior = make_behavior()
    objective = Objective(horizon=3)
    dream = behavior.imagine(Grid(), start(6), objective)
    _, loss, metrics = behavior.losses(dream, objective)
    weight = step_weights(dream.discount)
    V = torch.tensor(0.0)
    total = torch.tensor(0.0)
    for t in reversed(range(3)):
        following = dream.following[t] if t == 2 else 0.05 * dream.following[t] + 0.95 * V
        V = dream.reward[t] + dream.discount[t] * following
        total = total + (weight[t] * (dream.value[t] - V) ** 2 / 2).sum()
    torch.testing.assert_close(loss, total / 18)
    assert metrics["loss/critic"].item() == pytest.approx(loss.item())
    parameters = list(behavior.actor.parameters())
    assert torch.autograd.grad(loss, parameters, allow_unused=True) == (None,) * len(parameters)


def test_the_slow_critic_is_a_frozen_copy() -> None:
    behavior = ActorCritic(4, Categoricals([2]), 2, 5)
    feat = torch.randn(7, 4)
    torch.testing.assert_close(behavior.slow(feat), behavior.critic(feat))
    nn.init.normal_(behavior.critic.out.weight)
    assert not torch.allclose(behavior.slow(feat), behavior.critic(feat))
    behavior.renew_slow()
    torch.testing.assert_close(behavior.slow(feat), behavior.critic(feat))
    assert not any(p.requires_grad for p in behavior.slow.parameters())


def test_at_paper_size_actor_and_critic_have_1_1_million_parameters_each() -> None:
    behavior = ActorCritic(600 + 1024, Categoricals([18]), 4, 400)
    for network in (behavior.actor, behavior.critic):
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
        return State(state.deter + action @ self.moves, state.stoch, state.stats)

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
    behavior = ActorCritic(1, Categoricals([3]) if discrete else TruncatedNormal(1), 2, 24)
    objective = Objective(horizon=5, reinforce=rho, entropy=1e-3)
    learners = [
        torch.optim.Adam(network.parameters(), lr=1e-2)
        for network in (behavior.actor, behavior.critic)
    ]
    for update in range(150):
        if update % 10 == 0:
            behavior.renew_slow()
        deter = torch.rand(128, 1) * 2 - 0.8
        starts = StartStates(State(deter, deter[:, :0], deter[:, :0]), torch.full((128,), 0.9))
        dream = behavior.imagine(world, starts, objective)
        for learner, loss in zip(learners, behavior.losses(dream, objective)[:2], strict=True):
            learner.zero_grad()
            loss.backward()
            learner.step()
    assert world.moves.grad is None
    places = torch.cat([torch.linspace(-0.8, -0.1, 8), torch.linspace(0.5, 1.2, 8)])[:, None]
    with torch.no_grad():
        moved = behavior.act(places, sample=False) @ world.moves
    assert torch.equal(torch.sign(moved), torch.sign(world.target - places))


def test_a_dream_can_be_judged_by_other_rewards() -> None:
    """As a penalty for what the model does not know needs it."""
    behavior = make_behavior()
    objective = Objective(horizon=3)
    torch.manual_seed(0)
    dream = behavior.imagine(Grid(), start(6), objective)
    penalty = torch.rand_like(dream.reward)  # (H, N)
    *losses, before = behavior.losses(dream, objective)
    *others, after = behavior.losses(dream, objective, dream.reward - penalty)
    # What is learned is what a dream with these rewards of its own would teach …
    wanted = behavior.losses(dream._replace(reward=dream.reward - penalty), objective)
    for loss, other, exact in zip(losses, others, wanted[:2], strict=True):
        torch.testing.assert_close(other, exact)
        assert not torch.isclose(other, loss)
    fall = lambda_targets(penalty, dream.discount, torch.zeros_like(penalty), objective.trace)
    torch.testing.assert_close(after["critic/target"], before["critic/target"] - fall.mean())
    assert after["critic/target"] < before["critic/target"]
    # … and what is reported of the dream is what the model has said.
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"loss/actor", "loss/critic", "actor/advantage", "critic/target"}
