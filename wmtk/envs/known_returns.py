"""Returns that are known of a task, to measure others by."""

from __future__ import annotations

import gymnasium as gym

from wmtk.envs import catch, reach
from wmtk.envs.options import AtariOptions, GymnasiumOptions
from wmtk.envs.task import ResolvedTask
from wmtk.scores import find_game, references

# Where `wmtk.envs.catch` and `wmtk.envs.reach` say how they were found.
EMBEDDED = {
    "wmtk/Catch-v0": {"random": catch.RANDOM_RETURN, "optimal": catch.OPTIMAL_RETURN},
    "wmtk/Reach-v0": {"random": reach.RANDOM_RETURN, "controller": reach.CONTROLLER_RETURN},
}


def known_returns(task: ResolvedTask) -> dict[str, float]:
    """Mean returns by who plays, random play first; empty where nothing is known.

    They are not known for other time limits or, in the embedded environments, another action
    repeat. Those of Atari are of the paper's table of scores; random play and the gamer were
    measured by older rules, without sticky actions.
    """
    if isinstance(task.options, AtariOptions):
        game = find_game(task.env_id)
        if game is None or task.options.time_limit != AtariOptions().time_limit:
            return {}
        return {name: column.item() for name, column in references([game])._asdict().items()}
    if not isinstance(task.options, GymnasiumOptions) or task.options != GymnasiumOptions():
        return {}
    return dict(EMBEDDED.get(task.env_id, {}))


def reward_threshold(task: ResolvedTask) -> float | None:
    """The return from which gymnasium calls a task solved, with its default options only."""
    if task.kind not in ("gymnasium", "module") or not isinstance(task.options, GymnasiumOptions):
        return None
    changed = (task.options.repeat, task.options.time_limit, task.options.kwargs) != (1, None, {})
    if changed:
        return None
    try:
        threshold = gym.spec(task.env_id).reward_threshold
    except gym.error.Error:  # a module's own class has no spec
        return None
    return None if threshold is None else float(threshold)
