"""Named settings: the paper's agents, a small one, and the paper's ablations.

A preset is a set of changes to the defaults, which are the paper's for Atari; an ablation is a
set of changes to a preset. docs/dreamerv2.md says where each number comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from wmtk.config import Config, nearest
from wmtk.errors import ConfigError
from wmtk.models.world_model import WorldModelConfig
from wmtk.training.cadence import Cadence
from wmtk.training.online_config import OnlineConfig
from wmtk.training.optim import OptimizerConfig
from wmtk.training.policy_trainer import BehaviourConfig
from wmtk.training.samplers import DataConfig


class TrainingConfig(Config):
    """All settings: of a world model, of an actor and a critic inside of it, and of playing."""

    model: WorldModelConfig = WorldModelConfig()
    optimizer: OptimizerConfig = OptimizerConfig(rate=2e-4)
    behaviour: BehaviourConfig = BehaviourConfig()
    data: DataConfig = DataConfig()
    cadence: Cadence = Cadence()
    online: OnlineConfig = OnlineConfig()
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    compile: bool = False
    preset: str | None = None  # which one these settings began with


Changes = Mapping[str, Any]

# The paper's agents were trained with Keras, which places Adam's ε in another way than torch.
_PAPER: Changes = {
    f"{name}.eps_before_correction": True
    for name in ("optimizer", "behaviour.actor", "behaviour.critic", "behaviour.ensemble")
}

_DMC: Changes = {
    **_PAPER,
    "model.rssm.deter": 200,
    "model.rssm.hidden": 200,
    "model.kl_scale": 1.0,
    "model.free_nats": 1.0,
    "model.discount": 0.99,
    "model.discount_scale": 0.0,  # episodes only end by their time limit
    "optimizer.rate": 3e-4,
    "behaviour.reinforce": 0.0,
    "behaviour.entropy": 1e-4,
    "behaviour.actor.rate": 8e-5,
    "behaviour.critic.rate": 8e-5,
    "online.prefill": 1000,
    "online.pretrain": 100,
    "online.every": 5,
    "online.evaluate": 10_000,
}

_ATARI: Changes = {**_PAPER, "model.reward_transform": "tanh"}

PRESETS: Mapping[str, Changes] = {
    "atari": _ATARI,
    "montezuma": {**_ATARI, "model.discount": 0.99},
    "dmc_vision": _DMC,
    "humanoid": {**_DMC, "model.kl_scale": 2.0, "behaviour.entropy": 1e-5},
    "tiny": {
        "model.depth": 8,
        "model.layers": 2,
        "model.units": 128,
        "model.rssm.deter": 128,
        "model.rssm.hidden": 128,
        "model.rssm.stoch": 32,
        "model.rssm.classes": 16,
        # The small games are decided within some twenty steps, and a critic that looks further than
        # that is less sure of them.
        "model.discount": 0.95,
        # At such a rate codes may be stuck before decoders know what the background looks like.
        "model.start_at_mean": True,
        "optimizer.rate": 1e-3,
        "optimizer.warmup": 300,
        "behaviour.layers": 2,
        "behaviour.units": 128,
        "behaviour.horizon": 8,
        "behaviour.reinforce": None,
        "behaviour.actor.rate": 3e-4,
        "behaviour.critic.rate": 3e-4,
        # Many small updates: for the same time on two cores they teach as much as few large ones.
        "data.batch_size": 5,
        "data.length": 8,
        "online.prefill": 1000,
        "online.pretrain": 100,
        "online.every": 1,
        "online.envs": 4,
        "online.evaluate": 1000,
        "online.episodes": 10,
    },
}

ANNEALED = 2_500_000  # agent steps over which the paper's schedules go


def _schedules(every: float) -> Changes:
    """The schedules in updates, where there is one every so many agent steps."""
    steps = max(round(ANNEALED / every), 1)
    return {
        "behaviour.entropy": {"start": 3e-3, "end": 3e-4, "steps": steps},
        "behaviour.reinforce": {"start": 0.9, "end": 1.0, "steps": steps},
    }


# What depends on `online.every` is a function of it.
ABLATIONS: Mapping[str, Changes | Callable[[float], Changes]] = {
    "no-layer-norm": {"model.rssm.layer_norm": False},
    "no-reward-gradients": {"model.reward_gradients": False},
    "no-image-gradients": {"model.image_gradients": False},
    "no-discrete-latents": {"model.rssm.latent": "gaussian"},
    "no-kl-balancing": {"model.kl_balance": None},
    "binary-latents": {"model.rssm.latent": "binary"},
    "no-policy-reinforce": {"behaviour.reinforce": 0.0},
    "long-term-entropy": {"behaviour.long_term_entropy": True},
    "mixed-gradients": {"behaviour.reinforce": 0.9},
    "random-data": {"online.actor": "random"},
    "schedules": _schedules,
}

_T = TypeVar("_T")


def _named(what: str, known: Mapping[str, _T], name: str) -> _T:
    if name not in known:
        hint = f"{nearest(name, known)} There are: {', '.join(known)}."
        raise ConfigError(f"There is no {what} {name!r}.", hint.strip())
    return known[name]


def training_config(
    preset: str = "atari", ablations: Sequence[str] = (), overrides: Changes | None = None
) -> TrainingConfig:
    """A preset with ablations and single settings applied, in this order."""
    config = TrainingConfig(preset=preset).changed(_named("preset", PRESETS, preset))
    return altered(config, ablations, overrides or {})


def with_preset(stored: TrainingConfig, preset: str) -> tuple[TrainingConfig, list[str]]:
    """The settings of a run under a preset, and which of them are not the preset's.

    What was set beside the run's own preset stays as it is. Of settings without a preset (of
    older runs, or made in Python) all stay.
    """
    config = training_config(preset)
    if stored.preset is None or stored.preset not in PRESETS:
        return stored, list(stored.changes_from(config))
    given = stored.changes_from(training_config(stored.preset))
    return config.changed(given), list(given)


def altered(config: TrainingConfig, ablations: Sequence[str], overrides: Changes) -> TrainingConfig:
    """Settings with ablations and single settings applied, in this order."""
    if "preset" in overrides:
        raise ConfigError("A preset is no single setting.", "Choose one with --preset.")
    # An ablation goes by the pace that is in use in the end, though single settings come after it.
    pace = {name: new for name, new in overrides.items() if name.partition(".")[0] == "online"}
    every = config.changed(pace).online.every
    for name in ablations:
        ablation = _named("ablation", ABLATIONS, name)
        config = config.changed(ablation(every) if callable(ablation) else ablation)
    return config.changed(overrides)
