"""The original's update: `WorldModel.train` and `ActorCritic.train`, compiled as `Agent.train` is.

`Agent.train` calls the one and then the other. Here each is compiled for itself, so that both can
be timed, or the world model's be run alone.

dreamerv2 2.2.0 was written for TensorFlow 2.6. With a current one it needs Keras 2 (`tf_keras`)
and a name that has moved since, `mixed_precision.experimental`; nothing else is touched. Settings
are those of its own file for Atari, in 32 bits: its half precision is for graphics processors.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from importlib import import_module, util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
warnings.filterwarnings("ignore")

import ruamel.yaml as yaml  # noqa: E402
import tensorflow as tf  # noqa: E402
from serve import Arrays, Job, serve, versions  # noqa: E402


def original() -> tuple[Any, Any, Path]:
    """Its modules `agent` and `common`, imported as its own train.py does, and their folder."""
    spec = util.find_spec("dreamerv2")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations)))
    sys.path.append(str(folder))
    precision: Any = import_module("tensorflow.keras.mixed_precision")
    precision.experimental = precision
    import agent
    import common

    return agent, common, folder


def prepare(arrays: Arrays, args: argparse.Namespace) -> Job:
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(args.threads)
    tf.random.set_seed(0)
    agent, common, folder = original()
    configs = yaml.safe_load((folder / "configs.yaml").read_text())
    config = common.Config(configs["defaults"]).update(configs["atari"])
    rows = {
        "image": arrays["image"],
        "action": arrays["action"],
        "reward": arrays["reward"],
        "is_first": arrays["is_first"],
        "is_last": arrays["terminal"],
        "is_terminal": arrays["terminal"],
    }
    data = {key: tf.constant(value) for key, value in rows.items()}
    seen = {k: SimpleNamespace(shape=v.shape[2:]) for k, v in rows.items() if k != "action"}
    model = agent.WorldModel(config, seen, tf.Variable(0, dtype=tf.int64))

    actions = SimpleNamespace(shape=arrays["action"].shape[2:], n=arrays["action"].shape[-1])
    behavior = agent.ActorCritic(config, actions, tf.Variable(0, dtype=tf.int64))

    @tf.function  # type: ignore[untyped-decorator]
    def train(data: Any, state: Any) -> Any:
        state, outputs, metrics = model.train(data, state)
        return state, outputs["post"], metrics

    @tf.function  # type: ignore[untyped-decorator]
    def learn(start: Any, is_terminal: Any) -> Any:
        reward = lambda seq: model.heads["reward"](seq["feat"]).mode()  # noqa: E731
        return behavior.train(model, start, is_terminal, reward)

    # The state after one batch is where the next begins, as in the original. It begins with what
    # `observe` takes for none, or there would be a second graph to build for that.
    held = [model.rssm.initial(len(arrays["reward"]))]

    def run() -> dict[str, float]:
        held[0], post, metrics = train(data, held[0])
        loss = float(metrics["model_loss"])
        if args.stage != "full":
            return {"loss": loss}
        reached = time.perf_counter()
        float(learn(post, data["is_terminal"])["actor_loss"])
        return {"loss": loss, "behavior": time.perf_counter() - reached}

    def about() -> dict[str, object]:
        modules = (model.encoder, model.rssm, *model.heads.values())
        parameters = sum(int(tf.size(weight)) for part in modules for weight in part.variables)
        return {"parameters": parameters, "versions": versions("dreamerv2", "tensorflow-cpu")}

    return Job(run, about)


if __name__ == "__main__":
    serve(prepare, "stage")
