"""Training of a world model, in `train_model` and in `online`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from wmtk.agent.batch_tensors import ActionCodec, to_inputs
from wmtk.agent.compat import restore_world_model
from wmtk.agent.open_loop_images import open_loop_windows, save_image
from wmtk.datasets import Batch, Schema
from wmtk.errors import CheckpointError
from wmtk.models import kernels
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.metrics_log import MetricsLog
from wmtk.runs.state_dict import fork_rng, module_state, optimizer_state
from wmtk.runs.training_config import TrainingConfig
from wmtk.schedules import LAST, LinearSchedule
from wmtk.training.health import SpikeDetector, require_finite
from wmtk.training.loop import EvalOutcome, Report, Update
from wmtk.training.optim import Optimizer
from wmtk.training.precision import make_scaler, resolve_precision, set_up

CONSTANT = 0.5 * math.log(2 * math.pi)  # of a Gaussian negative log-likelihood, nats per number


class ModelTrainer:
    """A world model and its optimizer.

    `evaluate` computes the losses of the batches `held_out` and draws open-loop predictions of the
    batch that `image_batch` returns, if these attributes are set.
    """

    def __init__(
        self,
        config: TrainingConfig,
        schema: Schema,
        device: torch.device,
        world_model: type[WorldModel] = WorldModel,
    ) -> None:
        self.config = config = resolve_precision(config, device)
        self.device = device
        self.actions = ActionCodec(schema.action)
        self.observations = config.data.observations(schema)
        specs = self.observations.specs
        kernels.select(config.kernels)
        self.model = world_model(config.model, specs, self.actions.size).to(device)
        set_up(self.model, device, config.precision, compiled=config.compile)
        scaler = make_scaler(device, config.precision)
        self.optimizer = Optimizer(config.optimizer, self.model.parameters(), scaler)
        self.held_out: Sequence[Batch] = ()
        self.image_batch: Callable[[], Batch] | None = None
        self._spikes = SpikeDetector()
        self._starts_at_mean = config.model.start_at_mean  # until the first update

    def inputs(self, batch: Batch) -> Inputs:
        """The batch as tensors on the trainer's device."""
        return to_inputs(batch, self.observations, self.actions, self.device)

    def update(self, inputs: Inputs, step: int) -> Update:
        """One gradient step on a batch (B, T, …); `step` counts from 1."""
        if self._starts_at_mean:
            self.model.start_at_mean(inputs)
            self._starts_at_mean = False
        loss, post, metrics = self.model.loss(inputs, step)
        batch = _by_dataset_name(inputs)
        require_finite(step, metrics, batch, self.model)
        self._spikes.require_usual(step, metrics, self._constants())
        norm = metrics["grad_norm/model"] = self.optimizer.update(loss, step)
        if self.optimizer.scaler is None:  # a scaler skips updates that are not finite
            require_finite(step, {"grad_norm/model": norm}, batch, self.model)
        return Update(post.detach(), metrics)

    @torch.no_grad()
    def validate(self, inputs: Inputs, step: int) -> dict[str, Tensor]:
        """The losses of a held-out batch.

        Scales have the final values of their schedules, so that losses of all steps are comparable.
        """
        metrics = self.model.loss(inputs, LAST)[2]
        held_out = {f"val/{name}": value for name, value in metrics.items()}
        require_finite(step, held_out, _by_dataset_name(inputs), self.model)
        return metrics

    def evaluate(
        self, log: MetricsLog, step: int, *, last: bool, best: float | None = None
    ) -> EvalOutcome:
        """Log the held-out losses and open-loop images that are due at `step`."""
        logging = self.config.logging
        loss = None
        if self.held_out and (last or step % logging.evaluate_every == 0):
            with fork_rng():
                batches = (self.inputs(batch) for batch in self.held_out)
                values = self.summarize([self.validate(inputs, step) for inputs in batches])
            log.scalars(step, {f"val/{name}": value for name, value in values.items()})
            loss = values["loss/total"]
        if self.image_batch and (last or step % logging.image_every == 0):
            side = "val" if self.held_out else "train"
            with fork_rng():
                windows = open_loop_windows(self.model, self.inputs(self.image_batch()))
            for key, prediction in windows.items():
                image = prediction.image()
                log.image(step, f"{side}/open_loop/{key}", image)
                log.video(step, f"{side}/open_loop_video/{key}", prediction.video())
                save_image(log.folder / "images", key, step, image)
        return EvalOutcome(loss)

    # --- metrics ---

    def report(self, metrics: Mapping[str, Tensor]) -> Report:
        """The metrics of an update with errors and the learning rate."""
        values = self.summarize([metrics])
        return Report({**values, "lr/model": self.optimizer.lr}, self.progress_terms(values))

    def summarize(self, metrics: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
        """The mean metrics of batches, with squared errors and PSNR.

        The negative log-likelihoods of observations and rewards contain a constant, ½ ln 2π per
        number; without it they are half of the squared error.
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

    def progress_terms(self, values: Mapping[str, float]) -> dict[str, float]:
        """The loss, its image and reward terms without constants, and `kl`, for a progress line.

        `kl` is the metric of that name, in nats, not the scaled term `loss/kl`.
        """
        half_errors = {
            name: scale * numbers * values[f"mse/{name}"] / 2
            for name, (_, numbers, scale) in self._gaussians().items()
            if scale
        }
        images = [half_errors[key] for key in self.model.images if key in half_errors]
        terms = {"loss": values["loss/constant_free"], "image": sum(images)}
        terms |= {"kl": values["kl"], "reward": half_errors.get("reward", 0.0)}
        return terms if images else {name: x for name, x in terms.items() if name != "image"}

    def _gaussians(self) -> dict[str, tuple[str, int, float]]:
        """The Gaussian terms of the loss: name of the metric, numbers per row, and scale."""
        config, model = self.model.config, self.model
        terms = {
            key: (f"loss/image/{key}", spec.numbers, config.image_scale)
            for key, spec in model.images.items()
        }
        if model.vectors:
            terms["vector"] = ("loss/vector", model.vector_size, config.vector_scale)
        return terms | {"reward": ("loss/reward", 1, config.reward_scale)}

    def _constants(self) -> dict[str, float]:
        """The constants of the Gaussian terms of the loss, by the name of their metric."""
        return {
            term: scale * numbers * CONSTANT for term, numbers, scale in self._gaussians().values()
        }

    def recovery_overrides(self) -> dict[str, Any]:
        """A third of the learning rate."""
        lr = self.config.optimizer.lr
        if isinstance(lr, LinearSchedule):
            ends = {"start": lr.start / 3, "end": lr.end / 3}
            return {f"optimizer.lr.{name}": float(f"{x:.1g}") for name, x in ends.items()}
        return {"optimizer.lr": float(f"{lr / 3:.1g}")}

    # --- saving ---

    def state_dict(self) -> dict[str, Tensor]:
        """The weights, the moments of the optimizer and, in float16, the scale of the loss."""
        weights = module_state("model", self.model)
        tensors = weights | optimizer_state("adam/model", self.optimizer.adam)
        if (scaler := self.optimizer.scaler) is not None:
            state = scaler.state_dict()
            tensors["scaler/model"] = torch.tensor([state["scale"], state["_growth_tracker"]])
        return tensors

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Load weights, moments of the optimizer and, in float16, the scale of the loss."""
        restore_world_model(self.model, tensors, self.optimizer.adam)
        self._starts_at_mean = False
        scaler = self.optimizer.scaler
        if scaler is not None and "scaler/model" in tensors:
            saved = tensors["scaler/model"]
            if saved.shape != (2,) or not torch.isfinite(saved).all():
                raise CheckpointError(
                    "scaler/model in the checkpoint is not a scale of a loss.",
                    "Resume from another checkpoint, or start a new run.",
                )
            scale, tracker = saved.tolist()
            state = {"scale": scale, "_growth_tracker": int(tracker)}
            scaler.load_state_dict(scaler.state_dict() | state)

    def load_pretrained(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a saved model, and its optimizer if `tensors` contains it."""
        if any(name.startswith("adam/model/") for name in tensors):
            self.load_state_dict(tensors)
        else:
            restore_world_model(self.model, tensors)
            self._starts_at_mean = False


def _by_dataset_name(inputs: Inputs) -> dict[str, Tensor]:
    """The tensors of a batch, by the names of their arrays in the dataset."""
    obs = {f"obs/{key}": rows for key, rows in inputs.obs.items()}
    return {"action": inputs.action, "reward": inputs.reward, **obs}
