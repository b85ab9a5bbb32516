"""Checks that the weights of a checkpoint have the sizes of the settings.

Only the header of the checkpoint is read, and the networks are built on the meta device, so that
wrong or malicious settings allocate no memory.
"""

from __future__ import annotations

import torch

from wmtk.agent.actor_networks import action_distribution, make_actor_networks
from wmtk.agent.batch_tensors import ActionCodec
from wmtk.agent.compat import with_cell_bias
from wmtk.errors import ConfigError, RunError, SpaceError
from wmtk.models.world_model import WorldModel
from wmtk.runs.model_spaces import spaces_of
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import checkpoint_errors, require_shapes
from wmtk.runs.training_config import TrainingConfig


def recorded_class(world_model: type[WorldModel]) -> dict[str, str]:
    """The entry for the class of the world model in run.json; empty for `WorldModel`."""
    name = f"{world_model.__module__}:{world_model.__qualname__}"
    return {} if world_model is WorldModel else {"world_model": name}


def require_recorded_class(run: Run, world_model: type[WorldModel]) -> None:
    """Raise unless a run was trained with a class of the same name, in any module."""
    recorded = str(run.about.get("world_model", f"{WorldModel.__module__}:{WorldModel.__name__}"))
    name = recorded.rpartition(":")[2]
    if name != world_model.__qualname__:
        custom = "world_model" in run.about
        raise RunError(
            f"{run.path} was trained with the class {recorded}, not with "
            f"{world_model.__module__}:{world_model.__qualname__}.",
            f"In Python, pass world_model={name}." if custom else "Leave world_model out.",
        )


def require_saved_sizes(
    run: Run,
    config: TrainingConfig,
    which: str = "latest",
    world_model: type[WorldModel] = WorldModel,
) -> None:
    """Raise unless the class and the sizes of the networks are those of a run's checkpoint."""
    require_recorded_class(run, world_model)
    if which == "latest" and not run.step:
        return
    shapes = run.checkpoints.shapes(which)
    try:
        schema, observations = spaces_of(run, config)
        size, actions = ActionCodec(schema.action).size, action_distribution(schema.action)
        with torch.device("meta"), checkpoint_errors(run.checkpoints.folder):
            model = world_model(config.model, observations.specs, size)
            saved = {name: torch.empty(shape) for name, shape in shapes.items()}
            full = with_cell_bias(model, saved)
            require_shapes("model", model, {name: tuple(x.shape) for name, x in full.items()})
            if run.has_actor:
                networks = make_actor_networks(config.behavior, model, actions)
                for name, module in networks.items():
                    # Networks without any saved tensor raise when they are loaded.
                    if any(key.startswith(f"{name}/") for key in shapes):
                        require_shapes(name, module, shapes)
    except (ConfigError, SpaceError) as error:
        raise RunError(f"{run.path}: {error.message}", error.hint) from error
    except RuntimeError as error:  # sizes that exceed the limits of tensors
        raise RunError(
            f"The settings of {run.path} result in networks of invalid sizes: {error}.",
            "Use the settings that the run was started with.",
        ) from error
