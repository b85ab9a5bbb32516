"""`wmtk scores`: Atari scores over games and seeds, beside published results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit, human_bytes, human_count, note
from wmtk.cli.common.options import OUTPUT, Json, seed_option
from wmtk.errors import WmtkError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wmtk.scores import Comparison
    from wmtk.scores.agent_comparison import AggregateScore


STATISTICS = "Statistics"


def scores(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]FILE",
            help="Scores as .json or .csv; NAME= names the agent. Default: only published results.",
            show_default=False,
        ),
    ] = None,
    per_game: Annotated[
        bool,
        typer.Option(
            "--per-game",
            help="Show scores per game instead of aggregates, also in --csv.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    csv: Annotated[
        Path | None,
        typer.Option(help="Write the table as CSV.", metavar="F.csv", rich_help_panel=OUTPUT),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(
            help="Draw the differences per game.", metavar="F.png", rich_help_panel=OUTPUT
        ),
    ] = None,
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Agent whose differences from the others are drawn.",
            show_default="the first agent",
            rich_help_panel=OUTPUT,
        ),
    ] = "",
    json: Json = False,
    over_games: Annotated[
        bool,
        typer.Option(
            "--over-games",
            help="Resample games as well as seeds for the intervals.",
            rich_help_panel=STATISTICS,
        ),
    ] = False,
    confidence: Annotated[
        float,
        typer.Option(
            min=0.5,
            max=0.999,
            help="Confidence level of the intervals.",
            rich_help_panel=STATISTICS,
        ),
    ] = 0.95,
    resamples: Annotated[
        int,
        typer.Option(min=100, metavar="N", help="Bootstrap resamples.", rich_help_panel=STATISTICS),
    ] = 10_000,
    seed: Annotated[int, seed_option("Seed of the bootstrap.", STATISTICS)] = 0,
) -> None:
    """Aggregate Atari scores and compare them with published results.

    The four aggregates are those of the DreamerV2 paper. Scores are normalized so that random play
    is 0 and a professional gamer, or the human world record, is 1:

    \b
      Gamer Median          median over games of gamer-normalized scores
      Gamer Mean            their mean; a few games dominate it
      Record Mean           mean over games of record-normalized scores
      Clipped Record Mean   the same with scores clipped at 1 (recommended)

    Each seed is aggregated on its own; then the mean over seeds is taken. All agents are aggregated
    over the games that every agent has; their number is printed below the table. With several seeds
    there are bootstrap intervals, drawn over the seeds of each game.

    \b
    Files:
      .json   output of `wmtk eval --json`, one record or many
      .csv    columns game,seed,score (and agent, if there are several)
      .csv    column game and one column per agent, with means over seeds

    Games may be written pong, Pong, atari_pong or ALE/Pong-v5.

    \b
    Examples:
      wmtk scores                                    published results
      wmtk scores runs/*/eval.json                   with your runs
      wmtk scores big=big.csv small=small.csv        with two of your agents
      wmtk scores mine.csv --chart differences.png   game by game, as bars
    """
    from wmtk.scores import compare, published_agents, read_scores
    from wmtk.viz.videos.video_file import require_ending

    if chart is not None:
        from wmtk.viz.plots.figures import FIGURE_ENDINGS

        require_ending(chart, FIGURE_ENDINGS)
    if csv is not None:
        require_ending(csv, [".csv"])
    read = read_scores(files or [])
    own = [each for each in read.agents if not each.published]
    names = {each.name for each in own}
    others = [each for each in published_agents() if each.name not in names]
    comparison = compare(
        [*own, *others],
        over_games=over_games,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        notes=read.notes,
    )
    subject = comparison.agent(agent).name
    emit(comparison, json=json, render=lambda each: _render(each, per_game=per_game))
    if csv is not None:
        _write_csv(csv, comparison, per_game=per_game)
    if chart is not None:
        _draw(chart, comparison, subject)


# --- the table --------------------------------------------------------------------------------


def _render(comparison: Comparison, *, per_game: bool) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    table = _game_table(comparison) if per_game else _aggregate_table(comparison)
    explanations = _explanations(comparison, per_game=per_game)
    notes = [Text(note) for note in (*comparison.notes, *explanations)]
    return Group(table, "", *notes)


def _aggregate_table(comparison: Comparison) -> Table:
    from rich.table import Table
    from rich.text import Text

    from wmtk.scores import PROTOCOLS

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("agent", overflow="fold")
    table.add_column("seeds", justify="right")
    for protocol in PROTOCOLS:
        table.add_column(protocol.title.replace(" ", "\n", 1), justify="right", no_wrap=True)
    for agent in comparison.agents:
        cells = [_estimate(agent.protocols[protocol.name]) for protocol in PROTOCOLS]
        table.add_row(Text(agent.name), "mean" if agent.published else str(agent.seeds), *cells)
    return table


def _estimate(estimate: AggregateScore) -> str:
    if estimate.low is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f}\n{estimate.low:.2f} to {estimate.high:.2f}"


def _game_table(comparison: Comparison) -> Table:
    """Scores that are not normalized, beside those of random play, gamer and record."""
    from rich.table import Table
    from rich.text import Text

    from wmtk.cli.data.dataset_tables import number
    from wmtk.scores import references

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("game", no_wrap=True)
    for name in ("random", "gamer", "record"):
        table.add_column(name, justify="right", no_wrap=True, style="dim")
    for agent in comparison.agents:
        table.add_column(Text(agent.name), justify="right", overflow="fold")
    for game in comparison.games:
        reference_cells = [number(column.item()) for column in references([game])]
        agent_cells = [number(agent.games[game].score) for agent in comparison.agents]
        table.add_row(game, *reference_cells, *agent_cells)
    return table


def _explanations(comparison: Comparison, *, per_game: bool) -> Iterator[str]:
    if per_game:
        yield "Scores are means over seeds; --csv and --json include normalized scores."
    elif any(agent.published for agent in comparison.agents):
        yield "Published scores are averages over seeds."
    has_interval = [agent.protocols["gamer_mean"].low is not None for agent in comparison.agents]
    if any(has_interval) and not per_game:
        what = "the games and their seeds" if comparison.over_games else "the seeds of each game"
        yield (
            f"Intervals: {comparison.confidence:.0%}, bootstrap over {what}, "
            f"{comparison.resamples:,} resamples, seed {comparison.bootstrap_seed}."
        )


# --- files ------------------------------------------------------------------------------------


def _write_csv(path: Path, comparison: Comparison, *, per_game: bool) -> None:
    from wmtk.scores import aggregate_rows, game_rows, to_csv

    rows = game_rows(comparison) if per_game else aggregate_rows(comparison)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_csv(rows), encoding="utf-8")
    except OSError as error:
        raise WmtkError(
            f"{path} could not be written: {error.strerror}.", "Choose another path with --csv."
        ) from error
    note(f"{path}: {human_count(len(rows), 'row')}.")


def _draw(path: Path, comparison: Comparison, agent: str) -> None:
    from wmtk.scores import differences
    from wmtk.viz.plots.figures import save_figure
    from wmtk.viz.plots.score_chart import ScoreComparison, difference_figure

    subject = comparison.agent(agent)
    panels = [
        ScoreComparison(f"{each.agent} vs {each.other}", each.games, each.values)
        for each in differences(comparison, subject)
    ]
    games = human_count(len(comparison.games), "game")
    figure = difference_figure(panels, title=f"{subject.name}, game by game", caption=f"{games}.")
    written = save_figure(figure, path)
    size = f"{written.width} × {written.height} pixels, {human_bytes(written.bytes)}"
    note(f"{path}: {games}, {size}.")
