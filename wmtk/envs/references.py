"""Returns that are known of a task, to measure others by."""

from __future__ import annotations

from wmtk.envs import catch, reach
from wmtk.envs.task import ResolvedTask
from wmtk.scores import find_game, references

# Where `wmtk.envs.catch` and `wmtk.envs.reach` say how they were found.
EMBEDDED = {
    "wmtk/Catch-v0": {"random": catch.RANDOM_RETURN, "optimal": catch.OPTIMAL_RETURN},
    "wmtk/Reach-v0": {"random": reach.RANDOM_RETURN, "controller": reach.CONTROLLER_RETURN},
}


def known_returns(task: ResolvedTask) -> dict[str, float]:
    """Mean returns by who plays, random play first; empty where nothing is known.

    Those of the embedded environments hold for their own action repeat and time limit. Those of
    Atari, of the paper's table of scores, were measured by rules that differ from paper to paper.
    """
    if task.kind == "atari":
        game = find_game(task.env_id)
        if game is None:
            return {}
        known = references([game])
        return {name: column.item() for name, column in known._asdict().items()}
    options = task.kwargs
    changed = options["repeat"] != 1 or options["time_limit"] is not None or options.get("kwargs")
    return {} if task.kind != "gymnasium" or changed else dict(EMBEDDED.get(task.env_id, {}))
