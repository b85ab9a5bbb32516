"""Playing in an environment: to keep the episodes, or to see how good a policy is."""

from wmtk.collect.collector import CollectReport, collect
from wmtk.collect.driver import PlayProgress, most_steps
from wmtk.collect.evaluator import EvalReport, Trial, evaluate
from wmtk.collect.policies import (
    CallablePolicy,
    EpsilonGreedy,
    Policy,
    RandomPolicy,
    find_policy,
    load_policy,
)
from wmtk.collect.recording_policy import PolicyIntrospector, Recording
from wmtk.collect.task_dataset import dataset_for, schema_of, seed_words
from wmtk.envs import task_of
from wmtk.envs.task import LONGEST_EPISODE

__all__ = [
    "LONGEST_EPISODE",
    "CallablePolicy",
    "CollectReport",
    "EpsilonGreedy",
    "EvalReport",
    "PlayProgress",
    "Policy",
    "PolicyIntrospector",
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
