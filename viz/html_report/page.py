"""The report as one self-contained HTML file."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from wmtk.errors import WmtkError
from wmtk.viz.html_report.content import ReportContent
from wmtk.viz.html_report.dataset_section import dataset_section
from wmtk.viz.html_report.definition_section import definition_section
from wmtk.viz.html_report.factor_section import factor_section
from wmtk.viz.html_report.heads_section import heads_section
from wmtk.viz.html_report.latent_section import latent_section
from wmtk.viz.html_report.markup import Markup, Section, element, joined
from wmtk.viz.html_report.policy_section import policy_section
from wmtk.viz.html_report.prediction_section import prediction_section
from wmtk.viz.html_report.provenance_section import provenance_section
from wmtk.viz.html_report.report_info import ReportInfo
from wmtk.viz.html_report.summary_section import summary_section
from wmtk.viz.html_report.training_section import training_section
from wmtk.viz.html_report.video_section import COUNT as VIDEOS
from wmtk.viz.html_report.video_section import video_section
from wmtk.viz.videos.video_file import require_ending

ENDINGS = (".html", ".htm")
SCRIPTS = ("figure_base.js", "charts.js", "code_usage.js", "page.js")  # in order of dependence
# The page loads nothing from elsewhere, whatever the names of datasets and runs contain.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)


def report_page(
    content: ReportContent,
    info: ReportInfo,
    on_video: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """The HTML of the report; `on_video` is called with the number of finished videos."""
    total = VIDEOS + bool(content.imagined_episodes)
    sections = [
        summary_section(content.metrics, info),
        video_section(content, lambda done: on_video(done, total)),
        _policy(content, info, on_video),
        prediction_section(content.metrics),
        heads_section(content.metrics, content.calibration),
        latent_section(content),
        factor_section(content.metrics),
        training_section(info.history),
        dataset_section(info.dataset, info.held_out, info.seed),
        provenance_section(info),
        definition_section(content.metrics),
    ]
    title = f"{info.name}, update {info.update:,}"
    return document(title, [section for section in sections if section is not None])


def _policy(
    content: ReportContent, info: ReportInfo, on_video: Callable[[int, int], None]
) -> Section | None:
    if not content.imagined_episodes:
        return None
    section = policy_section(content.imagined_episodes, content.image, info.history)
    on_video(VIDEOS + 1, VIDEOS + 1)
    return section


def document(title: str, sections: Sequence[Section]) -> str:
    """An HTML document of sections, with a table of contents, the style sheet and the script."""
    links = [element("li", element("a", s.title, href=f"#{s.id}")) for s in sections]
    nav = element(
        "nav",
        element("p", title, class_="title"),
        element("ol", *links),
        element("button", "Dark theme", id="theme", type="button"),
        aria_label="Contents",
    )
    parts = [
        element("section", element("h2", s.title), s.content, id=s.id, aria_label=s.title)
        for s in sections
    ]
    main = element("main", element("h1", f"World model: {title}"), *parts, id="main")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=CONTENT_SECURITY_POLICY),
        element("title", f"{title}: wmtk report"),
        element("style", _asset("report.css")),
    )
    skip = element("a", "Skip to the report", href="#main", class_="skip")
    body = element("body", skip, nav, main, element("script", _script()))
    return joined(Markup("<!doctype html>\n"), element("html", head, body, lang="en"))


def _script() -> Markup:
    """All scripts as one, in a scope of its own."""
    parts = "\n".join(_asset(name) for name in SCRIPTS)
    return Markup(f'"use strict";\n(() => {{\n{parts}}})();\n')


def _asset(name: str) -> Markup:
    return Markup((files("wmtk.viz.html_report") / "assets" / name).read_text(encoding="utf-8"))


def require_report(path: Path) -> None:
    """Raise an error if the path is no HTML file or if videos cannot be encoded."""
    require_ending(path, ENDINGS)
    require_ending(Path("video.webm"), (".webm",))


def write_report(path: Path, page: str) -> int:
    """Write the page atomically and return its size in bytes."""
    content = page.encode()
    # The random name prevents writing through an existing symbolic link.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise WmtkError(
            f"{path} could not be written: {error.strerror or error}.",
            "Choose another path.",
        ) from error
    return len(content)
