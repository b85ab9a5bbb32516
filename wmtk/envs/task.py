"""Resolve tasks by name: `atari_pong`, `dmc_walker_walk`, `CartPole-v1`, `package.module:Id`."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

from wmtk import __version__
from wmtk.envs import gymnasium_env
from wmtk.envs.task_options import (
    AtariOptions,
    DmcOptions,
    GymnasiumOptions,
    did_you_mean,
    read_options,
)
from wmtk.envs.wrappers import SelectKeys
from wmtk.errors import ConfigError, MissingDependencyError, SpaceError, TaskError
from wmtk.observations import key_names
from wmtk.spaces import ArraySpec, flatten_space

Kind = Literal["atari", "dmc", "gymnasium", "module", "entry_point"]
Options = AtariOptions | DmcOptions | GymnasiumOptions


MAX_EPISODE_STEPS = 100_000  # agent steps, for tasks without a time limit


@dataclass(frozen=True)
class ResolvedTask:
    """A task with all options. Picklable, for worker processes."""

    task: str
    kind: Kind
    env_id: str
    options: Options
    versions: dict[str, str]

    @property
    def kwargs(self) -> dict[str, Any]:
        return dataclasses.asdict(self.options)

    @property
    def action_repeat(self) -> int:
        return self.options.repeat

    @property
    def time_limit(self) -> int | None:
        """Agent steps after which an episode is truncated; None if there is no known limit."""
        limit = self.options.time_limit
        if limit is None and self.kind in ("gymnasium", "module"):
            limit = gymnasium_env.registered_limit(self.env_id)
            if limit is not None and limit > MAX_EPISODE_STEPS * self.action_repeat:
                return None  # episodes do not reach it
        return None if limit is None else -(-limit // self.action_repeat)

    @property
    def settings(self) -> dict[str, Any]:
        """The task with all options as JSON data, which is stored with datasets and runs."""
        settings = {"task": self.task, "kind": self.kind, "env_id": self.env_id, **self.kwargs}
        if self.kind == "atari":
            settings |= ATARI_RULES
        if self.kind == "dmc" and isinstance(self.options, DmcOptions):
            from wmtk.envs import dmc

            settings["camera"] = dmc.camera(dmc.find_task(self.env_id)[0], self.options)
        return {**settings, "versions": self.versions}

    def make(self) -> gym.Env[Any, Any]:
        """Build the environment; seed it with `reset(seed=…)`."""
        env = self._build()
        try:
            if self.options.obs_keys:
                env = SelectKeys(env, key_names(self.options.obs_keys))
            check_spaces(env)
        except (ConfigError, SpaceError):
            env.close()
            raise
        return env

    def _build(self) -> gym.Env[Any, Any]:
        options = self.options
        if isinstance(options, AtariOptions):
            from wmtk.envs import atari

            return atari.AtariEnv(atari.find_rom(self.env_id), options, render_mode="rgb_array")
        if isinstance(options, DmcOptions):
            from wmtk.envs import dmc

            return dmc.DmcEnv(*dmc.find_task(self.env_id), options, render_mode="rgb_array")
        maker: gymnasium_env.Maker | None = None
        if self.kind == "module":
            maker = gymnasium_env.module_maker(self.task)
        elif self.kind == "entry_point":
            maker = gymnasium_env.load_entry_point(self.task)
        return gymnasium_env.build(self.task, self.env_id, maker, options)


# Fixed rules that scores depend on.
ATARI_RULES = {
    "pooling": "max of the last two frames (of their grays, unless rgb)",
    "resize": "area mean, through 84x84",
    "noops": "uniform over 1..noop_max, not counted in time_limit",
    "life_loss": "neither ends an episode nor is shown",
    "time_limit_unit": "frames, as truncation",
}


def make_env(task: str, **options: Any) -> gym.Env[Any, Any]:
    """Make the environment of a task, a `gymnasium.Env`.

    Example:
        >>> import wmtk
        >>> env = wmtk.make_env("wmtk/Catch-v0")
        >>> obs, info = env.reset(seed=0)
        >>> obs.shape
        (64, 64, 1)

    Args:
        task: `atari_<game>`, `dmc_<domain>_<task>`, a gymnasium id, or `module:Id`.
        options: Options of the task, such as `size=96`; `wmtk.resolve` returns all of them.
    """
    return resolve(task, **options).make()


def resolve(task: str, **options: Any) -> ResolvedTask:
    """Resolve a task name without building the environment.

    The module of `package.module:Id` is imported; use `task_of` for names from files.
    """
    resolved = identify(task, **options)
    if resolved.kind == "module":
        gymnasium_env.module_maker(task)
    return resolved


def identify(task: str, **options: Any) -> ResolvedTask:
    """Like `resolve`, without importing the module of `package.module:Id`."""
    if task.startswith(("atari_", "ALE/")):
        from wmtk.envs import atari

        env_id = atari.ale_id(atari.find_rom(task))
        return _resolved(task, "atari", env_id, AtariOptions, options, ["ale-py"])
    if task.startswith("dmc_"):
        from wmtk.envs import dmc

        env_id = "dmc_" + "_".join(dmc.find_task(task))
        return _resolved(task, "dmc", env_id, DmcOptions, options, ["dm_control", "mujoco"])
    point = gymnasium_env.entry_point(task)
    if point is not None:
        packages = [point.dist.name] if point.dist is not None else []
        return _resolved(task, "entry_point", task, GymnasiumOptions, options, packages)
    if ":" in task:
        module, env_id = gymnasium_env.module_and_id(task)
        return _resolved(
            task, "module", env_id, GymnasiumOptions, options, gymnasium_env.providers(module)
        )
    if gymnasium_env.registered(task):
        packages = gymnasium_env.providers(gymnasium_env.home(gym.spec(task)))
        return _resolved(task, "gymnasium", task, GymnasiumOptions, options, packages)
    raise _unknown(task)


def _resolved(
    task: str,
    kind: Kind,
    env_id: str,
    cls: type[Options],
    options: dict[str, Any],
    packages: list[str],
) -> ResolvedTask:
    values = read_options(cls, task, options)
    try:
        json.dumps(dataclasses.asdict(values))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"The options of {task} cannot be stored: {error}."
        raise TaskError(message, "Use plain numbers, texts, lists and dicts.") from error
    versions = {"wmtk": __version__} | {
        package: metadata.version(package) for package in ["gymnasium", *packages]
    }
    return ResolvedTask(task, kind, env_id, values, versions)


def known_tasks() -> list[str]:
    """All tasks that are installed, for suggestions and completion."""
    names = [*gymnasium_env.entry_point_names()]
    names += [name for name in gym.registry if gymnasium_env.registered(name)]
    try:
        from wmtk.envs import atari

        names += [f"atari_{rom}" for rom in atari.games()]
    except MissingDependencyError:
        pass
    try:
        from wmtk.envs import dmc

        names += dmc.tasks()
    except MissingDependencyError:
        pass
    return sorted(names)


def _unknown(task: str) -> TaskError:
    if task and Path(task).is_dir():
        kind = {"run.json": "a run directory", "zarr.json": "a dataset"}
        what = next((kind[name] for name in kind if Path(task, name).is_file()), "a folder")
        raise TaskError(f"{task} is {what}, not a task.", "Name a task, such as wmtk/Catch-v0.")
    hint = gymnasium_env.provider_of(task) or did_you_mean(task, known_tasks())
    general = (
        "Tasks are atari_<game>, dmc_<domain>_<task>, a gymnasium id such as CartPole-v1, or "
        "package.module:Id for one that a package registers."
    )
    return TaskError(f"Unknown task '{task}'.", f"{hint}\n{general}".strip())


def check_spaces(env: gym.Env[Any, Any]) -> None:
    """Raise SpaceError for unsupported observation and action spaces."""
    flatten_space(env.observation_space)
    if isinstance(env.action_space, gym.spaces.Dict | gym.spaces.Tuple):
        kind = type(env.action_space).__name__
        raise SpaceError(
            f"{kind} action spaces are not supported.",
            "Flatten the space to one Box, Discrete, MultiDiscrete or MultiBinary in a wrapper.",
        )
    ArraySpec.from_gymnasium(env.action_space)
