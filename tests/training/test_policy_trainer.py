"""Updates of actor and critic: their start states, the target critic, schedules, saving."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from wmtk.agent.actor_policy import ActorPolicy
from wmtk.agent.batch_tensors import ActionCodec
from wmtk.datasets import Schema
from wmtk.errors import ConfigError, DivergedError, RunError
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.imagination import StartStates, Trajectory, imagine
from wmtk.models.returns import lambda_targets
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.training_config import BehaviorConfig
from wmtk.schedules import LinearSchedule, value
from wmtk.spaces import ArraySpec
from wmtk.training.policy_trainer import PolicyTrainer
from wmtk.training.presets import ABLATIONS, PRESETS, training_config

SMALL = BehaviorConfig().override({"layers": 1, "units": 8, "horizon": 3, "target_update_every": 2})
DISCRETE = ArraySpec("discrete", (), "int64", 0, 2)
NUMBERS = ArraySpec("box", (2,), "float32", -1.0, 1.0)
WARY, CURIOUS = {"penalty": 2.0}, {"explore": "disagreement"}


def make_trainer(config: BehaviorConfig = SMALL, action: ArraySpec = DISCRETE) -> PolicyTrainer:
    torch.manual_seed(0)
    sizes = {"units": 8, "rssm.deter": 8, "rssm.hidden": 8, "rssm.stoch": 2, "rssm.classes": 4}
    settings = training_config("tiny").override({f"model.{k}": size for k, size in sizes.items()})
    schema = Schema({"state": ArraySpec("box", (3,), "float32")}, action)
    model = WorldModel(settings.model, schema.obs, ActionCodec(action).size)
    return PolicyTrainer(settings.model_copy(update={"behavior": config}), schema, model)


def make_batch(trainer: PolicyTrainer, B: int = 2, T: int = 4) -> tuple[State, Inputs]:
    torch.manual_seed(1)
    first = torch.zeros(B, T, dtype=torch.bool)
    first[:, 0] = True
    terminal, mask = torch.zeros_like(first), torch.ones_like(first)
    terminal[0, 3] = True  # the end of an episode
    mask[1, 2:] = False  # padding
    inputs = Inputs(
        {"state": torch.randn(B, T, 3)},
        torch.zeros(B, T, trainer.actions.size),
        torch.zeros(B, T),
        terminal,
        first,
        mask,
    )
    post = trainer.model.observe(inputs)
    return post._replace(deter=torch.randn_like(post.deter)), inputs  # no two rows alike


def test_imagination_starts_from_every_row_that_is_no_padding() -> None:
    trainer = make_trainer()
    post, inputs = make_batch(trainer)
    starts = trainer.start_states(post, inputs)
    wanted = torch.cat([post.deter[0], post.deter[1, :2]])
    torch.testing.assert_close(starts.state.deter, wanted)
    assert starts.discount.tolist() == pytest.approx([0.95, 0.95, 0.95, 0.0, 0.95, 0.95])
    assert not starts.state.stoch.requires_grad


def test_some_starts_are_drawn_anew_each_time() -> None:
    trainer = make_trainer(SMALL.override({"imagination_starts": 4}))
    post, inputs = make_batch(trainer)
    whole = {tuple(row.tolist()) for row in torch.cat([post.deter[0], post.deter[1, :2]])}
    drawn = []
    for _ in range(20):
        deter = trainer.start_states(post, inputs).state.deter
        rows = {tuple(row.tolist()) for row in deter}
        assert len(rows) == len(deter) == 4
        assert rows <= whole
        drawn.append(frozenset(rows))
    assert len(set(drawn)) > 3
    assert set().union(*drawn) == whole


@pytest.mark.parametrize("actions", [DISCRETE, NUMBERS], ids=["discrete", "numbers"])
@pytest.mark.parametrize("rho", [1.0, 0.5, 0.0])
def test_an_update_changes_actor_and_critic_and_leaves_the_model_alone(actions, rho) -> None:
    trainer = make_trainer(SMALL.override({"reinforce_mix": rho}), actions)
    post, inputs = make_batch(trainer)
    model = {name: x.clone() for name, x in trainer.model.state_dict().items()}
    before = {name: x.clone() for name, x in trainer.actor_critic.state_dict().items()}
    metrics = trainer.update(inputs, 1, post).metrics
    assert all(torch.equal(x, model[name]) for name, x in trainer.model.state_dict().items())
    assert all(weight.grad is None for weight in trainer.model.parameters())
    moved = {
        n.split(".")[0]
        for n, x in trainer.actor_critic.state_dict().items()
        if (x != before[n]).any()
    }
    assert moved == {"actor", "critic"}
    assert {"grad_norm/actor", "grad_norm/critic", "imagined/return", "critic/target_gap"} <= set(
        metrics
    )


def test_the_target_critic_is_updated_every_few_updates() -> None:
    trainer = make_trainer(SMALL.override({"target_update_every": 3}))
    post, inputs = make_batch(trainer)
    seen = []
    for step in range(1, 8):
        trainer.update(inputs, step, post)
        seen.append(trainer.actor_critic.target_critic.out.weight.clone())
    changed = [not torch.equal(a, b) for a, b in pairwise(seen)]
    assert changed == [False, False, True, False, False, True]  # before updates 4 and 7


@pytest.mark.parametrize("changes", [{}, WARY | CURIOUS], ids=["plain", "with an ensemble"])
def test_what_was_saved_goes_on_in_the_same_way(changes) -> None:
    one, two = (make_trainer(SMALL.override(changes)) for _ in range(2))
    post, inputs = make_batch(one)
    for step in range(1, 4):
        one.update(inputs, step, post)
    saved = {name: tensor.clone() for name, tensor in one.state_dict().items()}
    two.load_state_dict(saved)
    for trainer in (one, two):
        torch.manual_seed(9)
        for step in range(4, 7):
            trainer.update(inputs, step, post)
    assert one.state_dict().keys() == two.state_dict().keys()
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[name]), name


def test_numbers_that_are_not_finite_do_not_reach_the_weights() -> None:
    trainer = make_trainer()
    post, inputs = make_batch(trainer)
    torch.nn.init.constant_(trainer.model.reward_head.out.bias, torch.nan)
    before = {name: x.clone() for name, x in trainer.actor_critic.state_dict().items()}
    with pytest.raises(DivergedError, match=r"Update 5: .* is nan"):
        trainer.update(inputs, 5, post)
    assert all(
        torch.equal(x, before[name]) for name, x in trainer.actor_critic.state_dict().items()
    )


# --- an ensemble that tells how far the data goes ---


def one_update(changes: dict[str, object]) -> tuple[PolicyTrainer, dict[str, float]]:
    """A trainer after its first update, and the metrics of that."""
    trainer = make_trainer(SMALL.override(changes))
    post, inputs = make_batch(trainer)
    torch.manual_seed(5)
    metrics = trainer.update(inputs, 1, post).metrics
    return trainer, {name: float(x) for name, x in metrics.items()}


def worth_of(reward: Tensor, dream: Trajectory, next_value: Tensor) -> float:
    return lambda_targets(reward, dream.discount, next_value, SMALL.lambda_).mean().item()


def imagined(trainer: PolicyTrainer, actor_critic: ActorCritic, starts: StartStates) -> Trajectory:
    backprop = actor_critic.rho(1) < 1
    return imagine(trainer.model, actor_critic, starts, SMALL.horizon, backprop_dynamics=backprop)


def test_a_penalty_lowers_the_targets_by_what_the_steps_cost() -> None:
    _, plain = one_update({})
    updated, found = one_update(WARY)
    trainer = make_trainer(SMALL.override(WARY))  # as it was before that update
    starts = trainer.start_states(*make_batch(trainer))
    torch.manual_seed(5)
    dream = imagined(trainer, trainer.actor_critic, starts)
    doubt = updated.ensemble.uncertainty(dream)  # it is updated before the actor
    assert found["disagreement/imagined"] == pytest.approx(doubt.mean().item())
    assert doubt.min() > 0
    cost = worth_of(-2.0 * dream.discount * doubt, dream, torch.zeros_like(doubt))
    assert found["critic/target"] == pytest.approx(plain["critic/target"] + cost, rel=1e-5)
    assert found["imagined/return"] == plain["imagined/return"]  # what the model promises


def test_an_explorer_is_rewarded_by_disagreement_alone() -> None:
    _, plain = one_update({})
    updated, found = one_update(CURIOUS)
    assert {name: found[name] for name in plain} == plain  # the actor of the task is as without
    assert "disagreement/imagined" not in found
    trainer = make_trainer(SMALL.override(CURIOUS))
    starts = trainer.start_states(*make_batch(trainer))
    torch.manual_seed(5)
    imagined(trainer, trainer.actor_critic, starts)  # the task's comes first
    dream = imagined(trainer, trainer.explorer, starts)
    reward = dream.discount * updated.ensemble.uncertainty(dream)
    wanted = worth_of(reward, dream, dream.next_value)
    assert found["explorer/critic/target"] == pytest.approx(wanted, rel=1e-5)


def test_the_ensemble_learns_along_and_only_if_it_is_needed() -> None:
    assert make_trainer().ensemble is None
    assert make_trainer().explorer is None
    trainer = make_trainer(SMALL.override(WARY))
    assert trainer.explorer is None
    post, inputs = make_batch(trainer)
    before = [weight.clone() for weight in trainer.ensemble.parameters()]
    metrics = trainer.update(inputs, 1, post).metrics
    assert {"loss/ensemble", "disagreement/data", "grad_norm/ensemble"} <= set(metrics)
    now = trainer.ensemble.parameters()
    assert all((a != b).any() for a, b in zip(before, now, strict=True))
    losses = [
        float(trainer.update(inputs, 2 + n, post).metrics["loss/ensemble"]) for n in range(50)
    ]
    assert losses[-1] < 0.8 * losses[0]
    assert "ensemble" in trainer.lrs


def test_what_an_ensemble_is_missing_in_is_not_resumed_but_can_be_begun_with() -> None:
    saved = make_trainer().state_dict()
    trainer = make_trainer(SMALL.override(CURIOUS))
    with pytest.raises(RunError, match="no ensemble"):
        trainer.load_state_dict(saved)
    torch.nn.init.zeros_(trainer.actor_critic.actor.out.weight)
    assert trainer.load_pretrained(saved) == {"behavior"}
    assert torch.equal(trainer.actor_critic.actor.out.weight, saved["behavior/actor.out.weight"])


# --- every kind of actions ---

SPACES = {
    "a choice": ArraySpec("discrete", (), "int64", 3, 7),
    "choices": ArraySpec("multi_discrete", (2,), "int64", (0, 5), (2, 6)),
    "switches": ArraySpec("multi_binary", (3,), "int8", 0, 1),
    "numbers": ArraySpec("box", (2,), "float32", (-2.0, 0.0), (2.0, 10.0)),
}


@pytest.mark.parametrize("rho", [None, 0.5])
@pytest.mark.parametrize("space", SPACES)
def test_from_an_action_space_to_actions_in_it(space, rho) -> None:
    """The model's inputs, the ensemble, both actors and what they do: all sizes fit."""
    spec, obs = SPACES[space], {"state": ArraySpec("box", (3,), "float32")}
    codec = ActionCodec(spec)
    trainer = make_trainer(SMALL.override(WARY | CURIOUS | {"reinforce_mix": rho}), spec)
    post, inputs = make_batch(trainer)
    known = np.stack([spec.to_gymnasium().sample() for _ in range(8)])
    inputs = inputs._replace(action=codec.encode(known.reshape(2, 4, *spec.shape)))
    before = [x.clone() for x in trainer.state_dict().values()]
    metrics = trainer.update(inputs, 1, post).metrics
    assert all(torch.isfinite(x) for x in metrics.values())
    assert any((a != b).any() for a, b in zip(before, trainer.state_dict().values(), strict=True))
    for actor_critic in (trainer.actor_critic, trainer.explorer):
        policy = ActorPolicy(trainer.model, actor_critic, Schema(obs, spec))
        for action in policy.act([0, 1], [{"state": np.zeros(3, np.float32)}] * 2):
            assert spec.to_gymnasium().contains(action), action


