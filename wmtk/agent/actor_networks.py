"""The networks of policy training, by their names in checkpoints."""

from __future__ import annotations

from torch import nn

from wmtk.errors import ConfigError
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.distributions import (
    ActionDistribution,
    Binary,
    Categorical,
    TruncatedNormal,
)
from wmtk.models.ensemble import Ensemble
from wmtk.models.world_model import WorldModel
from wmtk.runs.training_config import BehaviorConfig
from wmtk.spaces import ArraySpec

TASK, EXPLORER, ENSEMBLE = "behavior", "explorer", "ensemble"


def action_distribution(spec: ArraySpec) -> ActionDistribution:
    """The distribution for an action space."""
    if spec.kind == "discrete":
        return Categorical([spec.n])
    if spec.kind == "multi_discrete":
        return Categorical((spec.bound("high") - spec.bound("low") + 1).ravel().tolist())
    if spec.kind == "multi_binary":
        return Binary(spec.numbers)
    if not spec.dtype.startswith("float"):
        raise ConfigError(
            f"Actors do not support the action space {spec}: a box of integers.",
            "Make it a Discrete or MultiDiscrete space in a wrapper.",
        )
    return TruncatedNormal(spec.numbers)


def make_actor_critic(
    config: BehaviorConfig, model: WorldModel, actions: ActionDistribution
) -> ActorCritic:
    """An untrained actor with its critics for the states of `model`."""
    return ActorCritic(config, model.rssm.feat_size, actions)


def make_ensemble(
    config: BehaviorConfig, model: WorldModel, actions: ActionDistribution
) -> Ensemble:
    """Untrained one-step predictors for the states of `model`."""
    ensemble = config.ensemble
    return Ensemble(
        model.rssm.latent,
        model.rssm.feat_size + actions.size,
        members=ensemble.members,
        layers=ensemble.layers or config.layers,
        units=ensemble.units or config.units,
    )


def make_actor_networks(
    config: BehaviorConfig, model: WorldModel, actions: ActionDistribution
) -> dict[str, nn.Module]:
    """All networks that `config` enables."""
    networks: dict[str, nn.Module] = {TASK: make_actor_critic(config, model, actions)}
    if config.penalty or config.explore:
        networks[ENSEMBLE] = make_ensemble(config, model, actions)
    if config.explore:
        networks[EXPLORER] = make_actor_critic(config, model, actions)
    return networks
