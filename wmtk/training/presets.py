"""Named settings: the paper's agents, a small one, and the paper's ablations.

A preset is a set of changes to the defaults, which are the paper's for Atari; an ablation is a
set of changes to a preset. docs/dreamerv2.md gives the source of each number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from wmtk.config import nearest
from wmtk.errors import ConfigError
from wmtk.runs.training_config import TrainingConfig

Changes = Mapping[str, Any]

# The paper's agents were trained with Keras, whose Adam adds ε before the bias correction.
_PAPER: Changes = {
    f"{name}.eps_before_correction": True
    for name in ("optimizer", "behavior.actor", "behavior.critic", "behavior.ensemble")
}

_DMC: Changes = {
    **_PAPER,
    "model.rssm.deter": 200,
    "model.rssm.hidden": 200,
    "model.kl_scale": 1.0,
    "model.free_nats": 1.0,
    "model.discount": 0.99,
    "model.discount_scale": 0.0,  # episodes end at their time limit only
    "optimizer.lr": 3e-4,
    "behavior.reinforce_mix": 0.0,
    "behavior.entropy": 1e-4,
    "behavior.actor.lr": 8e-5,
    "behavior.critic.lr": 8e-5,
    "online.prefill": 1000,
    "online.pretrain": 100,
    "online.train_every": 5,
    "online.evaluate": 10_000,
}

_ATARI: Changes = {**_PAPER, "model.reward_transform": "tanh"}

DEFAULT_PRESET = "tiny"  # of the training functions and of the command line

PRESETS: Mapping[str, Changes] = {
    "atari": _ATARI,
    "montezuma": {**_ATARI, "model.discount": 0.99},
    "dmc_vision": _DMC,
    "humanoid": {**_DMC, "model.kl_scale": 2.0, "behavior.entropy": 1e-5},
    "tiny": {
        "model.cnn_depth": 8,
        "model.layers": 2,
        "model.units": 128,
        "model.rssm.deter": 128,
        "model.rssm.hidden": 128,
        "model.rssm.stoch": 32,
        "model.rssm.classes": 16,
        # An episode of the small games is decided within about 20 steps; values over longer
        # horizons have more variance.
        "model.discount": 0.95,
        # At this learning rate codes may get stuck before decoders reproduce the background.
        "model.start_at_mean": True,
        "optimizer.lr": 1e-3,
        "optimizer.warmup": 300,
        "behavior.layers": 2,
        "behavior.units": 128,
        "behavior.horizon": 8,
        "behavior.reinforce_mix": None,
        "behavior.actor.lr": 3e-4,
        "behavior.critic.lr": 3e-4,
        # On two cores, many small updates learn as much per hour as few large ones.
        "data.batch_size": 5,
        "data.length": 8,
        "online.prefill": 1000,
        "online.pretrain": 100,
        "online.train_every": 1,
        "online.envs": 4,
        "online.evaluate": 1000,
        "online.episodes": 10,
    },
}

ANNEALED = 2_500_000  # agent steps of the paper's schedules


def _schedules(every: float) -> Changes:
    """The paper's schedules, converted to updates: one update per `every` agent steps."""
    steps = max(round(ANNEALED / every), 1)
    return {
        "behavior.entropy": {"start": 3e-3, "end": 3e-4, "steps": steps},
        "behavior.reinforce_mix": {"start": 0.9, "end": 1.0, "steps": steps},
    }


# Ablations that depend on `online.train_every` are functions of it.
ABLATIONS: Mapping[str, Changes | Callable[[float], Changes]] = {
    "no-layer-norm": {"model.rssm.layer_norm": False},
    "no-reward-gradients": {"model.reward_gradients": False},
    "no-image-gradients": {"model.image_gradients": False},
    "no-discrete-latents": {"model.rssm.latent": "gaussian"},
    "no-kl-balancing": {"model.kl_balance": None},
    "binary-latents": {"model.rssm.latent": "binary"},
    "no-policy-reinforce": {"behavior.reinforce_mix": 0.0},
    "long-term-entropy": {"behavior.long_term_entropy": True},
    "mixed-gradients": {"behavior.reinforce_mix": 0.9},
    "random-data": {"online.actor": "random"},
    "schedules": _schedules,
}

_T = TypeVar("_T")


def _lookup(what: str, known: Mapping[str, _T], name: str) -> _T:
    if name not in known:
        hint = f"{nearest(name, known)} There are: {', '.join(known)}."
        raise ConfigError(f"There is no {what} {name!r}.", hint.strip())
    return known[name]


def training_config(
    preset: str = DEFAULT_PRESET, ablations: Sequence[str] = (), overrides: Changes | None = None
) -> TrainingConfig:
    """A preset with ablations and single settings applied, in this order."""
    config = TrainingConfig(preset=preset).override(_lookup("preset", PRESETS, preset))
    return with_overrides(config, ablations, overrides or {})


def with_preset(stored: TrainingConfig, preset: str) -> tuple[TrainingConfig, list[str]]:
    """The settings of a run with another preset, and the names of those that differ from it.

    Settings that differ from the preset of the run keep their values. Settings without a preset
    (of older runs, or made in Python) keep all values.
    """
    config = training_config(preset)
    if stored.preset is None or stored.preset not in PRESETS:
        return stored, list(stored.changes_from(config))
    changes = stored.changes_from(training_config(stored.preset))
    return config.override(changes), list(changes)


def with_overrides(
    config: TrainingConfig, ablations: Sequence[str], overrides: Changes
) -> TrainingConfig:
    """Settings with ablations and single settings applied, in this order."""
    if "preset" in overrides:
        raise ConfigError("A preset is not a setting.", "Pass it as the argument preset.")
    # Ablations depend on the final `online.train_every`, although overrides are applied later.
    online = {key: value for key, value in overrides.items() if key.partition(".")[0] == "online"}
    every = config.override(online).online.train_every
    for name in ablations:
        ablation = _lookup("ablation", ABLATIONS, name)
        config = config.override(ablation(every) if callable(ablation) else ablation)
    return config.override(overrides)
