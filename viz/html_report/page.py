"""The report as one file of HTML, which needs nothing but itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from wmtk.errors import WmtkError
from wmtk.viz.html_report.about import About
from wmtk.viz.html_report.dataset_section import data_section
from wmtk.viz.html_report.definitions import definitions
from wmtk.viz.html_report.factors import factors
from wmtk.viz.html_report.heads import heads
from wmtk.viz.html_report.latents import latents
from wmtk.viz.html_report.learning import learning
from wmtk.viz.html_report.markup import Markup, Section, element, joined
from wmtk.viz.html_report.material import Material
from wmtk.viz.html_report.overview import summary
from wmtk.viz.html_report.policy_section import dream_section
from wmtk.viz.html_report.prediction import prediction
from wmtk.viz.html_report.provenance import provenance
from wmtk.viz.html_report.video_section import COUNT as FILMS
from wmtk.viz.html_report.video_section import films
from wmtk.viz.videos.video_file import require_ending

ENDINGS = (".html", ".htm")
SCRIPTS = ("drawing.js", "charts.js", "codes.js", "page.js")  # in the order of their use
# Whatever a dataset or a run calls itself: the page asks nobody for anything.
POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)


def report_page(
    found: Material, about: About, on_film: Callable[[int, int], None] = lambda done, total: None
) -> str:
    """The whole page."""
    sections = [
        summary(found.evaluation, about),
        films(found, lambda done, total: on_film(done, total + bool(found.dreams))),
        _dreams(found, about, on_film),
        prediction(found.evaluation),
        heads(found.evaluation, found.calibration),
        latents(found),
        factors(found.evaluation),
        learning(about.history),
        data_section(about.dataset, about.held_out, about.seed),
        provenance(about),
        definitions(found.evaluation),
    ]
    title = f"{about.name}, update {about.update:,}"
    return document(title, [section for section in sections if section is not None])


def _dreams(found: Material, about: About, on_film: Callable[[int, int], None]) -> Section | None:
    if not found.dreams:
        return None
    section = dream_section(found.dreams, found.image, about.history)
    on_film(FILMS + 1, FILMS + 1)
    return section


def document(title: str, sections: Sequence[Section]) -> str:
    """Sections with a table of contents, the style and the script."""
    links = [element("li", element("a", s.title, href=f"#{s.id}")) for s in sections]
    nav = element(
        "nav",
        element("p", title, class_="title"),
        element("ol", *links),
        element("button", "Dark page", id="theme", type="button"),
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
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", f"{title}: wmtk report"),
        element("style", _asset("report.css")),
    )
    skip = element("a", "Skip to the report", href="#main", class_="skip")
    body = element("body", skip, nav, main, element("script", _script()))
    return joined(Markup("<!doctype html>\n"), element("html", head, body, lang="en"))


def _script() -> Markup:
    """All scripts as one, which leaves no names behind."""
    parts = "\n".join(_asset(name) for name in SCRIPTS)
    return Markup(f'"use strict";\n(() => {{\n{parts}}})();\n')


def _asset(name: str) -> Markup:
    return Markup((files("wmtk.viz.html_report") / "assets" / name).read_text(encoding="utf-8"))


def require_report(path: Path) -> None:
    """Refuse what cannot be written here; call it before the long work."""
    require_ending(path, ENDINGS)
    require_ending(Path("film.webm"), (".webm",))


def write_report(path: Path, page: str) -> int:
    """Write the page, whole or not at all; returns its size in bytes."""
    content = page.encode()
    # A name that cannot be known before: no link that lies there already is written through.
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise WmtkError(
            f"{path} could not be written: {error.strerror or error}.",
            "Choose another path.",
        ) from error
    return len(content)
