"""Metrics on demand, of models that were really trained, while somebody plays in one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wmtk.datasets import Dataset, Source
from wmtk.training.model_stage import train_model
from wmtk.training.presets import training_config
from wmtk.viz.live import protocol
from wmtk.viz.live.catalog import Catalog
from wmtk.viz.live.engine import Engine
from wmtk.viz.live.measure import MetricsRunner
from wmtk.viz.live_page import data_entry, run_entry

SMALL = {
    "model.cnn_depth": 2,
    "model.layers": 1,
    "model.units": 8,
    "model.rssm.deter": 8,
    "model.rssm.hidden": 8,
    "model.rssm.stoch": 2,
    "model.rssm.classes": 4,
    "data.batch_size": 2,
    "data.length": 6,
    "logging.held_out_batches": 1,
}


def incoming(kind: str, **about: Any) -> Any:
    return protocol._INCOMING.validate_python({"kind": kind, **about})


@pytest.mark.slow
def test_runs_are_measured_and_compared_while_one_is_played(
    catch: Path, tmp_path: Path, page, until, run_wmtk
) -> None:
    config = training_config("tiny", overrides=SMALL)
    for number in range(2):
        source = [Source(Dataset.open(catch))]
        train_model(source, tmp_path / f"run{number}", config, updates=1, seed=number)
    said = []  # by the command, whose random numbers are those of this process
    for number in range(2):
        few = ("--windows", 4, "--horizon", 6, "--json")
        done = run_wmtk("viz", "metrics", tmp_path / f"run{number}", catch, *few)
        said.append(json.loads(done.stdout)["verdict"])
    runs = [run_entry(tmp_path / f"run{number}", "latest", "cpu", []) for number in range(2)]
    catalog = Catalog(runs, [data_entry(catch)])
    about = catalog.describe()["runs"][0]
    assert about["fits"] == ["d0"]
    assert about["real"]
    assert about["latent"] == "2 × 4 categorical"
    engine = Engine(catalog)
    measurer = MetricsRunner(catalog, engine)
    try:
        player = type(page)()
        client = engine.connect(player)
        engine.post(client, incoming("start", source="data", run="r0", data="d0", step=9))
        going = {"actor": "person", "speed": 60, "temperature": 1, "futures": 2}
        engine.post(client, incoming("settings", playing=True, **going))
        until(lambda: len(player.frames) > 2)
        asked = {"runs": ["r0", "r1"], "data": "d0", "windows": 4, "horizon": 6}
        measurer.start(page, incoming("measure", **asked))
        before = player.step
        until(lambda: bool(page.told("measured")), 300)
        assert player.step > before  # nobody had to wait for the end of it
        (found,) = page.told("measured")
        assert [result["run"] for result in found["results"]] == ["r0", "r1"]
        assert len(found["results"][0]["obs"]["image"]["score"]["value"]) == 6
        assert [result["verdict"] for result in found["results"]] == said
        assert found["differences"]
        assert found["note"] == "episodes held out of training"
        assert protocol.dump(found)
        progress = page.told("measuring")
        assert {"Evaluating run0", "Evaluating run1"} <= {event["text"] for event in progress}
        until(lambda: len(engine.models) == 1)  # only the one that is played in
        engine.disconnect(client)
        until(lambda: len(engine.models) == 0)
        measurer.start(page, incoming("measure", runs=["r0"], data="d7"))
        until(lambda: len(page.told("measured")) == 2)
        assert "no dataset" in page.told("measured")[1]["error"]
    finally:
        measurer.stop_all()
        engine.stop()
