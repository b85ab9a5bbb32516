"""The first section: the verdict in words, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmtk.viz.evaluation import SOON, Evaluation
from wmtk.viz.metrics import Estimate
from wmtk.viz.report.about import About
from wmtk.viz.report.markup import Markup, Section, element, joined, paragraph, tile
from wmtk.viz.verdict import Finding, reward_score, spoken, verdict


def summary(found: Evaluation, about: About) -> Section:
    headline, *findings = verdict(found)
    plural = "episode" if found.episodes == 1 else "episodes"
    looked = (
        f"Update {about.update:,} of {about.name} on {about.dataset.path.name}: {found.windows} "
        f"windows of {found.episodes} {plural} ({about.held_out}). In each, the model saw "
        f"{found.context} rows, then imagined {found.horizon} more with the recorded actions, "
        f"{found.samples} times over."
    )
    content = joined(
        element(
            "p", headline.text, class_=f"headline {_tone(headline)}", role="status", id="verdict"
        ),
        element("ul", *(_finding(finding) for finding in findings), class_="findings"),
        paragraph(looked, soft=True),
        element("div", *_tiles(found), class_="tiles"),
    )
    return Section("summary", "Summary", content)


def _tone(finding: Finding) -> str:
    return "good" if finding.good else "bad"


def _finding(finding: Finding) -> Markup:
    mark = element("span", "✓" if finding.good else "!", class_="mark", aria_hidden="true")
    return element("li", mark, finding.text, class_=_tone(finding))


def _tiles(found: Evaluation) -> Iterator[Markup]:
    yield tile(
        "Trusted", str(found.trusted), f"of {found.horizon} steps", "most of what varies is right"
    )
    yield tile(
        "Better than a guess",
        str(found.usable),
        f"of {found.horizon} steps",
        "than the last frame and the average one",
    )
    step = min(SOON, found.horizon)
    for key, quality in found.obs.items():
        name = "PSNR" if quality.image else "SNR"
        ceiling = f"{quality.ceiling.value[step - 1]:.1f} dB if it had seen the row"
        score = f"{quality.score.value[step - 1]:.1f}"
        yield tile(f"{name} of {key}, step {step}", score, "dB", ceiling)
    best = max(found.obs.values(), key=lambda q: float(np.nan_to_num(q.actions_overall.value)))
    if not np.isnan(best.actions_overall.value):
        yield _estimated("Actions", best.actions_overall, "dB", "lost with other actions")
    seen, name = reward_score(found.reward_seen)
    soon, _ = reward_score(found.reward_soon)
    if not np.isnan(seen) and not np.isnan(soon):
        yield tile("Reward, imagined", f"{soon:.2f}", name, f"{seen:.2f} from what it sees")
    ends = found.ends_seen
    if ends is not None and ends.terminal:
        base = f"base rate {ends.base_rate:.2g}"
        score = f"{ends.average_precision.value:.2f}"
        yield tile("Ends", score, "average precision", base)
    if found.codes is not None:
        dead = f"{int(found.codes.dead.sum()):,} of {found.codes.dead.size:,} classes"
        yield tile("Dead codes", f"{found.codes.dead_share:.0%}", "", dead)
    yield _estimated("KL", found.kl, "nats a step", "what seeing a frame adds")


def _estimated(name: str, found: Estimate, unit: str, note: str) -> Markup:
    interval = spoken(found).partition(" ")[2]
    return tile(name, f"{found.value:.2f}", unit, f"{note} {interval}".strip())
