"""Provenance: run, weights, settings, data, commands and code version."""

from __future__ import annotations

import json
from collections.abc import Iterator

from wmtk.viz.html_report.markup import Section, element, folded, joined, table
from wmtk.viz.html_report.report_info import ReportInfo


def provenance_section(info: ReportInfo) -> Section:
    environment = json.dumps(info.run_json.get("env", {}), indent=1)
    commands = info.commands.strip() or "not recorded"
    content = joined(
        table(_rows(info)),
        element("h3", "Settings"),
        element("pre", info.config.strip()),
        folded("Environment", element("pre", environment)),
        folded("Training commands", element("pre", commands)),
    )
    return Section("provenance", "Settings and provenance", content)


def _rows(info: ReportInfo) -> Iterator[tuple[str, str]]:
    run_json = info.run_json
    yield "Run", f"{info.run} ({info.kind})"
    yield "Update", f"{info.update:,}"
    yield "Weights, SHA-256", info.hash
    yield "Run created", str(run_json.get("created", "unknown")).replace("T", " ")
    yield "Run created by", f"wmtk {run_json.get('code_version', 'unknown')}"
    yield "Seed of the training", str(run_json.get("seed", "unknown"))
    for source in run_json.get("data", []):
        share = run_json.get("val_fraction")
        held_out = f", {share:.0%} of them held out" if share else ""
        yield (
            "Trained on",
            f"{source['path']} ({source['id']}), version {source['version']}: "
            f"{source['episodes']:,} episodes{held_out}",
        )
    yield (
        "Evaluated on",
        f"{info.dataset.path} ({info.dataset.id}), version {info.dataset.version}",
    )
    yield "Report created", info.created.replace("T", " ")
    yield "Report created by", f"wmtk {info.version}, seed {info.seed}"
    yield "Command", info.command
