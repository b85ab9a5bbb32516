"""Where everything comes from: run, weights, settings, data, commands, code."""

from __future__ import annotations

import json
from collections.abc import Iterator

from wmtk.viz.html_report.about import About
from wmtk.viz.html_report.markup import Section, element, folded, joined, table


def provenance(about: About) -> Section:
    settings = element("pre", about.config.strip())
    environment = element("pre", json.dumps(about.facts.get("env", {}), indent=1))
    content = joined(
        table(_facts(about)),
        element("h3", "Settings"),
        settings,
        folded("Environment", environment),
        folded(
            "Commands that trained it", element("pre", about.commands.strip() or "not recorded")
        ),
    )
    return Section("provenance", "Settings and provenance", content)


def _facts(about: About) -> Iterator[tuple[str, str]]:
    facts = about.facts
    yield "Run", f"{about.run} ({about.kind})"
    yield "Update", f"{about.update:,}"
    yield "Weights, SHA-256", about.hash
    yield "Trained since", str(facts.get("created", "unknown")).replace("T", " ")
    yield "Trained by", f"wmtk {facts.get('code_version', 'unknown')}"
    yield "Seed of the training", str(facts.get("seed", "unknown"))
    for item in facts.get("data", []):
        share = facts.get("val_fraction")
        held = f", {share:.0%} of them held out" if share else ""
        yield (
            "Trained on",
            f"{item['path']} ({item['id']}), version {item['version']}: {item['episodes']:,} "
            f"episodes{held}",
        )
    yield (
        "Looked at with",
        f"{about.dataset.path} ({about.dataset.id}), version {about.dataset.version}",
    )
    yield "Report made", about.made.replace("T", " ")
    yield "Report made by", f"wmtk {about.version}, seed {about.seed}"
    yield "Command", about.command
