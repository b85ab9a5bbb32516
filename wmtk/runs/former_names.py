"""Names of settings, tensors and metrics in run directories of format 1, and their present names.

`wmtk.runs.conversion` renames them in a run; elsewhere, settings with a former name are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from wmtk.errors import ConfigError

_GROUPS = {"behaviour": "behavior", "cadence": "logging"}
_ADAMS = ("optimizer", "behavior.ensemble", "behavior.actor", "behavior.critic")
# By the present name of the group.
_SETTINGS = {
    "model.depth": "model.cnn_depth",
    **{f"{adam}.rate": f"{adam}.lr" for adam in _ADAMS},
    **{f"{adam}.decay": f"{adam}.weight_decay" for adam in _ADAMS},
    "behavior.starts": "behavior.imagination_starts",
    "behavior.trace": "behavior.lambda_",
    "behavior.reinforce": "behavior.reinforce_mix",
    "behavior.slow_every": "behavior.target_update_every",
    "logging.log": "logging.log_every",
    "logging.evaluate": "logging.evaluate_every",
    "logging.checkpoint": "logging.checkpoint_every",
    "logging.keep": "logging.keep_checkpoints",
    "logging.picture": "logging.image_every",
    "online.every": "online.train_every",
    "online.learn_behaviour": "online.learn_behavior",
}
_VALUES = {("online.actor", "learnt"): "learned"}

FOLDERS = {"pictures": "images"}  # of a run directory
_TENSORS = (
    (r"^behaviour/", "behavior/"),
    (r"^behaviour_updates$", "behavior_updates"),
    (r"^stream/behaviour/", "stream/behavior/"),
    (r"^(behavior|explorer)/slow\.", r"\1/target_critic."),
)
_METRICS = (
    (r"^train/rate/", "train/lr/"),
    (r"^share/behaviour$", "share/behavior"),
    (r"^share/pictures$", "share/images"),
    (r"^train/((?:explorer/)?)gradient/", r"train/\1grad_norm/"),
    (r"^eval/imagined$", "eval/predicted_return"),
    (r"^eval/discounted$", "eval/discounted_return"),
    (r"^eval/confirmed(?=$|_low$|_high$)", "eval/confirmed_return"),
    (r"critic/slow_gap$", "critic/target_gap"),
)


def setting_name(name: str) -> str:
    """The present dotted name of a setting, from its former or present one."""
    head, dot, rest = name.partition(".")
    name = f"{_GROUPS.get(head, head)}{dot}{rest}"
    return _SETTINGS.get(name, name)


def rename_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings under their present names."""
    renamed: dict[str, Any] = {}
    for name, value in _leaves(values):
        present = setting_name(name)
        *parents, last = present.split(".")
        group = renamed
        for parent in parents:
            group = group.setdefault(parent, {})
        hashable = isinstance(value, str)
        group[last] = _VALUES.get((present, value), value) if hashable else value
    return renamed


def require_present_names(names: Iterable[str]) -> None:
    """Raise ConfigError for settings with former dotted names; the error lists the present ones."""
    former = {name: setting_name(name) for name in names if setting_name(name) != name}
    if former:
        lines = "\n".join(f"  {old} → {new}" for old, new in former.items())
        raise ConfigError(f"Settings have been renamed:\n{lines}", "Use the names on the right.")


def setting_names(values: Mapping[str, Any]) -> list[str]:
    """The names of nested settings, with dots."""
    return [name for name, _ in _leaves(values)]


def tensor_name(name: str) -> str:
    """The present name of a tensor in a checkpoint."""
    return _rename(_TENSORS, name)


def metric_name(name: str) -> str:
    """The present name of a metric."""
    return _rename(_METRICS, name)


def _rename(rules: Iterable[tuple[str, str]], name: str) -> str:
    for pattern, present in rules:
        name = re.sub(pattern, present, name)
    return name


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Settings with their dotted names. A schedule of a renamed setting counts as one setting."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and setting_name(name) not in _SETTINGS.values():
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value
