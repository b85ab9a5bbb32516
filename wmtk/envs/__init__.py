"""Environments: the embedded ones and the adapters to Atari, dm_control and gymnasium.

Importing this package registers the embedded environments with gymnasium.
"""

from __future__ import annotations

import gymnasium as gym

from wmtk.envs.task import ResolvedTask, known_tasks, make_env, resolve

__all__ = ["ResolvedTask", "known_tasks", "make_env", "resolve"]

if "wmtk/Catch-v0" not in gym.registry:
    gym.register(id="wmtk/Catch-v0", entry_point="wmtk.envs.catch:CatchEnv")
    # Catch ends by itself, Reach by a time limit, which is gymnasium's to count.
    gym.register(id="wmtk/Reach-v0", entry_point="wmtk.envs.reach:ReachEnv", max_episode_steps=100)
