"""Environments: Catch and Reach, and adapters to Atari, dm_control and Gymnasium.

Importing this package registers wmtk/Catch-v0 and wmtk/Reach-v0 with gymnasium.
"""

from __future__ import annotations

import gymnasium as gym

from wmtk.envs.from_file import task_of
from wmtk.envs.task import ResolvedTask, known_tasks, make_env, resolve

__all__ = ["ResolvedTask", "known_tasks", "make_env", "resolve", "task_of"]

if "wmtk/Catch-v0" not in gym.registry:
    # Catch terminates one step before its limit; Reach is truncated by its limit.
    gym.register(id="wmtk/Catch-v0", entry_point="wmtk.envs.catch:CatchEnv", max_episode_steps=80)
    gym.register(id="wmtk/Reach-v0", entry_point="wmtk.envs.reach:ReachEnv", max_episode_steps=100)
