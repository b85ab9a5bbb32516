"""Definitions of all metrics of the report."""

from __future__ import annotations

from wmtk.viz.evaluation.grades import count
from wmtk.viz.evaluation.model_metrics import DEFINITIONS, ModelMetrics
from wmtk.viz.html_report.markup import Section, element, joined, paragraph

REPORT_DEFINITIONS = {
    "interval": "bootstrap interval: whole episodes are resampled with replacement",
    "average precision": "mean precision over all recalls; a predictor without information "
    "reaches the base rate",
    "calibration": "agreement of predicted values or probabilities with observed means or "
    "frequencies; the calibration error is the mean absolute difference",
    "Brier score": "mean squared error of probabilities; 0 is perfect",
    "KL": "KL divergence of the posterior (given the frame) from the prior (not given it), in "
    "nats, before free nats and balancing",
    "entropy": "entropy of the latents, summed over all variables, in nats",
    "perplexity": "exp(entropy) of the usage of classes: the effective number of classes in use",
    "dead": "class that is used in less than a hundredth of its even share of frames",
    "information": "H(marginal) − mean H(posterior): information of a variable about the frame, "
    "in nats",
    "prior and posterior": "total variation distance between the usage of classes under the prior "
    "and under the posterior, mean over variables; 0 is equality",
    "imagined return": "sum of the discounted rewards of an imagined episode plus the discounted "
    "value of its last state",
    "probe": "linear map from states to a factor, fitted on some episodes and tested on others",
    "h and z": "parts of the state: h is the deterministic recurrent state, z are the stochastic "
    "latents of each step",
}


def definition_section(metrics: ModelMetrics) -> Section:
    entries = []
    for name, meaning in (DEFINITIONS | REPORT_DEFINITIONS).items():
        text = meaning if meaning.startswith("dB") else meaning[0].upper() + meaning[1:]
        entries += [element("dt", name, id=f"definition-{name}"), element("dd", f"{text}.")]
    methods = (
        f"Latents are {metrics.latents}. Intervals cover {metrics.confidence:.0%}, from "
        f"{metrics.resamples:,} bootstrap resamples over {count(metrics.episodes, 'episode')}. All "
        "numbers are computed from arrays, not from videos."
    )
    content = joined(paragraph(methods, soft=True), element("dl", *entries, class_="definitions"))
    return Section("definitions", "Definitions", content)
