"""Foreign environments: Gymnasium ids, `package.module:Id` and entry points."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import AddRenderObservation, TimeLimit

from wmtk.envs.api_check import FORMER_API, check_api
from wmtk.envs.task_options import GymnasiumOptions, did_you_mean
from wmtk.envs.wrappers import RepeatAction, ResizeImages, resized
from wmtk.errors import FOREIGN, EnvCreationError, TaskError

GROUP = "wmtk.envs"
GYMNASIUM_GROUP = "gymnasium.envs"  # entry points through which packages register environments
Maker = Callable[..., Any]


def registered(task: str) -> bool:
    """Whether Gymnasium has the id, with or without its version."""
    try:
        spec = gym.spec(task)
    except gym.error.Error:
        return False
    # Ids of ale-py exist only after its import. They count as unknown, so that the meaning of a
    # task does not depend on imports; `ale_py:Id` names them.
    return not str(spec.entry_point).startswith("ale_py")


def from_installed_package(task: str) -> bool:
    """Whether an id is registered by gymnasium, wmtk, or an installed plugin of gymnasium.

    False for ids that other imports have registered.
    """
    top = home(gym.spec(task)).partition(".")[0]
    if top in {"gymnasium", "wmtk"}:
        return True
    points = metadata.entry_points(group=GYMNASIUM_GROUP)
    return not {p.dist.name for p in points if p.dist and _installed(p)}.isdisjoint(providers(top))


def named_by_installed_package(task: str) -> bool:
    """Whether the package of an entry point is installed outside of the current folder."""
    point = entry_point(task)
    return point is not None and _installed(point)


def _installed(point: metadata.EntryPoint) -> bool:
    # Python also finds packages in the current folder, whose files may be untrusted.
    here = Path.cwd()
    return point.dist is not None and Path(str(point.dist.locate_file(""))).resolve() != here


def registered_limit(env_id: str) -> int | None:
    """The registered time limit of a Gymnasium id."""
    try:
        return gym.spec(env_id).max_episode_steps
    except gym.error.Error:
        return None  # a class or function has no spec


def entry_point(task: str) -> metadata.EntryPoint | None:
    """The installed entry point named `task`, without loading it."""
    return next(iter(metadata.entry_points(group=GROUP, name=task)), None)


def load_entry_point(task: str) -> Maker:
    point = entry_point(task)
    if point is None:
        raise TaskError(f"The entry point '{task}' of the group {GROUP} no longer exists.")
    try:
        maker: Maker = point.load()
    except FOREIGN as error:
        message = f"The entry point '{task}' = {point.value} cannot be loaded: {error!r}."
        raise EnvCreationError(message, "Reinstall its package.") from error
    return _checked(maker, task)


def entry_point_names() -> list[str]:
    return [point.name for point in metadata.entry_points(group=GROUP)]


def module_and_id(task: str) -> tuple[str, str]:
    """The two halves of `package.module:Id`."""
    module, _, env_id = task.partition(":")
    if not module or not env_id or ":" in env_id:  # gymnasium would import the part before a colon
        raise TaskError(f"'{task}' is not a task.", "The form is package.module:Id.")
    return module, env_id


def import_module(task: str) -> tuple[ModuleType, str]:
    """Import the module of `package.module:Id`; returns it and the id."""
    name, _, env_id = task.partition(":")
    try:
        return _import(name), env_id
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            message = f"Importing '{name}' for the task '{task}' failed: {error}."
            raise EnvCreationError(message, "Install the dependencies of the module.") from error
        raise TaskError(
            f"There is no module '{name}' for the task '{task}'.",
            "Install it, or run the command in the folder that contains it.",
        ) from error
    except FOREIGN as error:
        message = f"Importing '{name}' for the task '{task}' failed: {error!r}."
        raise EnvCreationError(message) from error


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        # Unlike `python -m`, a script does not search the current folder. The folder is appended,
        # so that its modules cannot hide installed packages.
        here = str(Path.cwd())
        if here in sys.path or "" in sys.path:
            raise
        sys.path.append(here)
        importlib.invalidate_caches()
        return importlib.import_module(name)


def module_maker(task: str) -> Maker | None:
    """The callable `package.module:Id`, or None for an id that the module registers."""
    module_and_id(task)  # raises for other names
    module, env_id = import_module(task)
    try:
        gym.spec(env_id)
        return None
    except gym.error.Error as error:
        maker: Maker | None = getattr(module, env_id, None)
        if callable(maker):
            return _checked(maker, task)
        prefix = module.__name__.partition(".")[0]
        ids = [name for name, spec in gym.registry.items() if home(spec).startswith(prefix)]
        names = {name for name in vars(module) if name.endswith("Env")}
        suggestion = did_you_mean(env_id, [*ids, *names])
        raise TaskError(
            f"The module '{module.__name__}' registers no environment '{env_id}'.",
            suggestion or f"It registers: {', '.join(sorted(ids)) or 'none'}.",
        ) from error


def _checked(maker: Maker, task: str) -> Maker:
    """Raise TaskError for callables that cannot return an environment, without calling them."""
    function = maker
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isclass(function):
        if issubclass(function, gym.Env):
            return maker
        raise TaskError(
            f"'{task}' is the class {function.__qualname__}, not a gymnasium.Env.",
            "Name a subclass of gymnasium.Env, or a function that returns an environment. "
            f"{FORMER_API}",
        )
    # No function of the standard library returns environments; many are harmful.
    module = str(getattr(function, "__module__", None) or type(function).__module__)
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise TaskError(
            f"'{task}' is {module}.{getattr(function, '__qualname__', 'an object')} of Python's "
            "standard library, not an environment.",
            "Name a subclass of gymnasium.Env, or a function that returns an environment.",
        )
    return maker


# Prefixes of ids: (module that registers them, package to install).
PROVIDERS = {
    ("MiniGrid-", "BabyAI-"): ("minigrid", "minigrid"),
    ("MiniWorld-",): ("miniworld", "miniworld"),
    ("MinAtar/",): ("minatar.gym", "minatar"),
    ("Fetch", "HandManipulate", "AntMaze", "PointMaze", "AdroitHand", "FrankaKitchen"): (
        "gymnasium_robotics",
        "gymnasium-robotics",
    ),
    ("highway-", "merge-", "roundabout-", "parking-", "intersection-", "racetrack-"): (
        "highway_env",
        "highway-env",
    ),
}


def provider_of(env_id: str) -> str:
    """A hint for ids of well-known packages; empty for other ids."""
    for beginnings, (module, package) in PROVIDERS.items():
        if env_id.startswith(beginnings):
            if find_spec(module.partition(".")[0]) is not None:
                return f"Did you mean '{module}:{env_id}'?"
            return f"Install its package (pip install {package}) and name it '{module}:{env_id}'."
    return ""


def home(spec: gym.envs.registration.EnvSpec) -> str:
    """The module of a registered environment."""
    return str(getattr(spec.entry_point, "__module__", spec.entry_point)).partition(":")[0]


@contextmanager
def _building(task: str) -> Iterator[None]:
    """Convert exceptions of the environment's code to EnvCreationError."""
    try:
        yield
    except gym.error.DependencyNotInstalled as error:
        raise EnvCreationError(f"The environment '{task}' lacks a package: {error}.") from error
    except FOREIGN as error:
        message = f"The environment '{task}' could not be built: {error!r}."
        raise EnvCreationError(message, "The exception was raised by the environment.") from error


