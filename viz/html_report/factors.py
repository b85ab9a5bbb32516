"""Known factors of the task: what of them is in the codes and in the states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wmtk.viz.evaluation.model_metrics import Factor, ModelMetrics
from wmtk.viz.html_report.markup import Section, joined, paragraph, table


def factors(found: ModelMetrics) -> Section | None:
    """Nothing where the dataset stores no factors."""
    if not found.factors:
        return None
    names = list(next(iter(found.factors.values())).probes)
    text = (
        "Numbers that the environment recorded beside what it showed. Linear probes read them off "
        "the states of other episodes than they were fitted to: R², or accuracy where a factor has "
        "few values. The raw pixels are the baseline."
    )
    head = ("factor", *(f"from {name}" for name in names), "most in one code, nats")
    content = joined(
        paragraph(text, soft=True), table(_rows(found.factors, names), head, len(head) - 1)
    )
    if not names:
        few = "There are too few episodes for probes, which need three."
        content = joined(content, paragraph(few, soft=True))
    return Section("factors", "Known factors", content)


def _rows(found: Mapping[str, Factor], names: list[str]) -> Iterator[tuple[str, ...]]:
    for name, factor in found.items():
        cells = []
        for what in names:
            probe = factor.probes[what]
            chance = f" (chance {probe.chance:.2f})" if probe.kind == "logistic" else ""
            cells.append(f"{probe.score:.2f}{chance}")
        told = "-"
        if factor.codes is not None:
            best = int(factor.codes.information.argmax())
            most = factor.codes.information[best]
            told = f"{most:.2f} of {factor.codes.entropy:.2f} (z{best})"
        yield name, *cells, told
