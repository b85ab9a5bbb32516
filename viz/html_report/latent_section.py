"""The latents: KL and entropies, usage of the codes, and the effect of each code."""

from __future__ import annotations

from typing import Any

import numpy as np

from wmtk.viz.draw.canvas import to_rgb
from wmtk.viz.evaluation.interval_text import format_interval
from wmtk.viz.evaluation.model_metrics import ModelMetrics
from wmtk.viz.html_report.charts import Chart, Series, curve, data, figure, figures
from wmtk.viz.html_report.content import CheckpointUsage, ReportContent
from wmtk.viz.html_report.markup import Markup, Section, element, joined, paragraph, table
from wmtk.viz.html_report.media import image_figure, png
from wmtk.viz.intervention import Intervention
from wmtk.viz.metrics.divergences import entropy
from wmtk.viz.sheets.intervention_sheet import STRONG, heat, strongest_sheet

STRONGEST = 4  # codes with all of their classes


def latent_section(content: ReportContent) -> Section:
    parts = [_uncertainty(content.metrics)]
    if content.checkpoints:
        parts += [element("h3", "Usage of codes"), _usage(content)]
        if len(content.checkpoints) > 1:
            parts.append(figures(_over_training(content.checkpoints)))
    if content.intervention is not None:
        parts += [
            element("h3", "Effect of each code"),
            _regions(content.intervention, content.intervention_frames),
        ]
    return Section("latents", "Latents and codes", joined(*parts))


def _uncertainty(metrics: ModelMetrics) -> Markup:
    rows = [
        ("KL, nats per step", format_interval(metrics.kl)),
        ("Entropy of the posterior, nats", format_interval(metrics.entropy_posterior)),
        ("Entropy of the prior, nats", format_interval(metrics.entropy_prior)),
    ]
    codes = metrics.codes
    if codes is not None:
        V, K = codes.usage.shape
        low, high = codes.perplexity.min(), codes.perplexity.max()
        nats = codes.information
        rows += [
            ("Variables × classes", f"{V} × {K}"),
            (
                "Perplexity of a variable",
                f"{codes.perplexity.mean():.1f} ({low:.1f} to {high:.1f}) of {K}",
            ),
            (
                "Information of a variable, nats",
                f"{nats.mean():.2f} ({nats.min():.2f} to {nats.max():.2f}) of {np.log(K):.2f}",
            ),
            ("Dead classes", f"{int(codes.dead.sum()):,} of {V * K:,} ({codes.dead_share:.0%})"),
        ]
    chart = Chart(
        "KL by row of the window",
        "row",
        "KL, nats",
        [curve("KL", "model", metrics.kl_at, first=0)],
        "Usually high in the first rows, where the prior is conditioned on few observations.",
        "KL",
        integers=True,
        zero=True,
    )
    return element("div", table(rows, numbers=1), figure(chart), class_="charts")


def _usage(content: ReportContent) -> Markup:
    checkpoints = content.checkpoints
    last = checkpoints[-1].codes
    K = last.usage.shape[1]
    text = (
        "A row for each variable, a column for each class; darker classes are used more often. A "
        f"cross marks a dead class, used in less than {last.threshold:.2%} of {last.frames:,} "
        f"frames. Bars: the perplexity of the usage of {K} classes (orange: of the prior), and the "
        "information of the variable about the frame."
    )
    slider = Markup("")
    if len(checkpoints) > 1:
        slider = element(
            "label",
            "Update ",
            element("output", f"{checkpoints[-1].update:,}"),
            " ",
            element(
                "input",
                type="range",
                min=0,
                max=len(checkpoints) - 1,
                value=len(checkpoints) - 1,
                step=1,
                aria_label="Checkpoint",
            ),
            class_="checkpoints",
        )
    plot = element(
        "div",
        class_="plot",
        tabindex=0,
        role="group",
        aria_label="Usage of codes. Arrow keys select a class.",
    )
    spec: dict[str, Any] = {"checkpoints": [_usage_spec(usage) for usage in checkpoints]}
    intervention = Markup("")
    if content.intervention is not None:
        frame, spec["intervention"] = intervention_spec(content.intervention)
        intervention = _intervention_images(content.intervention_frames[frame])
    codes = element("figure", slider, plot, intervention, data(spec), class_="codes")
    return joined(paragraph(text, soft=True), codes)


