"""wmtk, the World Model ToolKit: collect data, train world models and policies, inspect them.

The four stages are `collect`, `train_model`, `train_policy` and `evaluate`; `online` alternates
them. `load` opens a trained run, `Dataset` an episode dataset, and `wmtk.viz` inspects both. Names
are imported at their first use: `import wmtk` loads neither torch nor zarr.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmtk import collecting as collecting
    from wmtk import datasets as datasets
    from wmtk import envs as envs
    from wmtk import errors as errors
    from wmtk import models as models
    from wmtk import scores as scores
    from wmtk import spaces as spaces
    from wmtk import viz as viz
    from wmtk.agent.collect_task import collect as collect
    from wmtk.agent.load import LoadedAgent as LoadedAgent
    from wmtk.agent.load import LoadedModel as LoadedModel
    from wmtk.agent.load import load as load
    from wmtk.agent.policy_evaluation import PolicyEvaluation as PolicyEvaluation
    from wmtk.agent.policy_evaluation import evaluate as evaluate
    from wmtk.collecting import CollectReport as CollectReport
    from wmtk.collecting import EvalReport as EvalReport
    from wmtk.collecting import RandomPolicy as RandomPolicy
    from wmtk.datasets import Batch as Batch
    from wmtk.datasets import Dataset as Dataset
    from wmtk.datasets import Episode as Episode
    from wmtk.datasets import Schema as Schema
    from wmtk.datasets import SequenceSampler as SequenceSampler
    from wmtk.datasets import Source as Source
    from wmtk.envs import make_env as make_env
    from wmtk.envs import resolve as resolve
    from wmtk.errors import WmtkError as WmtkError
    from wmtk.runs.run_directory import Run as Run
    from wmtk.runs.training_config import TrainingConfig as TrainingConfig
    from wmtk.training.model_stage import train_model as train_model
    from wmtk.training.online.train import online as online
    from wmtk.training.policy_stage import train_policy as train_policy
    from wmtk.training.presets import training_config as training_config

__version__ = "0.1.0"

_HOMES = {
    "wmtk.agent.collect_task": ["collect"],
    "wmtk.agent.load": ["LoadedAgent", "LoadedModel", "load"],
    "wmtk.agent.policy_evaluation": ["PolicyEvaluation", "evaluate"],
    "wmtk.collecting": ["CollectReport", "EvalReport", "RandomPolicy"],
    "wmtk.datasets": ["Batch", "Dataset", "Episode", "Schema", "SequenceSampler", "Source"],
    "wmtk.envs": ["make_env", "resolve"],
    "wmtk.errors": ["WmtkError"],
    "wmtk.runs.run_directory": ["Run"],
    "wmtk.training.online.train": ["online"],
    "wmtk.runs.training_config": ["TrainingConfig"],
    "wmtk.training.presets": ["training_config"],
    "wmtk.training.model_stage": ["train_model"],
    "wmtk.training.policy_stage": ["train_policy"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = ("collecting", "datasets", "envs", "errors", "models", "scores", "spaces", "viz")

__all__ = ["__version__", *_HOME, *_PACKAGES]


if not TYPE_CHECKING:  # with it, type checkers accept any attribute

    def __getattr__(name: str) -> Any:
        if name in _PACKAGES:
            return import_module(f"wmtk.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'wmtk' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
