"""Known factors of the task: information in the codes and probes on the states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wmtk.viz.evaluation.model_metrics import FEWEST_EPISODES, Factor, ModelMetrics
from wmtk.viz.html_report.markup import Section, joined, paragraph, table


def factor_section(metrics: ModelMetrics) -> Section | None:
    """Probes and information of each factor; None if the dataset stores no factors."""
    if not metrics.factors:
        return None
    inputs = list(next(iter(metrics.factors.values())).probes)
    text = (
        "Factors are numbers that the environment recorded in addition to the observation. Linear "
        "probes predict them from states and are tested on other episodes than they are fitted "
        "on: R², or accuracy for factors with few values. Raw pixels are the baseline."
    )
    head = (
        "factor",
        *(f"from {name}" for name in inputs),
        "information of the most informative code, nats",
    )
    content = joined(
        paragraph(text, soft=True), table(_rows(metrics.factors, inputs), head, len(head) - 1)
    )
    if not inputs:
        note = f"Probes need at least {FEWEST_EPISODES} episodes."
        content = joined(content, paragraph(note, soft=True))
    return Section("factors", "Known factors", content)


def _rows(factors: Mapping[str, Factor], inputs: list[str]) -> Iterator[tuple[str, ...]]:
    for name, factor in factors.items():
        scores = []
        for key in inputs:
            probe = factor.probes[key]
            chance = f" (chance {probe.chance:.2f})" if probe.kind == "logistic" else ""
            scores.append(f"{probe.score:.2f}{chance}")
        information = "-"
        if factor.codes is not None:
            best = int(factor.codes.information.argmax())
            most = factor.codes.information[best]
            information = f"{most:.2f} of {factor.codes.entropy:.2f} (z{best})"
        yield name, *scores, information
