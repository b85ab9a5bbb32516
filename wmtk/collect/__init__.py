"""Playing in an environment: to keep the episodes, or to see how good a policy is."""

from wmtk.collect.collector import CollectReport, collect
from wmtk.collect.evaluator import EvalReport, Trial, evaluate
from wmtk.collect.mind import Mind, Recording
from wmtk.collect.play import PlayProgress, most_steps
from wmtk.collect.policy import (
    CallablePolicy,
    EpsilonGreedy,
    Policy,
    RandomPolicy,
    find_policy,
    load_policy,
)
from wmtk.collect.target import dataset_for, schema_of, seed_words
from wmtk.envs import task_of
from wmtk.envs.task import LONGEST_EPISODE

__all__ = [
    "LONGEST_EPISODE",
    "CallablePolicy",
    "CollectReport",
    "EpsilonGreedy",
    "EvalReport",
    "Mind",
    "PlayProgress",
    "Policy",
    "RandomPolicy",
    "Recording",
    "Trial",
    "collect",
    "dataset_for",
    "evaluate",
    "find_policy",
    "load_policy",
    "most_steps",
    "schema_of",
    "seed_words",
    "task_of",
]
