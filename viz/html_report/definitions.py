"""What every number of the report means."""

from __future__ import annotations

from wmtk.viz.evaluation.model_metrics import DEFINITIONS, ModelMetrics
from wmtk.viz.html_report.markup import Section, element, joined, paragraph

MORE = {
    "interval": "of all numbers: drawn again from whole episodes, with replacement",
    "average precision": "the mean precision over all recalls; knowing nothing reaches the base "
    "rate",
    "calibration": "whether what was predicted is as large or as frequent as what came; the "
    "calibration error is the mean gap",
    "Brier score": "the mean squared error of probabilities; 0 is perfect",
    "KL": "how far the posterior (having seen the frame) is from the prior (not yet), in nats, "
    "before free nats and balancing",
    "entropy": "how undecided the latents are, summed over all of them, in nats",
    "perplexity": "exp(entropy) of how often classes are used: as many as if all were used alike",
    "dead": "a class that is used in less than a hundredth of its even share of frames",
    "information": "H(marginal) − mean H(posterior): what a variable tells about the frame, in "
    "nats",
    "prior and posterior": "how far what is expected before seeing frames is from what they turn "
    "out to be: half the sum of the differences in use, mean over variables; 0 is the same",
    "dream": "what a policy does inside of its model; it brings the imagined rewards, discounted, "
    "and what the critic expects at its end",
    "probe": "a linear map from states to a factor, fitted on some episodes and tested on others",
    "h and z": "the state: h is carried along by the recurrent network, z are the latents drawn at "
    "each step",
}


def definitions(found: ModelMetrics) -> Section:
    entries = []
    for name, meaning in (DEFINITIONS | MORE).items():
        begun = meaning if meaning.startswith("dB") else meaning[0].upper() + meaning[1:]
        text = f"{begun}."
        entries += [element("dt", name, id=f"about-{name}"), element("dd", text)]
    how = (
        f"Latents are {found.latents}. Intervals cover {found.confidence:.0%}, from "
        f"{found.resamples:,} resamples over {found.episodes} episodes. Numbers are computed on "
        "arrays, never on the films."
    )
    content = joined(paragraph(how, soft=True), element("dl", *entries, class_="definitions"))
    return Section("definitions", "Definitions", content)
