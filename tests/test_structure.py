"""The layout that CONTRIBUTING.md promises: unique names, small folders, required files."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGES = ("wmtk", "datasets", "viz", "cli")
LINKED = {"cli", "datasets", "viz"}  # links below wmtk/ to the folders at the top level
MOST_MODULES = 18  # in one folder


def modules() -> list[Path]:
    """Every module of the library, links not followed."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            inside = path.relative_to(ROOT)
            if not (inside.parts[0] == "wmtk" and inside.parts[1] in LINKED):
                found.append(inside)
    return found


MODULES = modules()


def test_no_module_stem_occurs_twice():
    stems = Counter(path.stem for path in MODULES if not path.stem.startswith("__"))
    assert [stem for stem, count in stems.items() if count > 1] == []


def test_no_public_class_name_occurs_twice():
    homes = defaultdict(list)
    for path in MODULES:
        for node in ast.parse((ROOT / path).read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_folders_can_be_taken_in_at_a_glance():
    sizes = Counter(path.parent for path in MODULES if not path.stem.startswith("__"))
    assert {str(folder): n for folder, n in sizes.items() if n > MOST_MODULES} == {}


def test_file_names_have_no_prefix_that_stands_for_a_folder():
    """Such as viz_codes.py, viz_dream.py and viz_report.py, which make a folder of their own."""
    families = defaultdict(list)
    for path in MODULES:
        prefix, underscore, _ = path.stem.partition("_")
        if underscore and prefix:
            families[(path.parent, prefix)].append(path.name)
    assert {str(key): names for key, names in families.items() if len(names) > 3} == {}


def test_models_without_kernels_are_short_enough_to_read_beside_the_paper():
    files = [path for path in MODULES if path.parent == Path("wmtk/models")]
    assert sum(len((ROOT / path).read_text().splitlines()) for path in files) <= 1300


def test_online_is_a_short_composition():
    assert len((ROOT / "wmtk/training/online/train.py").read_text().splitlines()) <= 120


@pytest.mark.parametrize(
    "file",
    [
        ".pre-commit-config.yaml",
        ".github/workflows/ci.yml",
        ".github/ISSUE_TEMPLATE/bug_report.yml",
        ".github/ISSUE_TEMPLATE/feature_request.yml",
        "CITATION.cff",
    ],
)
def test_repository_files_are_valid_yaml(file):
    assert yaml.safe_load((ROOT / file).read_text())


def test_the_hooks_run_what_make_lint_runs():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    lint = re.search(r"^lint:.*?\n\n", (ROOT / "Makefile").read_text(), re.S | re.M)
    assert lint is not None
    tools = set(re.findall(r"\$\(BIN\)/([\w-]+)", lint.group(0)))
    assert tools == set(re.findall(r"\.venv/bin/([\w-]+)", hooks)), (
        "pre-commit and make lint differ"
    )


def test_contributing_names_every_folder_of_the_library():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    folders = {path.parent for path in MODULES}
    assert [str(folder) for folder in folders if f"{folder.name}/" not in text] == []


BANNED = re.compile(
    r"\b(nobody|somebody|whoever|anew|learnt|is told|no open book|behaviour|colour|optimis\w+"
    r"|initialis\w+|normalis\w+)\b",
    re.IGNORECASE,
)


def test_the_prose_keeps_to_the_style_guide():
    pages = [*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    lines = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*(ROOT / module for module in MODULES), *pages]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if path.name != "former_names.py"  # which converts them
        if BANNED.search(line)
    ]
    assert lines == []
