"""Published and computed returns of tasks, as references for measured returns."""

from __future__ import annotations

import gymnasium as gym

from wmtk.envs import catch, reach
from wmtk.envs.task import ResolvedTask
from wmtk.envs.task_options import AtariOptions, GymnasiumOptions
from wmtk.scores import find_game, references

# `wmtk.envs.catch` and `wmtk.envs.reach` describe how these returns were computed.
EMBEDDED = {
    "wmtk/Catch-v0": {"random": catch.RANDOM_RETURN, "optimal": catch.OPTIMAL_RETURN},
    "wmtk/Reach-v0": {"random": reach.RANDOM_RETURN, "controller": reach.CONTROLLER_RETURN},
}


def known_returns(task: ResolvedTask) -> dict[str, float]:
    """Mean returns by the name of the policy, the random policy first; empty for unknown tasks.

    Returns of Catch and Reach are known for the default options only, those of Atari for the
    default time limit. The Atari returns are from the score table of the paper; its random and
    human returns were measured under older rules, without sticky actions.
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
    """Gymnasium's reward threshold for a solved task; None with options that change the task."""
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
