"""The first stage: play in an environment and keep the episodes."""

from wmtk.collect.collector import CollectReport, collect
from wmtk.collect.play import PlayProgress
from wmtk.collect.policy import (
    CallablePolicy,
    EpsilonGreedy,
    Policy,
    RandomPolicy,
    find_policy,
    load_policy,
)
from wmtk.collect.target import dataset_for, schema_of

__all__ = [
    "CallablePolicy",
    "CollectReport",
    "EpsilonGreedy",
    "PlayProgress",
    "Policy",
    "RandomPolicy",
    "collect",
    "dataset_for",
    "find_policy",
    "load_policy",
    "schema_of",
]
