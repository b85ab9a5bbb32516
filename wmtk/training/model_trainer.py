"""Updates of a world model: the object that `train-model` and the online agent share."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median

import torch
from torch import Tensor

from wmtk.datasets import Batch, Schema
from wmtk.errors import DivergedError
from wmtk.models.convolution import to_float
from wmtk.models.losses import masked_mean, squared_error
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.training.batches import ActionCodec, to_inputs
from wmtk.training.checkpoint import (
    module_tensors,
    optimizer_tensors,
    restore_module,
    restore_optimizer,
)
from wmtk.training.optimizer import Optimizer
from wmtk.training.presets import TrainingConfig

SPIKE = 50.0  # times the usual loss
USUAL = 100  # updates that "usual" is the median of


class ModelTrainer:
    """A world model and its optimiser for the spaces of a dataset."""

    def __init__(self, config: TrainingConfig, schema: Schema, device: torch.device) -> None:
        self.device = device
        self.actions = ActionCodec(schema.action)
        self.model = WorldModel(config.model, schema.obs, self.actions.size).to(device)
        self.optimizer = Optimizer(config.optimizer, self.model.parameters())
        self._recent: deque[float] = deque(maxlen=USUAL)

    def inputs(self, batch: Batch) -> Inputs:
        return to_inputs(batch, self.actions, self.device)

    def update(self, inputs: Inputs, step: int) -> tuple[State, dict[str, Tensor]]:
        """One gradient step; the posterior states, detached, and what to log."""
        loss, post, metrics = self.model.loss(inputs)
        self._require_sane(metrics, step)
        metrics["gradient/model"] = self.optimizer.update(loss, step)
        return post.detach(), metrics

    def _require_sane(self, metrics: Mapping[str, Tensor], step: int) -> None:
        """Stop before numbers that make no sense reach the weights."""
        for name, tensor in metrics.items():
            if not torch.isfinite(tensor):
                raise DivergedError(
                    f"Update {step}: {name} is {tensor.item()}.",
                    "The last checkpoint is whole. Go on from it with a lower optimizer.rate, or "
                    "look for odd values in the data: wmtk data validate.",
                )
        loss = float(metrics["loss/total"])
        if len(self._recent) == USUAL and abs(loss) > SPIKE * abs(median(self._recent)):
            raise DivergedError(
                f"Update {step}: loss/total jumped to {loss:.4g} from about "
                f"{median(self._recent):.4g}.",
                "The last checkpoint is whole. Go on from it with a lower optimizer.rate.",
            )
        self._recent.append(loss)

    @torch.no_grad()
    def evaluate(self, inputs: Inputs) -> dict[str, Tensor]:
        """The loss of a batch that is not learnt from, and the error of its reconstruction."""
        _, post, metrics = self.model.loss(inputs)
        for key, image in self.model.decode(post.feat).items():
            error = squared_error(image, to_float(inputs.obs[key]), 3)
            metrics[f"mse/{key}"] = masked_mean(error, inputs.mask)
        return metrics

    def tensors(self) -> dict[str, Tensor]:
        weights = module_tensors("model", self.model)
        return weights | optimizer_tensors("adam/model", self.optimizer.adam)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        restore_module("model", self.model, tensors)
        restore_optimizer("adam/model", self.optimizer.adam, tensors)