def _intervention_images(frame: str) -> Markup:
    """Elements in which the script shows a frame, the frame with one code set, and the change."""
    captions = {"before": "original", "after": "with the code set", "difference": "difference"}
    images = [
        element("div", element("div", class_=f"cut {name}"), element("div", text, class_="name"))
        for name, text in captions.items()
    ]
    text = f"Select a class of the posterior or the prior to decode {frame} with it."
    return element(
        "div",
        element("b", text),
        element("p", "", aria_live="polite"),
        *images,
        class_="intervention",
    )


def intervention_spec(intervention: Intervention) -> tuple[int, dict[str, Any]]:
    """The index of the frame that changes most, and one image of all its interventions.

    The first row holds the original frame. Each further row belongs to a variable, with a column
    for each class that it was set to.
    """
    changes = [
        np.abs(images.astype(np.int16) - intervention.before[:, None]).mean((1, 2, 3, 4))
        for images in intervention.images
    ]
    frame = int(np.sum(changes, 0).argmax())
    V, columns = len(intervention.images), max(map(len, intervention.classes))
    _, H, W, _ = intervention.before.shape
    sheet = np.zeros(((V + 1) * H, columns * W, 3), np.uint8)
    sheet[:H, :W] = to_rgb(intervention.before[frame, ..., :3])
    for v, images in enumerate(intervention.images):
        for column, pixels in enumerate(images[frame]):
            top, left = (v + 1) * H, column * W
            sheet[top : top + H, left : left + W] = to_rgb(pixels[..., :3])
    return frame, {
        "sheet": png(sheet),
        "width": W,
        "height": H,
        "columns": columns,
        "rows": V + 1,
        "classes": [classes.tolist() for classes in intervention.classes],
        "chosen": intervention.chosen[frame].tolist(),
        "strongest": int(intervention.effect.argmax()),
    }


def _usage_spec(usage: CheckpointUsage) -> dict[str, Any]:
    codes = usage.codes
    return {
        "update": usage.update,
        "threshold": codes.threshold,
        "usage": codes.usage,
        "prior": usage.prior,
        "perplexity": codes.perplexity,
        "expected": np.exp(entropy(usage.prior)),
        "information": codes.information,
    }


def _over_training(checkpoints: list[CheckpointUsage]) -> list[Chart]:
    updates = [float(usage.update) for usage in checkpoints]
    distances = [
        float(np.abs(usage.codes.usage - usage.prior).sum(-1).mean() / 2) for usage in checkpoints
    ]
    rows = (
        ("Dead classes", "share", [usage.codes.dead_share for usage in checkpoints], "dead"),
        (
            "Perplexity",
            "mean perplexity",
            [float(usage.codes.perplexity.mean()) for usage in checkpoints],
            "perplexity",
        ),
        (
            "Information of all codes",
            "nats",
            [float(usage.codes.information.sum()) for usage in checkpoints],
            "information",
        ),
        ("Distance of prior and posterior", "total variation", distances, "prior and posterior"),
    )
    return [
        Chart(
            f"{title}, by checkpoint",
            "update",
            unit,
            [Series(title.lower(), "model", updates, values)],
            definition=definition,
            kind="points",
            zero=True,
        )
        for title, unit, values, definition in rows
    ]


def _regions(intervention: Intervention, frames: list[str]) -> Markup:
    """The mean change of each variable, the strongest first, and all classes of a few of them."""
    order = np.argsort(-intervention.effect, kind="stable").tolist()
    darkest = max(float(np.quantile(intervention.regions, STRONG)), 1e-9)
    maps = [
        element(
            "figure",
            element(
                "img",
                src=png(heat(intervention.regions[v], darkest)),
                alt=f"Pixels that z{v} changes",
                loading="lazy",
            ),
            element("figcaption", f"z{v}  {intervention.effect[v]:.1%}"),
        )
        for v in order
    ]
    text = (
        "One code is set to another class in use, the rest of the state stays, and the state is "
        "decoded. Darker pixels change more; the number is the mean change over "
        f"{len(frames)} frames ({'; '.join(frames)})."
    )
    sheet = strongest_sheet(intervention, STRONGEST)
    return joined(
        paragraph(text, soft=True),
        element("div", *maps, class_="regions"),
        image_figure(
            sheet,
            "The strongest codes: the original frame (green), and the code set to each class in "
            "use (red: its own class); below, the change.",
            "Frames with one code set to other classes",
        ),
    )
