"""Run policies in environments to collect episodes into a dataset or to evaluate a policy."""

from wmtk.collecting.collector import CollectReport, collect_episodes
from wmtk.collecting.driver import RolloutProgress
from wmtk.collecting.env_setup import max_steps
from wmtk.collecting.evaluator import EpisodeResult, EvalReport, evaluate_policy
from wmtk.collecting.policies import (
    CallablePolicy,
    EpsilonGreedy,
    Policy,
    RandomPolicy,
    find_policy,
    load_policy,
)
from wmtk.collecting.recording_policy import EpisodeRecording, PolicyIntrospector
from wmtk.collecting.task_dataset import dataset_for, schema_of, seed_entropy
from wmtk.envs import task_of
from wmtk.envs.task import MAX_EPISODE_STEPS

__all__ = [
    "MAX_EPISODE_STEPS",
    "CallablePolicy",
    "CollectReport",
    "EpisodeRecording",
    "EpisodeResult",
    "EpsilonGreedy",
    "EvalReport",
    "Policy",
    "PolicyIntrospector",
    "RandomPolicy",
    "RolloutProgress",
    "collect_episodes",
    "dataset_for",
    "evaluate_policy",
    "find_policy",
    "load_policy",
    "max_steps",
    "schema_of",
    "seed_entropy",
    "task_of",
]
