"""Who chooses the actions while data is collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wmtk.envs.gymnasium_env import import_module
from wmtk.errors import FOREIGN, UsageError, WmtkError
from wmtk.spaces import ArraySpec

Observation = Mapping[str, NDArray[Any]]  # leaves by key, as wmtk.spaces.flatten_value gives them
DRAWN_AT_ONCE = 256  # random actions


@runtime_checkable
class Policy(Protocol):
    """Chooses actions for several environments at once; each has a slot of its own."""

    name: str
    checkpoint: str  # hash of the weights, empty if there are none
    needs_obs: bool  # False: actions do not depend on what is seen

    def begin(self, slot: int) -> None:
        """A new episode has begun in a slot."""

    def act(self, slots: Sequence[int], obs: Sequence[Observation]) -> list[NDArray[Any]]:
        """An action for each of the slots; `obs` is empty unless the policy needs it."""


class RandomPolicy:
    """Uniform over the action space (standard normal where it has no bounds)."""

    name = "random"
    checkpoint = ""
    needs_obs = False

    def __init__(self, action: ArraySpec, seed: Sequence[int]) -> None:
        self._spec = action
        self._seed = tuple(seed)
        self._low, self._high = action.bound("low"), action.bound("high")
        self._dtype = np.dtype(action.dtype)
        # A stream for each slot: its actions do not depend on how many others there are.
        self._streams: dict[int, Iterator[NDArray[Any]]] = {}

    def begin(self, slot: int) -> None:
        pass

    def act(self, slots: Sequence[int], obs: Sequence[Observation] = ()) -> list[NDArray[Any]]:
        for slot in slots:
            if slot not in self._streams:
                self._streams[slot] = self._stream(slot)
        return [next(self._streams[slot]) for slot in slots]

    def _stream(self, slot: int) -> Iterator[NDArray[Any]]:
        rng = np.random.default_rng(np.random.SeedSequence([*self._seed, slot]))
        while True:
            yield from self._block(rng)

    def _block(self, rng: np.random.Generator) -> NDArray[Any]:
        """Many actions at once: one alone takes 20 µs, of a game's step of 600."""
        shape = (DRAWN_AT_ONCE, *self._spec.shape)
        if self._spec.kind != "box" or self._dtype.kind != "f":
            drawn = rng.integers(self._low, self._high, shape, endpoint=True, dtype=np.int64)
            return drawn.astype(self._dtype)
        bounded = np.isfinite(self._low) & np.isfinite(self._high)
        low, high = np.where(bounded, self._low, 0), np.where(bounded, self._high, 1)
        values = np.where(bounded, rng.uniform(low, high, shape), rng.standard_normal(shape))
        return np.clip(values, self._low, self._high).astype(self._dtype)


class CallablePolicy:
    """Any function of one observation; it gets the array itself if there is only one key."""

    checkpoint = ""
    needs_obs = True

    def __init__(self, function: Callable[[Any], Any], action: ArraySpec, name: str = "") -> None:
        self.name = name or getattr(function, "__qualname__", "callable")
        self._function = function
        self._spec = action

    def begin(self, slot: int) -> None:
        pass

    def act(self, slots: Sequence[int], obs: Sequence[Observation]) -> list[NDArray[Any]]:
        actions = []
        for seen in obs:
            given = next(iter(seen.values())) if len(seen) == 1 else seen
            try:
                chosen = np.asarray(self._function(given))
                with np.errstate(invalid="ignore"):
                    action = chosen.astype(self._spec.dtype)
            except FOREIGN as error:  # whatever a user's function raises
                raise UsageError(
                    f"The policy {self.name} failed: {type(error).__name__}: {error}",
                    "`wmtk --debug …` shows where.",
                ) from error
            if action.shape != self._spec.shape:
                raise UsageError(
                    f"The policy {self.name} returned an action of shape {action.shape}.",
                    f"The environment takes {self._spec}.",
                )
            if not self._is_action(chosen, action):
                raise UsageError(
                    f"The policy {self.name} returned {chosen}, which is not an action.",
                    f"The environment takes {self._spec}.",
                )
            actions.append(action)
        return actions

    def _is_action(self, chosen: NDArray[Any], action: NDArray[Any]) -> bool:
        """Whether it is finite and, where actions are whole numbers, one of those.

        Whether it is within the bounds of a box is checked where it is stored.
        """
        if action.dtype.kind == "f":
            return bool(np.isfinite(action).all())
        is_one = self._spec.kind == "box" or self._spec.first_outside(action[None]) is None
        return is_one and np.array_equal(action, chosen)


class EpsilonGreedy:
    """Another policy, but with probability ε a random action."""

    needs_obs = True

    def __init__(
        self, policy: Policy, epsilon: float, action: ArraySpec, seed: Sequence[int]
    ) -> None:
        if not 0 <= epsilon <= 1:
            raise UsageError(f"ε = {epsilon} is not a probability.", "Use a number from 0 to 1.")
        self.name = f"{policy.name} ε={epsilon:g}"
        self.checkpoint = policy.checkpoint
        self._policy = policy
        self._epsilon = epsilon
        self._random = RandomPolicy(action, [*seed, 1])
        self._coin = np.random.default_rng(np.random.SeedSequence([*seed, 2]))

    def begin(self, slot: int) -> None:
        self._policy.begin(slot)

    def act(self, slots: Sequence[int], obs: Sequence[Observation]) -> list[NDArray[Any]]:
        chosen, drawn = self._policy.act(slots, obs), self._random.act(slots)
        random = self._coin.random(len(slots)) < self._epsilon
        return [d if use else c for c, d, use in zip(chosen, drawn, random, strict=True)]


def load_policy(name: str, action: ArraySpec, seed: Sequence[int]) -> Policy:
    """A policy by name: `random`, or `package.module:function` of an observation."""
    function = find_policy(name)
    if function is None:
        return RandomPolicy(action, seed)
    return CallablePolicy(function, action, name)


def find_policy(name: str) -> Callable[[Any], Any] | None:
    """The function that a policy's name stands for, None for `random`.

    Its module is looked for as that of an environment, in the current folder too.
    """
    if name == "random":
        return None
    _, colon, attribute = name.partition(":")
    if not colon:
        raise UsageError(
            f"Unknown policy {name!r}.",
            "Use 'random', the run directory of a trained policy, or 'package.module:function' for "
            "a function from an observation to an action.",
        )
    try:
        module, _ = import_module(name)
        found: Callable[[Any], Any] = getattr(module, attribute)
        return found
    except (WmtkError, AttributeError) as error:
        reason = error.__cause__ or error  # what importing the module raised
        raise UsageError(
            f"The policy '{name}' cannot be imported: {reason}.",
            "Run the command in the folder that holds the module, or install it. The name after "
            "the colon is that of a function from an observation to an action.",
        ) from error
