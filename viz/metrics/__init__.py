"""Metrics of world models: pure functions of arrays, without torch.

Arrays are (N, T, …) for N windows of T steps, and a mask (N, T) is true where steps exist.
Intervals are bootstrapped over episodes.
"""

from wmtk.stats import Bootstrap, Estimate
from wmtk.viz.metrics.codes import (
    CodeUsage,
    FactorInformation,
    code_usage,
    factor_information,
    mutual_information,
    usage_distance,
)
from wmtk.viz.metrics.divergences import (
    bernoulli,
    divergence,
    entropy,
    gaussian_divergence,
    gaussian_entropy,
    softmax,
)
from wmtk.viz.metrics.endings import EndingQuality, ending_quality, terminal_probability
from wmtk.viz.metrics.events import (
    Reliability,
    average_precision,
    brier,
    reliability,
    roc_auc,
    tolerant_average_precision,
)
from wmtk.viz.metrics.frames import frame_mse, masked_error, moving, psnr, ssim
from wmtk.viz.metrics.futures import (
    best_future,
    fair_error,
    other_windows,
    sensitivity,
    spread,
    spread_skill,
)
from wmtk.viz.metrics.numbers import (
    correlation,
    mean_absolute_error,
    r_squared,
    rank_correlation,
)
from wmtk.viz.metrics.probes import Probe, principal, probe
from wmtk.viz.metrics.rewards import (
    EventQuality,
    ReturnQuality,
    RewardQuality,
    discount_before,
    discounted_return,
    expected_return,
    return_quality,
    reward_quality,
)
from wmtk.viz.metrics.skill import Usable, skill, usable_horizon
from wmtk.viz.metrics.training_returns import TrainingReturns, training_returns

__all__ = [
    "Bootstrap",
    "CodeUsage",
    "EndingQuality",
    "Estimate",
    "EventQuality",
    "FactorInformation",
    "Probe",
    "Reliability",
    "ReturnQuality",
    "RewardQuality",
    "TrainingReturns",
    "Usable",
    "average_precision",
    "bernoulli",
    "best_future",
    "brier",
    "code_usage",
    "correlation",
    "discount_before",
    "discounted_return",
    "divergence",
    "ending_quality",
    "entropy",
    "expected_return",
    "factor_information",
    "fair_error",
    "frame_mse",
    "gaussian_divergence",
    "gaussian_entropy",
    "masked_error",
    "mean_absolute_error",
    "moving",
    "mutual_information",
    "other_windows",
    "principal",
    "probe",
    "psnr",
    "r_squared",
    "rank_correlation",
    "reliability",
    "return_quality",
    "reward_quality",
    "roc_auc",
    "sensitivity",
    "skill",
    "softmax",
    "spread",
    "spread_skill",
    "ssim",
    "terminal_probability",
    "tolerant_average_precision",
    "training_returns",
    "usable_horizon",
    "usage_distance",
]
