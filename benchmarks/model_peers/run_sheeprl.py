"""sheeprl's update: its own `dreamer_v2.train`, or the first half of it, the world model's.

`train` goes on to learn behavior by calling `imagine`. That function is wrapped here by one that
notes the time or, for the world model alone, stops it. All else is sheeprl's code as it is, and so
are the settings, from its own experiment file for Atari (`dreamer_v2_ms_pacman`), and what its
command sets up before it trains.
"""

from __future__ import annotations

import argparse
import time
import warnings

import hydra
import numpy as np
import torch
from gymnasium import spaces
from omegaconf import OmegaConf
from serve import Arrays, Job, serve, versions
from sheeprl.algos.dreamer_v2 import dreamer_v2
from sheeprl.algos.dreamer_v2.agent import build_agent
from sheeprl.algos.dreamer_v2.utils import build_optimizer
from sheeprl.utils.utils import dotdict
from torch import Tensor

SIZE = 64


class _BehaviorError(Exception):
    """The world model has been updated, and behavior would come next."""


def settings(arrays: Arrays) -> dotdict:
    B, L = arrays["reward"].shape
    overrides = [
        "exp=dreamer_v2_ms_pacman",
        f"algo.per_rank_batch_size={B}",
        f"algo.per_rank_sequence_length={L}",
        "algo.mlp_keys.encoder=[]",
    ]
    with hydra.initialize_config_module("sheeprl.configs", version_base="1.3"):
        config = hydra.compose("config", overrides)
    return dotdict(OmegaConf.to_container(config, resolve=True, throw_on_missing=True))


def batch_of(arrays: Arrays) -> dict[str, Tensor]:
    """As sheeprl's buffer gives it: time first, channels before the pixels, all as floats."""
    rows = {
        "rgb": np.moveaxis(arrays["image"], -1, -3),
        "actions": arrays["action"],
        "rewards": arrays["reward"][..., None],
        "terminated": arrays["terminal"][..., None],
        "truncated": np.zeros_like(arrays["terminal"])[..., None],
        "is_first": arrays["is_first"][..., None],
    }
    return {key: torch.tensor(value.swapaxes(0, 1)).float() for key, value in rows.items()}


def prepare(arrays: Arrays, args: argparse.Namespace) -> Job:
    torch.set_num_threads(args.threads)
    cfg = settings(arrays)
    torch.set_float32_matmul_precision(cfg.float32_matmul_precision)
    torch.distributions.Distribution.set_default_validate_args(cfg.distribution.validate_args)
    fabric = hydra.utils.instantiate(cfg.fabric, _convert_="all")
    fabric.seed_everything(0)
    actions = (arrays["action"].shape[-1],)
    channels = arrays["image"].shape[-1]
    seen = spaces.Dict({"rgb": spaces.Box(0, 255, (channels, SIZE, SIZE), np.uint8)})
    world_model, actor, critic, target, _ = build_agent(fabric, actions, False, cfg, seen)
    learners = ((cfg.algo.world_model, world_model), (cfg.algo.actor, actor))
    optimizers = [
        fabric.setup_optimizers(build_optimizer(setting.optimizer, network.parameters()))
        for setting, network in (*learners, (cfg.algo.critic, critic))
    ]
    aggregator = hydra.utils.instantiate(cfg.metric.aggregator, _convert_="all")
    batch = batch_of(arrays)
    losses: list[Tensor] = []
    loss_of = dreamer_v2.world_model_loss

    def noted(*args: object, **kwargs: object) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = loss_of(*args, **kwargs)
        losses[:] = [found[0].detach()]
        return found

    imagine = dreamer_v2.imagine
    reached = [0.0]

    def reach(*args: object, **kwargs: object) -> object:
        reached[0] = time.perf_counter()
        if model_only:
            raise _BehaviorError
        return imagine(*args, **kwargs)

    dreamer_v2.world_model_loss = noted
    dreamer_v2.imagine = reach
    model_only = args.stage != "full"
    models = (world_model, actor, critic, target)

    def run() -> dict[str, float]:
        try:
            dreamer_v2.train(fabric, *models, *optimizers, batch, aggregator, cfg, actions)
        except _BehaviorError:
            optimizers[0].zero_grad(set_to_none=True)  # as `train` does in the end
            return {"loss": float(losses[0])}
        assert not model_only, "train did not reach imagine"
        return {"loss": float(losses[0]), "behavior": time.perf_counter() - reached[0]}

    def about() -> dict[str, object]:
        parameters = sum(weight.numel() for weight in world_model.parameters())
        return {"parameters": parameters, "versions": versions("sheeprl", "torch")}

    return Job(run, about)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    serve(prepare, "stage")
