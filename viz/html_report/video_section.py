"""Videos: predictions and reconstructions beside the recording."""

from __future__ import annotations

from collections.abc import Callable

from wmtk.viz.html_report.content import ReportContent
from wmtk.viz.html_report.markup import Section, joined, paragraph
from wmtk.viz.html_report.media import video_figure
from wmtk.viz.videos.rollout_video import rollout_frames

COUNT = 3  # videos


def video_section(content: ReportContent, on_video: Callable[[int], None]) -> Section:
    """Open-loop predictions, several futures of one window, and reconstructions."""
    observations = "images" if content.image else "observations"
    context = content.metrics.context
    parts: list[str] = [
        paragraph(
            f"The model observes {context} rows (green) and predicts the others in open loop (red) "
            f"with the recorded actions. Below the {observations}: recorded and predicted rewards "
            "and ends.",
            soft=True,
        )
    ]
    videos = [
        (
            content.open_loop,
            "Open-loop predictions",
            "The windows with the largest, the median and the smallest error, relative to the "
            "error of repeating the last observed frame.",
        ),
        (
            [content.futures],
            "Sampled futures",
            f"{content.futures.samples} futures of the median window with the same actions. The "
            "model is uncertain where they differ.",
        ),
        (
            content.reconstructions,
            "Reconstructions",
            "The same windows with every row observed: the ceiling of prediction quality.",
        ),
    ]
    assert len(videos) == COUNT
    for number, (rollouts, title, caption) in enumerate(videos, start=1):
        frames = rollout_frames(rollouts, content.image, title=title)
        parts.append(video_figure(frames, f"{title}. {caption}", title))
        on_video(number)
    return Section("videos", "Videos", joined(*parts))