def build(
    task: str, env_id: str, maker: Maker | None, options: GymnasiumOptions
) -> gym.Env[Any, Any]:
    """Build the environment and wrap it as the options specify."""
    kwargs = dict(options.kwargs)
    if options.render:
        kwargs["render_mode"] = "rgb_array"
    limit = options.time_limit
    with _building(task):
        if maker is None:
            env = gym.make(env_id, max_episode_steps=limit, disable_env_checker=True, **kwargs)
        else:
            env = maker(**kwargs)
    if not isinstance(env, gym.Env):
        raise EnvCreationError(
            f"'{task}' returned a {type(env).__name__}, not a gymnasium.Env.",
            f"Derive the class from gymnasium.Env. {FORMER_API}",
        )
    env = check_api(env)
    if maker is not None and limit is not None:
        env = TimeLimit(env, limit)
    if options.repeat > 1:
        env = RepeatAction(env, options.repeat)
    if options.render:
        # After the repeat: skipped frames are not rendered.
        with _building(task):  # the wrapper renders a frame
            env = AddRenderObservation(env, render_only=False, render_key="image", obs_key="state")
    if options.size:
        space = env.observation_space
        if resized(space, options.size) is not space:
            env = ResizeImages(env, options.size)
    return env


def providers(module: str) -> list[str]:
    """The installed distributions of a module."""
    top = module.partition(".")[0]
    if top in {"gymnasium", "wmtk"}:  # the lookup takes 0.1 s
        return []
    return sorted(set(metadata.packages_distributions().get(top, [])))
