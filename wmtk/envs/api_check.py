"""Check foreign environments against the API of gymnasium.Env."""

from __future__ import annotations

import inspect
from typing import Any, SupportsFloat

import gymnasium as gym

from wmtk.errors import EnvironmentApiError

FORMER_API = (
    "Environments of the former package gym can be wrapped with shimmy.GymV21CompatibilityV0 or "
    "shimmy.GymV26CompatibilityV0."
)


class CheckApi(gym.Wrapper[Any, Any, Any, Any]):
    """Raises EnvironmentApiError if `reset` or `step` violate the API of gymnasium.Env."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._name = type(env.unwrapped).__qualname__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if not _accepts(self.env.reset, "seed"):
            raise EnvironmentApiError(
                f"{self._name}.reset() takes no argument seed.",
                "Gymnasium's rule: reset(self, *, seed=None, options=None). Add both arguments "
                f"and call super().reset(seed=seed) first. {FORMER_API}",
            )
        arguments = {} if options is None else {"options": options}
        result: Any = self.env.reset(seed=seed, **arguments)
        if not _is_sequence(result, 2) or not isinstance(result[1], dict):
            raise EnvironmentApiError(
                f"{self._name}.reset() returned {_described(result)} instead of (obs, info).",
                "Gymnasium's rule: reset() returns the observation and a dict. End it with "
                f"`return obs, {{}}`. {FORMER_API}",
            )
        return result[0], result[1]

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        result: Any = self.env.step(action)
        if not _is_sequence(result, 5):
            raise EnvironmentApiError(
                f"{self._name}.step() returned {_described(result)} instead of (obs, reward, "
                "terminated, truncated, info).",
                "Gymnasium's rule: step() returns five values. Replace done by terminated (the "
                "state ends the task) and truncated (a time limit ended the episode). "
                f"{FORMER_API}",
            )
        obs, reward, terminated, truncated, info = result
        if reward is None or isinstance(reward, str | bytes | dict | list | tuple):
            raise EnvironmentApiError(
                f"{self._name}.step() returned the reward {reward!r}.",
                "Gymnasium's rule: the reward is a number. Return 0.0 for steps without a reward.",
            )
        return obs, reward, terminated, truncated, info


def check_api(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Insert `CheckApi` below the wrappers of `gym.make`.

    Environments of gymnasium and wmtk are returned unchanged.
    """
    if _is_of(env.unwrapped, "gymnasium", "wmtk"):
        return env
    if not isinstance(env, gym.Wrapper) or not _is_of(env, "gymnasium"):
        return CheckApi(env)
    outer = env
    while isinstance(outer.env, gym.Wrapper) and _is_of(outer.env, "gymnasium"):
        outer = outer.env
    outer.env = CheckApi(outer.env)
    return env


def _is_of(env: gym.Env[Any, Any], *packages: str) -> bool:
    return type(env).__module__.partition(".")[0] in packages


def _accepts(function: Any, name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a function that is not written in Python
        return True
    return name in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def _is_sequence(value: Any, length: int) -> bool:
    return isinstance(value, tuple | list) and len(value) == length


def _described(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{len(value)} value{'' if len(value) == 1 else 's'}"
    return f"one {type(value).__name__}"
