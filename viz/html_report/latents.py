"""The latents: KL and entropies, how codes are used, and what each of them moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from wmtk.viz.draw.canvas import to_rgb
from wmtk.viz.evaluation.interval_text import format_interval
from wmtk.viz.evaluation.model_metrics import ModelMetrics
from wmtk.viz.html_report.charts import Chart, Series, curve, data, figure, figures
from wmtk.viz.html_report.markup import Markup, Section, element, joined, paragraph, table
from wmtk.viz.html_report.material import Material, Stage
from wmtk.viz.html_report.media import picture, png
from wmtk.viz.intervention import Intervention
from wmtk.viz.metrics.divergences import entropy
from wmtk.viz.sheets.intervention_sheet import STRONG, heat, strongest_sheet

STRONGEST = 4  # codes that are shown in full


def latents(found: Material) -> Section:
    parts = [_uncertainty(found.evaluation)]
    if found.stages:
        usage = _usage(found.stages, found.intervention, found.changed)
        parts += [element("h3", "How codes are used"), usage]
        if len(found.stages) > 1:
            parts.append(figures(_over_training(found.stages)))
    if found.intervention is not None:
        parts += [
            element("h3", "What each code moves"),
            _regions(found.intervention, found.changed),
        ]
    return Section("latents", "Latents and codes", joined(*parts))


def _uncertainty(found: ModelMetrics) -> Markup:
    rows = [
        ("KL, nats a step", format_interval(found.kl)),
        ("Entropy after seeing the frame, nats", format_interval(found.entropy_posterior)),
        ("Entropy before seeing it, nats", format_interval(found.entropy_prior)),
    ]
    codes = found.codes
    if codes is not None:
        V, K = codes.usage.shape
        low, high = codes.perplexity.min(), codes.perplexity.max()
        told = codes.information
        rows += [
            ("Variables × classes", f"{V} × {K}"),
            (
                "Perplexity of a variable",
                f"{codes.perplexity.mean():.1f} ({low:.1f} to {high:.1f}) of {K}",
            ),
            (
                "Information of a variable, nats",
                f"{told.mean():.2f} ({told.min():.2f} to {told.max():.2f}) of {np.log(K):.2f}",
            ),
            ("Dead classes", f"{int(codes.dead.sum()):,} of {V * K:,} ({codes.dead_share:.0%})"),
        ]
    chart = Chart(
        "What seeing adds, along a window",
        "row",
        "KL, nats",
        [curve("KL", "model", found.kl_at, first=0)],
        "High at first, where the model does not know yet what it will see.",
        "KL",
        whole=True,
        zero=True,
    )
    return element("div", table(rows, numbers=1), figure(chart), class_="charts")


def _usage(stages: list[Stage], changes: Intervention | None, changed: list[str]) -> Markup:
    last = stages[-1].codes
    K = last.usage.shape[1]
    text = (
        "A row for each variable, a column for each class: the stronger, the more often it is "
        f"used. A cross is a dead class, used in less than {last.threshold:.2%} of {last.frames:,} "
        f"frames. Bars: how many of {K} classes are as good as used (the orange tick is the "
        "prior's number), and what a variable tells about the frame."
    )
    slider = Markup("")
    if len(stages) > 1:
        slider = element(
            "label",
            "Update ",
            element("output", f"{stages[-1].update:,}"),
            " ",
            element(
                "input",
                type="range",
                min=0,
                max=len(stages) - 1,
                value=len(stages) - 1,
                step=1,
                aria_label="Which checkpoint",
            ),
            class_="stages",
        )
    plot = element(
        "div",
        class_="plot",
        tabindex=0,
        role="group",
        aria_label="Use of codes. Arrow keys move over the classes.",
    )
    spec: dict[str, Any] = {"stages": [_stage(stage) for stage in stages]}
    below = Markup("")
    if changes is not None:
        frame, spec["changed"] = change_sheet(changes)
        below = _cuts(changed[frame])
    codes = element("figure", slider, plot, below, data(spec), class_="codes")
    return joined(paragraph(text, soft=True), codes)


def _cuts(frame: str) -> Markup:
    """Where the script shows a frame with the code changed that is pointed at."""
    names = {"before": "as it is", "after": "changed", "difference": "the difference"}
    cuts = [
        element("div", element("div", class_=f"cut {name}"), element("div", text, class_="name"))
        for name, text in names.items()
    ]
    text = f"Point at a class to set a code of {frame} to it."
    return element(
        "div",
        element("b", text),
        element("p", "", aria_live="polite"),
        *cuts,
        class_="changed",
    )


def change_sheet(found: Intervention) -> tuple[int, dict[str, Any]]:
    """Which frame changes most, and all that it becomes, in one picture.

    The first row has the frame as it is; then come the variables, a column for each class tried.
    """
    moved = [
        np.abs(pictures.astype(np.int16) - found.before[:, None]).mean((1, 2, 3, 4))
        for pictures in found.images
    ]
    frame = int(np.sum(moved, 0).argmax())
    V, columns = len(found.images), max(len(classes) for classes in found.classes)
    _, H, W, _ = found.before.shape
    sheet = np.zeros(((V + 1) * H, columns * W, 3), np.uint8)
    sheet[:H, :W] = to_rgb(found.before[frame, ..., :3])
    for v, pictures in enumerate(found.images):
        for column, pixels in enumerate(pictures[frame]):
            top, left = (v + 1) * H, column * W
            sheet[top : top + H, left : left + W] = to_rgb(pixels[..., :3])
    return frame, {
        "sheet": png(sheet),
        "width": W,
        "height": H,
        "columns": columns,
        "rows": V + 1,
        "classes": [classes.tolist() for classes in found.classes],
        "chosen": found.chosen[frame].tolist(),
        "strongest": int(found.effect.argmax()),
    }


def _stage(stage: Stage) -> dict[str, Any]:
    codes = stage.codes
    return {
        "update": stage.update,
        "threshold": codes.threshold,
        "usage": codes.usage,
        "prior": stage.prior,
        "perplexity": codes.perplexity,
        "expected": np.exp(entropy(stage.prior)),
        "information": codes.information,
    }


def _over_training(stages: list[Stage]) -> list[Chart]:
    updates = [float(stage.update) for stage in stages]
    gaps = [float(np.abs(s.codes.usage - s.prior).sum(-1).mean() / 2) for s in stages]
    rows = (
        ("Dead classes", "share", [stage.codes.dead_share for stage in stages], "dead"),
        (
            "Classes in use",
            "mean perplexity",
            [float(stage.codes.perplexity.mean()) for stage in stages],
            "perplexity",
        ),
        (
            "Information of all codes",
            "nats",
            [float(stage.codes.information.sum()) for stage in stages],
            "information",
        ),
        ("Prior against posterior", "distance of use", gaps, "prior and posterior"),
    )
    return [
        Chart(
            f"{title}, by checkpoint",
            "update",
            unit,
            [Series(title.lower(), "model", updates, values)],
            about=about,
            kind="points",
            zero=True,
        )
        for title, unit, values, about in rows
    ]


def _regions(found: Intervention, changed: list[str]) -> Markup:
    """The map of each variable, the strongest first, and a few of them in full."""
    order = np.argsort(-found.effect, kind="stable").tolist()
    darkest = max(float(np.quantile(found.regions, STRONG)), 1e-9)
    maps = [
        element(
            "figure",
            element(
                "img",
                src=png(heat(found.regions[v], darkest)),
                alt=f"The region that z{v} moves",
                loading="lazy",
            ),
            element("figcaption", f"z{v}  {found.effect[v]:.1%}"),
        )
        for v in order
    ]
    text = (
        "One code is set to another class that is in use, everything else stays, and the state is "
        "decoded again. The darker a pixel, the more it changes; the number is the mean change, of "
        f"{len(changed)} frames ({'; '.join(changed)})."
    )
    sheet = strongest_sheet(found, STRONGEST)
    return joined(
        paragraph(text, soft=True),
        element("div", *maps, class_="regions"),
        picture(
            sheet,
            "The strongest codes: a frame as it is (green) and with the code set to each class in "
            "use, its own in red; below, the change.",
            "Frames with one code changed",
        ),
    )
