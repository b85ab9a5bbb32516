"""The configuration of a run: every setting that `config.yaml` and `--set` accept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field

from wmtk.config import Config, Depth, Width
from wmtk.datasets import Schema
from wmtk.models.actor_critic import ActorCriticConfig
from wmtk.models.kernels import Kernels
from wmtk.models.world_model import WorldModelConfig
from wmtk.observations import IMAGE_SIZE, ObsCodec, key_names
from wmtk.runs.former_names import require_present_names, setting_names
from wmtk.schedules import Scale, value

Names = Annotated[tuple[str, ...], BeforeValidator(key_names)]
# The settings of `DataConfig` that a trained model is bound to.
OBSERVATIONS = ("image_size", "obs_keys", "as_image", "as_vector", "image_range")


class OptimizerConfig(Config):
    """Adam with gradient clipping and decoupled weight decay."""

    lr: Scale  # learning rate
    warmup: int = Field(0, ge=0)  # updates over which the learning rate rises from 0 to `lr`
    eps: float = Field(1e-5, gt=0)
    # Add ε to √v before the bias correction of v, as Keras and the reference code do. This
    # multiplies ε in update t by 1/√(1 − 0.999^t): by 32 in the first update.
    eps_before_correction: bool = False
    clip: float = Field(100.0, gt=0)  # maximum global norm of the gradient
    # Each update multiplies the weights by 1 − weight_decay, independently of the learning rate.
    weight_decay: float = Field(1e-6, ge=0, lt=1)

    def lr_at(self, step: int) -> float:
        """The learning rate of update `step`, counted from 1."""
        return value(self.lr, step) * min(1.0, step / self.warmup if self.warmup else 1.0)


class EnsembleConfig(OptimizerConfig):
    """An ensemble of one-step predictors. Plan2Explore and offline Dreamers use 5 to 10 members."""

    members: Depth = Field(5, ge=2)  # M
    layers: Depth | None = None  # of each member; null: as many as the actor's
    units: Width | None = None  # null: as many as the actor's
    lr: Scale = 3e-4


class BehaviorConfig(ActorCriticConfig):
    """Actor and critic, their optimizers, and the ensemble that penalizes or explores."""

    # P: imagined reward lost per unit of ensemble disagreement (wmtk.models.ensemble).
    penalty: float = Field(0.0, ge=0)
    # Train a second actor whose only reward is disagreement.
    explore: Literal["disagreement"] | None = None
    ensemble: EnsembleConfig = EnsembleConfig()  # used by `penalty` and `explore`
    actor: OptimizerConfig = OptimizerConfig(lr=4e-5)
    critic: OptimizerConfig = OptimizerConfig(lr=1e-4)


class DataConfig(Config):
    """Shape and sampling of batches, and the observations that are inputs of the model."""

    batch_size: int = Field(50, ge=1)  # B
    length: int = Field(50, ge=2)  # L
    uniform_over: Literal["episodes", "steps"] = "episodes"
    memory_mb: int = Field(512, ge=0)  # cache of decoded chunks
    image_size: int = Field(IMAGE_SIZE, ge=1)  # images of other sizes are resized to it
    obs_keys: Names = ()  # keys to use, or keys to exclude with a leading "-"; empty: all
    as_image: Names = ()  # keys of small arrays to learn as images instead of vectors
    as_vector: Names = ()  # keys of images to learn as vectors
    # Values of black and white in images of floats or integers whose space has no bounds.
    image_range: tuple[float, float] | None = None

    def observations(self, schema: Schema) -> ObsCodec:
        """The conversion from stored observations to the model's inputs."""
        return ObsCodec(
            schema.obs,
            image_size=self.image_size,
            obs_keys=self.obs_keys,
            as_image=self.as_image,
            as_vector=self.as_vector,
            image_range=self.image_range,
        )


class LoggingConfig(Config):
    """Intervals in updates. Each of these actions also happens after the last update."""

    log_every: int = Field(50, ge=1)
    evaluate_every: int = Field(500, ge=1)  # held-out loss
    checkpoint_every: int = Field(500, ge=1)
    keep_checkpoints: int = Field(3, ge=1)  # the newest ones, in addition to the best one
    image_every: int = Field(1000, ge=1)  # open-loop images and videos
    held_out_batches: int = Field(10, ge=1)


class OnlineConfig(Config):
    """Collection during training. Steps are agent steps; the defaults are the paper's for Atari."""

    prefill: int = Field(50_000, ge=0)  # random steps before the first update
    pretrain: int = Field(0, ge=0)  # updates before the actor starts to collect
    train_every: float = Field(4.0, gt=0)  # steps per update
    envs: int = Field(1, ge=1)  # environments that run in parallel
    capacity: int = Field(2_000_000, ge=1)  # steps of the replay; the oldest episodes are evicted
    actor: Literal["learned", "random"] = "learned"  # the policy that collects (ablation)
    learn_model: bool = True
    learn_behavior: bool = True
    evaluate: int = Field(250_000, ge=1)  # steps between evaluations
    episodes: int = Field(5, ge=0)  # per evaluation; 0 disables it

    def updates_at(self, steps: int) -> int:
        """The number of updates that are due after `steps` steps."""
        if steps < self.prefill:
            return 0
        return self.pretrain + math.floor((steps - self.prefill) / self.train_every)

    def steps_for(self, update: int) -> int:
        """The smallest number of steps after which `update` is due."""
        return self.prefill + math.ceil(max(update - self.pretrain, 0) * self.train_every)

    def evaluates_at(self, update: int) -> bool:
        """Whether `update` is the first one after another `evaluate` steps."""
        steps, previous = self.steps_for(update), self.steps_for(update - 1)
        return self.episodes > 0 and steps // self.evaluate > previous // self.evaluate


class TrainingConfig(Config):
    """All settings of a run: world model, actor and critic, data, logging, collecting."""

    model: WorldModelConfig = WorldModelConfig()
    optimizer: OptimizerConfig = OptimizerConfig(lr=2e-4)  # of the world model
    behavior: BehaviorConfig = BehaviorConfig()
    data: DataConfig = DataConfig()
    logging: LoggingConfig = LoggingConfig()
    online: OnlineConfig = OnlineConfig()
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    compile: bool = False
    # plain: the definitions in wmtk.models; fast: all applicable kernels; auto: the faster of both.
    kernels: Kernels = "auto"
    preset: str | None = None  # the preset that the settings are based on

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        require_present_names(setting_names(values))
        return super().build(values)

    def override(self, overrides: Mapping[str, Any]) -> Self:
        require_present_names(overrides)
        return super().override(overrides)
