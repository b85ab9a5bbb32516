"""Every picture of the docs is shown on a page, and every picture of a page is there."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_pictures_and_pages_agree() -> None:
    pages = [DOCS.parent / "README.md", *DOCS.glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"images/([\w.-]+)\)", page.read_text())}
    assert shown == {path.name for path in (DOCS / "images").iterdir()}
