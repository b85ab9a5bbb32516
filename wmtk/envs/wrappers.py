"""Wrappers for foreign environments: action repeat, selected keys, image size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from wmtk.area_resize import AreaScaler
from wmtk.observations import chosen_keys
from wmtk.spaces import CHANNELS, MIN_IMAGE_SIDE, leaf_spaces


class RepeatAction(gym.Wrapper[Any, Any, Any, Any]):
    """Applies each action `repeat` times, or until the episode ends, and sums the rewards."""

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


class SelectKeys(gym.ObservationWrapper[Any, Any, Any]):
    """Selects keys of the observation: those named, or all except those with a leading '-'."""

    def __init__(self, env: gym.Env[Any, Any], selection: Sequence[str]) -> None:
        super().__init__(env)
        self._structure, leaves = leaf_spaces(env.observation_space)
        self._keys = frozenset(chosen_keys(leaves, selection))
        self.observation_space = self._select(self._structure, env.observation_space)

    def observation(self, observation: Any) -> Any:
        return self._select(self._structure, observation)

    def _select(self, structure: Any, value: Any) -> Any:
        """The selected leaves of a value or a space; None if it has no selected leaf."""
        if isinstance(structure, str):
            return value if structure in self._keys else None
        if "dict" in structure:
            subs = structure["dict"].items()
            inner = {name: self._select(sub, value[name]) for name, sub in subs}
            selected = {name: sub for name, sub in inner.items() if sub is not None}
            result: Any = spaces.Dict(selected) if isinstance(value, spaces.Dict) else selected
            return result if selected else None
        elements = map(self._select, structure["tuple"], value)
        parts = tuple(element for element in elements if element is not None)
        result = spaces.Tuple(parts) if isinstance(value, spaces.Tuple) else parts
        return result if parts else None


class ResizeImages(gym.ObservationWrapper[Any, Any, Any]):
    """Scales all images of the observation to size × size by area averaging."""

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
        if not is_image(space):
            return value
        pixels = np.asarray(value)
        shape = pixels.shape[0], pixels.shape[1]
        if shape not in self._scalers:
            self._scalers[shape] = AreaScaler(*shape, self._size)
        return self._scalers[shape](pixels)


def is_image(space: spaces.Space[Any]) -> bool:
    """Whether a space is of uint8 images (H, W) or (H, W, C) of at least 32×32 pixels."""
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return False
    shape = space.shape
    if len(shape) == 3 and shape[-1] not in CHANNELS:
        return False
    return len(shape) in (2, 3) and min(shape[:2]) >= MIN_IMAGE_SIDE


def resized(space: spaces.Space[Any], size: int) -> spaces.Space[Any]:
    """The space with all images at size × size; `space` itself if nothing changes."""
    if isinstance(space, spaces.Dict):
        children = {name: resized(sub, size) for name, sub in space.spaces.items()}
        same = all(children[name] is sub for name, sub in space.spaces.items())
        return space if same else spaces.Dict(children)
    if isinstance(space, spaces.Tuple):
        elements = tuple(resized(sub, size) for sub in space.spaces)
        same = all(new is old for new, old in zip(elements, space.spaces, strict=True))
        return space if same else spaces.Tuple(elements)
    if not is_image(space):
        return space
    assert space.shape is not None, space
    channels = space.shape[2] if len(space.shape) == 3 else 1
    shape = (size, size, channels)
    return space if space.shape == shape else spaces.Box(0, 255, shape, np.uint8)
