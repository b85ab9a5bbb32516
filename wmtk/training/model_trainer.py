"""Updates of a world model: the object that `train-model` and the online agent share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor

from wmtk.agent.batch_tensors import ActionCodec, to_inputs
from wmtk.agent.compat import restore_world_model
from wmtk.datasets import Batch, Schema
from wmtk.errors import CheckpointError
from wmtk.models.rssm import State
from wmtk.models.schedules import LAST
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.state_dict import module_state, optimizer_state
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.health import SpikeDetector, require_finite
from wmtk.training.optim import Optimizer
from wmtk.training.precision import make_scaler, resolve_precision, set_up

CONSTANT = 0.5 * math.log(2 * math.pi)  # that a Gaussian likelihood has per number, in nats


class ModelTrainer:
    """A world model and its optimizer for the spaces of a dataset."""

    def __init__(self, config: TrainingConfig, schema: Schema, device: torch.device) -> None:
        config = resolve_precision(config, device)
        self.device = device
        self.actions = ActionCodec(schema.action)
        self.observations = config.data.observations(schema)
        specs = self.observations.specs
        self.model = WorldModel(config.model, specs, self.actions.size).to(device)
        set_up(self.model, device, config.precision, compiled=config.compile)
        scaler = make_scaler(device, config.precision)
        self.optimizer = Optimizer(config.optimizer, self.model.parameters(), scaler)
        self._spikes = SpikeDetector()
        self._begins = config.model.start_at_mean

    def inputs(self, batch: Batch) -> Inputs:
        return to_inputs(batch, self.observations, self.actions, self.device)

    def update(self, inputs: Inputs, step: int) -> tuple[State, dict[str, Tensor]]:
        """One gradient step; the posterior states, detached, and what to log."""
        if self._begins:
            self.model.start_at_mean(inputs)
            self._begins = False
        loss, post, metrics = self.model.loss(inputs, step)
        batch = _named(inputs)
        require_finite(step, metrics, batch, self.model)
        self._spikes.require_usual(step, metrics, self._constants())
        norm = metrics["gradient/model"] = self.optimizer.update(loss, step)
        if self.optimizer.scaler is None:  # which expects such gradients, and skips them
            require_finite(step, {"gradient/model": norm}, batch, self.model)
        return post.detach(), metrics

    @torch.no_grad()
    def evaluate(self, inputs: Inputs, step: int) -> dict[str, Tensor]:
        """The losses of a batch that is not learned from, after an update.

        Scales are those at the end of their schedules, so that losses compare.
        """
        metrics = self.model.loss(inputs, LAST)[2]
        held_out = {f"val/{name}": value for name, value in metrics.items()}
        require_finite(step, held_out, _named(inputs), self.model)
        return metrics

    # --- what to log ---

    def report(self, metrics: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
        """The metrics of one batch or the mean of several, with what people can read.

        The likelihoods of what is seen and of the reward carry a constant, half of ln 2π per
        number, that makes the loss hard to read. Without it they are half of the squared error.
        """
        values = {name: fmean(float(m[name]) for m in metrics) for name in metrics[0]}
        for name, (term, numbers, scale) in self._gaussians().items():
            if scale:
                error = 2 * (values[term] / scale / numbers - CONSTANT)
                values[f"mse/{name}"] = max(error, 0.0) if math.isfinite(error) else error
        for key in self.model.images:
            if (error := values.get(f"mse/{key}", 0.0)) > 0:
                values[f"psnr/{key}"] = -10 * math.log10(error)
        values["loss/constant_free"] = values["loss/total"] - sum(self._constants().values())
        return values

    def terms(self, report: Mapping[str, float]) -> dict[str, float]:
        """For the progress line: the loss, its image and reward terms without constants, and `kl`.

        `kl` is the metric of that name, in nats, not the scaled term `loss/kl`.
        """
        half_errors = {
            name: scale * numbers * report[f"mse/{name}"] / 2
            for name, (_, numbers, scale) in self._gaussians().items()
            if scale
        }
        images = [half_errors[key] for key in self.model.images if key in half_errors]
        terms = {"loss": report["loss/constant_free"], "image": sum(images)}
        terms |= {"kl": report["kl"], "reward": half_errors.get("reward", 0.0)}
        return terms if images else {name: x for name, x in terms.items() if name != "image"}

    def _gaussians(self) -> dict[str, tuple[str, int, float]]:
        """The terms of the loss with a constant: their metric, numbers in a row, and scale."""
        config, model = self.model.config, self.model
        terms = {
            key: (f"loss/image/{key}", spec.numbers, config.image_scale)
            for key, spec in model.images.items()
        }
        if model.vectors:
            terms["vector"] = ("loss/vector", model.vector_size, config.vector_scale)
        return terms | {"reward": ("loss/reward", 1, config.reward_scale)}

    def _constants(self) -> dict[str, float]:
        """What no learning can take away from the terms of the loss, by their metric."""
        return {
            term: scale * numbers * CONSTANT for term, numbers, scale in self._gaussians().values()
        }

    @property
    def rate(self) -> float:
        """The learning rate of the last update."""
        return float(self.optimizer.adam.param_groups[0]["lr"])

    # --- saving ---

    def tensors(self) -> dict[str, Tensor]:
        weights = module_state("model", self.model)
        return weights | optimizer_state("adam/model", self.optimizer.adam) | self._scale()

    def _scale(self) -> dict[str, Tensor]:
        scaler = self.optimizer.scaler
        if scaler is None:
            return {}
        state = scaler.state_dict()
        return {"scaler/model": torch.tensor([state["scale"], state["_growth_tracker"]])}

    def take_over(self, tensors: Mapping[str, Tensor]) -> None:
        """Begin with a model that was saved, and with its optimizer if that was saved too."""
        if any(name.startswith("adam/model/") for name in tensors):
            self.restore(tensors)
        else:
            restore_world_model(self.model, tensors)
            self._begins = False

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        restore_world_model(self.model, tensors, self.optimizer.adam)
        self._begins = False
        if self.optimizer.scaler is not None and "scaler/model" in tensors:
            saved = tensors["scaler/model"]
            if saved.shape != (2,) or not torch.isfinite(saved).all():
                raise CheckpointError(
                    "scaler/model in the checkpoint is no scale of a loss.",
                    "Go on from another checkpoint, or start a new run.",
                )
            scale, tracker = saved.tolist()
            now = self.optimizer.scaler.state_dict()
            now |= {"scale": scale, "_growth_tracker": int(tracker)}
            self.optimizer.scaler.load_state_dict(now)


def _named(inputs: Inputs) -> dict[str, Tensor]:
    """What a batch consists of, by the names that a dataset has for it."""
    seen = {f"obs/{key}": rows for key, rows in inputs.obs.items()}
    return {"action": inputs.action, "reward": inputs.reward, **seen}
