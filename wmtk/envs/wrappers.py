"""Wrappers for environments that are not ours: action repeat, chosen keys, pictures of one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from wmtk.area_resize import AreaScaler
from wmtk.observations import chosen_keys
from wmtk.spaces import SMALLEST_PICTURE, leaf_spaces

CHANNELS = (1, 3, 4)


class RepeatAction(gym.Wrapper[Any, Any, Any, Any]):
    """Repeat each action, sum the rewards, stop at the end of the episode."""

    def __init__(self, env: gym.Env[Any, Any], repeat: int) -> None:
        super().__init__(env)
        self._repeat = repeat

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        total = 0.0
        for _ in range(self._repeat):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class ChooseKeys(gym.ObservationWrapper[Any, Any, Any]):
    """Keep some keys of the observation: those named, or all but those with a '-' before them."""

    def __init__(self, env: gym.Env[Any, Any], asked: Sequence[str]) -> None:
        super().__init__(env)
        self._structure, leaves = leaf_spaces(env.observation_space)
        self._keys = frozenset(chosen_keys(leaves, asked))
        self.observation_space = self._chosen(self._structure, env.observation_space)

    def observation(self, observation: Any) -> Any:
        return self._chosen(self._structure, observation)

    def _chosen(self, structure: Any, value: Any) -> Any:
        """A value, or a space, without the leaves that are left out; None if nothing is left."""
        if isinstance(structure, str):
            return value if structure in self._keys else None
        if "dict" in structure:
            subs = structure["dict"].items()
            inner = {name: self._chosen(sub, value[name]) for name, sub in subs}
            kept = {name: sub for name, sub in inner.items() if sub is not None}
            made: Any = spaces.Dict(kept) if isinstance(value, spaces.Dict) else kept
            return made if kept else None
        elements = map(self._chosen, structure["tuple"], value)
        parts = tuple(element for element in elements if element is not None)
        made = spaces.Tuple(parts) if isinstance(value, spaces.Tuple) else parts
        return made if parts else None


class ResizePictures(gym.ObservationWrapper[Any, Any, Any]):
    """Scale every picture in the observation to size × size, with the mean of each area."""

    def __init__(self, env: gym.Env[Any, Any], size: int) -> None:
        super().__init__(env)
        self._size = size
        self._scalers: dict[tuple[int, int], AreaScaler] = {}
        self.observation_space = resized(env.observation_space, size)

    def observation(self, observation: Any) -> Any:
        return self._resize(self.env.observation_space, observation)

    def _resize(self, space: spaces.Space[Any], value: Any) -> Any:
        if isinstance(space, spaces.Dict):
            return {name: self._resize(sub, value[name]) for name, sub in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(map(self._resize, space.spaces, value))
        if not is_picture(space):
            return value
        pixels = np.asarray(value)
        shape = pixels.shape[0], pixels.shape[1]
        if shape not in self._scalers:
            self._scalers[shape] = AreaScaler(*shape, self._size)
        return self._scalers[shape](pixels)


def is_picture(space: spaces.Space[Any]) -> bool:
    """Whether values are uint8 pictures: (H, W) or (H, W, 1 or 3 or 4), not tiny."""
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return False
    shape = space.shape
    if len(shape) == 3 and shape[-1] not in CHANNELS:
        return False
    return len(shape) in (2, 3) and min(shape[:2]) >= SMALLEST_PICTURE


def resized(space: spaces.Space[Any], size: int) -> spaces.Space[Any]:
    """The observation space with every picture at size × size; itself if that changes nothing."""
    if isinstance(space, spaces.Dict):
        children = {name: resized(sub, size) for name, sub in space.spaces.items()}
        same = all(children[name] is sub for name, sub in space.spaces.items())
        return space if same else spaces.Dict(children)
    if isinstance(space, spaces.Tuple):
        elements = tuple(resized(sub, size) for sub in space.spaces)
        same = all(new is old for new, old in zip(elements, space.spaces, strict=True))
        return space if same else spaces.Tuple(elements)
    if not is_picture(space):
        return space
    assert space.shape is not None, space
    channels = space.shape[2] if len(space.shape) == 3 else 1
    shape = (size, size, channels)
    return space if space.shape == shape else spaces.Box(0, 255, shape, np.uint8)
