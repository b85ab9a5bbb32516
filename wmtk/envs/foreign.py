"""Environments from elsewhere: gymnasium ids, `package.module:Id` and entry points."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import AddRenderObservation, TimeLimit

from wmtk.envs.options import GymnasiumOptions, did_you_mean
from wmtk.envs.wrappers import RepeatAction, ResizePictures, resized
from wmtk.errors import EnvCreationError, TaskError

GROUP = "wmtk.envs"
Maker = Callable[..., Any]


def registered(task: str) -> bool:
    """Whether gymnasium knows the id, with or without its version."""
    try:
        spec = gym.spec(task)
    except gym.error.Error:
        return False
    # Ids of ale-py exist only once something has imported it: they count as unknown here, so that
    # a task means the same whatever was imported before. `ale_py:Id` reaches them.
    return not str(spec.entry_point).startswith("ale_py")


def entry_point(task: str) -> metadata.EntryPoint | None:
    """The installed entry point of that name; no other one is loaded."""
    return next(iter(metadata.entry_points(group=GROUP, name=task)), None)


def load_entry_point(task: str) -> Maker:
    point = entry_point(task)
    if point is None:
        raise TaskError(f"The entry point '{task}' of the group {GROUP} is gone.")
    try:
        return point.load()  # type: ignore[no-any-return]
    except Exception as error:
        message = f"The entry point '{task}' = {point.value} cannot be loaded: {error!r}."
        raise EnvCreationError(message, "Reinstall the package that brings it.") from error


def entry_point_names() -> list[str]:
    return [point.name for point in metadata.entry_points(group=GROUP)]


def import_module(task: str) -> tuple[ModuleType, str]:
    """Import the module of `package.module:Id`; returns it and the id."""
    name, _, env_id = task.partition(":")
    try:
        return _import(name), env_id
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            message = f"Importing '{name}' for the task '{task}' failed: {error}."
            raise EnvCreationError(message, "Install what the module needs.") from error
        raise TaskError(
            f"There is no module '{name}' for the task '{task}'.",
            "Install it, or run the command in the folder that holds it.",
        ) from error
    except Exception as error:
        message = f"Importing '{name}' for the task '{task}' failed: {error!r}."
        raise EnvCreationError(message) from error


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        # A script of ours, unlike `python -m`, does not look into the current folder. Last in
        # the list, it cannot hide an installed package.
        here = str(Path.cwd())
        if here in sys.path or "" in sys.path:
            raise
        sys.path.append(here)
        importlib.invalidate_caches()
        return importlib.import_module(name)


def module_maker(task: str) -> Maker | None:
    """What `package.module:Id` names: a callable, or None for an id that the module registered."""
    module, env_id = import_module(task)
    try:
        gym.spec(env_id)
        return None
    except gym.error.Error as error:
        maker: Maker | None = getattr(module, env_id, None)
        if callable(maker):
            return maker
        prefix = module.__name__.partition(".")[0]
        ids = [name for name, spec in gym.registry.items() if home(spec).startswith(prefix)]
        names = {name for name in vars(module) if name.endswith("Env")}
        suggestion = did_you_mean(env_id, [*ids, *names])
        raise TaskError(
            f"The module '{module.__name__}' registers no environment '{env_id}'.",
            suggestion or f"It registers: {', '.join(sorted(ids)) or 'none'}.",
        ) from error


def home(spec: gym.envs.registration.EnvSpec) -> str:
    """The module of a registered environment."""
    return str(getattr(spec.entry_point, "__module__", spec.entry_point)).partition(":")[0]


def build(
    task: str, env_id: str, maker: Maker | None, options: GymnasiumOptions
) -> gym.Env[Any, Any]:
    """The environment with the wrappers that the options ask for."""
    kwargs = dict(options.kwargs)
    if options.render:
        kwargs["render_mode"] = "rgb_array"
    limit = options.time_limit
    try:
        if maker is None:
            env = gym.make(env_id, max_episode_steps=limit, disable_env_checker=True, **kwargs)
        else:
            env = maker(**kwargs)
    except gym.error.DependencyNotInstalled as error:
        raise EnvCreationError(f"The environment '{task}' lacks a package: {error}.") from error
    except Exception as error:
        message = f"The environment '{task}' could not be built: {error!r}."
        raise EnvCreationError(message, "The error comes from the environment itself.") from error
    if not isinstance(env, gym.Env):
        raise EnvCreationError(f"'{task}' made a {type(env).__name__}, not a gymnasium.Env.")
    if maker is not None and limit is not None:
        env = TimeLimit(env, limit)
    if options.repeat > 1:
        env = RepeatAction(env, options.repeat)
    if options.render:
        # After the repeat: a frame that nobody sees is not drawn.
        env = AddRenderObservation(env, render_only=False, render_key="image", obs_key="state")
    if options.size:
        space = env.observation_space
        if resized(space, options.size) is not space:
            env = ResizePictures(env, options.size)
    return env


def providers(module: str) -> list[str]:
    """The installed distributions that hold this module."""
    top = module.partition(".")[0]
    if top in {"gymnasium", "wmtk"}:  # asking takes 0.1 s
        return []
    return sorted(set(metadata.packages_distributions().get(top, [])))
