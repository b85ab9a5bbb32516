"""The films: what the model imagines beside what happened."""

from __future__ import annotations

from collections.abc import Callable

from wmtk.viz.html_report.markup import Section, joined, paragraph
from wmtk.viz.html_report.material import Material
from wmtk.viz.html_report.media import film
from wmtk.viz.videos.rollout_video import rollout_frames

COUNT = 3  # films


def films(found: Material, on_film: Callable[[int, int], None]) -> Section:
    """A bad, a typical and a good window; several futures of one; the same windows seen."""
    what = "pictures" if found.image else "numbers"
    context = found.evaluation.context
    parts: list[str] = [
        paragraph(
            f"The model sees {context} rows (green), then imagines the others (red) with the "
            f"recorded actions. Below its {what} stand rewards and ends: what came, and what it "
            "expected.",
            soft=True,
        )
    ]
    made = [
        (
            found.windows,
            "Open loop",
            "The window that it predicts worst, a typical one, and the one that it predicts best, "
            "by their error for that of the last frame.",
        ),
        (
            [found.futures],
            "Several futures",
            f"{found.futures.samples} futures of the typical window, drawn with the same actions: "
            "where they differ, the model is unsure.",
        ),
        (
            found.seen,
            "Reconstructions",
            "The same windows when the model sees every row: the best that it can show.",
        ),
    ]
    assert len(made) == COUNT
    for number, (rollouts, title, caption) in enumerate(made, start=1):
        frames = rollout_frames(rollouts, found.image, title=title)
        parts.append(film(frames, f"{title}. {caption}", title))
        on_film(number, len(made))
    return Section("films", "Films", joined(*parts))