# --- settings ---


def test_schedules_decide_what_is_learned_at_a_step() -> None:
    scheduled = training_config("atari", ("schedules",)).behavior.model_dump()
    changes = {name: scheduled[name] for name in ("entropy", "reinforce_mix")}
    trainer = make_trainer(SMALL.override(changes))
    start, end = (
        (value(trainer.config.entropy, step), trainer.actor_critic.rho(step))
        for step in (0, 2_500_000 // 4)
    )
    assert start == pytest.approx((3e-3, 0.9))
    assert end == pytest.approx((3e-4, 1.0))
    assert end[1] == 1.0  # exactly, so that nothing is recorded through the dynamics


@pytest.mark.parametrize(
    ("preset", "overrides", "updates"),
    [
        ("atari", {}, 625_000),
        ("dmc_vision", {}, 500_000),
        ("tiny", {}, 2_500_000),
        ("atari", {"online.train_every": 16}, 156_250),
        ("tiny", {"online.train_every": 1e9}, 1),
    ],
)
def test_schedules_go_over_the_papers_agent_steps_at_any_pace(preset, overrides, updates) -> None:
    behavior = training_config(preset, ("schedules",), overrides).behavior
    for schedule in (behavior.entropy, behavior.reinforce_mix):
        assert isinstance(schedule, LinearSchedule)
        assert schedule.steps == updates
    shorter = {**overrides, "behavior.entropy.steps": 7}  # what is set singly has the last word
    assert training_config(preset, ("schedules",), shorter).behavior.entropy.steps == 7


def test_by_default_the_kind_of_actions_decides_between_the_gradients() -> None:
    automatic = SMALL.override({"reinforce_mix": None})
    assert make_trainer(automatic).actor_critic.rho(1) == 1
    assert make_trainer(automatic, NUMBERS).actor_critic.rho(1) == 0


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("atari", (0.999, 1.0, 1e-3, 4e-5, 1e-4)),
        ("montezuma", (0.99, 1.0, 1e-3, 4e-5, 1e-4)),
        ("dmc_vision", (0.99, 0.0, 1e-4, 8e-5, 8e-5)),
        ("humanoid", (0.99, 0.0, 1e-5, 8e-5, 8e-5)),
    ],
)
def test_the_presets_have_the_papers_numbers(preset, expected) -> None:
    config = training_config(preset)
    b = config.behavior
    found = (config.model.discount, b.reinforce_mix, b.entropy, b.actor.lr, b.critic.lr)
    assert found == expected
    assert (b.horizon, b.lambda_, b.target_update_every, b.layers, b.units) == (
        15,
        0.95,
        100,
        4,
        400,
    )
    for optimizer in (b.actor, b.critic):
        assert (optimizer.eps, optimizer.clip, optimizer.weight_decay) == (1e-5, 100, 1e-6)
    assert b.imagination_starts is None


def test_every_preset_and_ablation_is_valid() -> None:
    for preset in PRESETS:
        for ablation in ABLATIONS:
            training_config(preset, (ablation,))
    assert training_config("atari", ("no-policy-reinforce",)).behavior.reinforce_mix == 0
    assert training_config("atari", ("long-term-entropy",)).behavior.long_term_entropy
    assert training_config("atari", ("mixed-gradients",)).behavior.reinforce_mix == 0.9
    entropy = training_config("atari", ("schedules",)).behavior.entropy
    assert isinstance(entropy, LinearSchedule)
    assert value(entropy, 0) == 3e-3
    with pytest.raises(ConfigError, match=r"behavior\.horizon"):
        training_config("tiny", overrides={"behavior.horizn": 3})
