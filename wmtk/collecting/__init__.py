"""Playing in an environment: to keep the episodes, or to see how good a policy is."""

from wmtk.collecting.collector import CollectReport, collect_episodes
from wmtk.collecting.driver import PlayProgress, most_steps
from wmtk.collecting.evaluator import EvalReport, Trial, evaluate_policy
from wmtk.collecting.policies import (
    CallablePolicy,
    EpsilonGreedy,
    Policy,
    RandomPolicy,
    find_policy,
    load_policy,
)
from wmtk.collecting.recording_policy import PolicyIntrospector, Recording
from wmtk.collecting.task_dataset import dataset_for, schema_of, seed_words
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
    "collect_episodes",
    "dataset_for",
    "evaluate_policy",
    "find_policy",
    "load_policy",
    "most_steps",
    "schema_of",
    "seed_words",
    "task_of",
]
