"""The page in a browser: keys, time, codes, the real environment, data, recording.

No request leaves the address of the page.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from wmtk.collecting import dataset_for
from wmtk.datasets import Dataset, Source
from wmtk.envs import resolve
from wmtk.training.model_stage import train_model
from wmtk.training.presets import training_config
from wmtk.viz.live.catalog import Catalog, RecordingTarget
from wmtk.viz.live.server import Server
from wmtk.viz.live_page import data_entry, run_entry

pytestmark = pytest.mark.slow

SMALL = {"model.cnn_depth": 2, "model.layers": 1, "model.units": 8, "data.batch_size": 2}
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 300_000  # milliseconds, on a machine that is busy


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(
            executable_path=chromium, args=list(FLAGS), timeout=PATIENCE
        )
        yield opened
        opened.close()


class Visit:
    """The page, with its console messages and its requests to other addresses."""

    def __init__(self, browser: Any, server: Server, **options: Any) -> None:
        from playwright.sync_api import expect

        self.expect = expect
        self.context = browser.new_context(viewport={"width": 1280, "height": 720}, **options)
        self.context.set_default_timeout(PATIENCE)
        self.messages: list[str] = []
        self.outside: list[str] = []
        self._home = server.address.url
        self.context.route("**/*", self._route)
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self.messages.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.goto(self._home)

    def _route(self, route: Any) -> None:
        if route.request.url.startswith(self._home):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def has_text(self, id: str, text: str) -> None:
        self.expect(self.page.locator(f"#{id}")).to_have_text(re.compile(text))

    @property
    def step(self) -> int:
        match = re.search(r"step (\d+)", self.page.inner_text("#facts"))
        return int(match[1]) if match else -1

    def pixels(self, id: str = "stage") -> Any:
        """The gray levels of a canvas, as drawn on the screen."""
        screenshot = self.page.locator(f"#{id}").screenshot()
        return np.asarray(Image.open(io.BytesIO(screenshot)).convert("L")).astype(int)

    def close(self) -> None:
        self.context.close()
        assert not self.outside, self.outside
        assert not self.messages, self.messages


@pytest.fixture
def visit(browser: Any, serve: Callable[..., Server], make_catalog) -> Iterator[Any]:
    opened: list[Visit] = []

    def open_page(server: Server | None = None, **options: Any) -> Visit:
        opened.append(Visit(browser, server or serve(), **options))
        return opened[-1]

    yield open_page
    for one in opened:
        one.close()


def test_holding_a_key_acts_in_imagination(visit) -> None:
    here = visit()
    here.has_text("facts", "step 0")
    before = here.pixels()
    here.page.keyboard.down("ArrowRight")
    here.has_text("facts", r"step \d+, you: right")
    here.page.keyboard.up("ArrowRight")
    here.has_text("facts", r"step \d+, you: stay")
    assert "steps per second" in here.page.inner_text("#rate")
    here.page.keyboard.press("p")
    here.has_text("rate", "paused")
    assert np.abs(here.pixels() - before).max() > 50
    stopped = here.step
    assert stopped > 1
    here.page.keyboard.press(".")
    here.has_text("facts", f"step {stopped + 1}, ")


def test_keys_act_after_any_click(visit, serve, make_catalog) -> None:
    here = visit(serve(make_catalog(runs=2)))
    here.has_text("facts", "step 0")
    here.page.get_by_role("tab", name="Play", exact=True).click()
    here.page.get_by_label("an imagined first state").click()
    here.page.get_by_role("button", name="Restart").click()
    here.has_text("facts", "step 0")
    here.page.keyboard.press("ArrowRight", delay=300)
    here.has_text("facts", r"step \d")
    tab = here.page.get_by_role("tab", name="Play", exact=True)
    assert tab.get_attribute("aria-selected") == "true"
    assert here.page.input_value("#run") == "r0"
    tab.focus()  # without a mouse, arrows select the view
    here.page.keyboard.press("ArrowRight")
    here.expect(here.page.locator("#view-data")).to_be_visible()


def test_steps_back_and_forks_create_branches(visit) -> None:
    here = visit()
    here.has_text("facts", "step 0")
    for step in range(1, 6):
        here.page.keyboard.press(".")
        here.has_text("facts", f"step {step}\\b")
    there = here.pixels()
    here.page.keyboard.press(",")
    here.has_text("facts", "step 4\\b")
    here.page.keyboard.press(".")  # a new branch with the same seed
    here.has_text("facts", "step 5\\b")
    np.testing.assert_array_equal(here.pixels(), there)
    here.page.get_by_label("To the first step").click()
    here.has_text("facts", "step 0")
    here.page.keyboard.press("f")
    here.has_text("note", "Branch 2 begins at step 0")
    here.page.locator("#timeline").click(position={"x": 60, "y": 4})  # the first branch again
    here.has_text("facts", r"step [1-5]\b")


def test_a_click_forces_a_code_until_it_is_released(visit) -> None:
    here = visit()
    here.has_text("facts", "step 0")
    before = here.pixels()
    here.page.locator("#codes").click(position={"x": 5, "y": 5})
    here.expect(here.page.locator("#release")).to_be_enabled()
    here.page.mouse.move(0, 0)
    here.has_text("code-text", "Forced: z0 = 0")
    here.expect(here.page.locator("#stage")).to_contain_text("Change by forcing")
    here.page.get_by_role("spinbutton", name="Variable").fill("2")
    here.page.get_by_role("spinbutton", name="Class").fill("7")
    here.page.get_by_role("button", name="Force", exact=True).click()
    here.page.mouse.move(0, 0)
    here.has_text("code-text", "z2 = 7")
    here.page.locator("#h-codes").click()
    here.page.keyboard.press("n")
    here.expect(here.page.locator("#stage")).not_to_contain_text("Without forcing")
    np.testing.assert_array_equal(here.pixels(), before)


def test_the_real_environment_steps_beside_imagination(visit) -> None:
    here = visit()
    here.has_text("facts", "step 0")
    here.page.get_by_label("the real environment, in lock-step").check()
    here.has_text("what", "beside the real environment")
    here.expect(here.page.locator("#stage")).to_contain_text("Imagined, Real, Difference")
    here.page.keyboard.down("ArrowLeft")
    here.has_text("facts", r"step [2-9]")
    here.page.keyboard.up("ArrowLeft")
    here.page.keyboard.press("p")
    here.has_text("rate", "paused")  # otherwise the note could be about the end of the episode
    here.page.keyboard.press("c")
    here.has_text("note", "Reality check: the model observed step")
    here.expect(here.page.get_by_role("button", name="Fork")).to_be_disabled()


def test_episodes_are_browsed_and_imagined_from(visit, catch, until) -> None:
    here = visit()
    here.page.get_by_role("tab", name="Data").click()
    episodes = here.page.locator(".episode")
    here.expect(episodes).to_have_count(6)
    here.page.get_by_label("order").select_option("-return")
    best = max(episode.total_reward for episode in Dataset.open(catch))
    here.expect(episodes.first).to_contain_text(f"return {best:g}")
    here.page.get_by_label("return from").fill("100")
    here.has_text("page-text", "no episode matches")
    here.page.get_by_label("return from").fill("")
    here.expect(episodes).to_have_count(6)
    episodes.nth(2).click()
    here.expect(episodes.nth(2)).to_have_attribute("aria-selected", "true")
    here.page.locator("#episode-scrub").fill("30")
    here.has_text("episode-now", "step 30 of 79")
    here.has_text("provenance", "random")
    until(lambda: here.pixels("episode-frame").min() < 30)  # black, once the image is loaded
    title = re.search(r"\d+", here.page.inner_text("#episode-title"))
    here.page.get_by_role("button", name="Imagine from here").click()
    here.has_text("facts", "step 0")
    assert here.page.input_value("#episode") == (title[0] if title else "")
    assert here.page.input_value("#step") == "30"


def test_real_episodes_of_a_person_are_saved(visit, serve, make_catalog, until) -> None:
    catalog = make_catalog(record=True, runs=0)
    here = visit(serve(catalog, human=True))
    here.has_text("what", "The real environment")
    here.expect(here.page.locator("#predictions")).to_be_hidden()
    here.page.locator("#speed").fill("30")
    here.page.keyboard.down("ArrowRight")
    here.has_text("note", "Episode over .* Saved to mine.zarr")
    here.page.keyboard.up("ArrowRight")
    here.has_text("record-text", "1 episode with 79 steps saved")
    saved = Dataset.open(catalog.target.dataset.path)[0]
    assert saved.provenance.policy == "human"
    assert (saved.action[1:] == 2).mean() > 0.5
    here.page.keyboard.press("r")
    here.has_text("facts", "step 0")


def test_continuous_actions_have_keys_sliders_and_the_mouse(visit, serve, tmp_path) -> None:
    task = resolve("wmtk/Reach-v0")
    target = RecordingTarget(task, dataset_for(task, tmp_path / "reach.zarr"), seed=0)
    here = visit(serve(Catalog([], [], target), human=True))
    here.has_text("facts", "step 0")
    here.page.locator("#keys input").first.fill("0.5")
    here.page.locator("#what").click()
    here.page.keyboard.press(".")
    here.has_text("facts", r"step 1, you: \+0\.50 \+0\.00")
    here.page.keyboard.down("ArrowLeft")
    here.page.keyboard.press(".")
    here.has_text("facts", r"step 2, you: -1\.00 \+0\.00")
    here.page.keyboard.up("ArrowLeft")
    here.expect(here.page.locator("#keys output").first).to_have_text("0.00")
    box = here.page.locator("#stage").bounding_box()
    here.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 30)
    here.page.mouse.down()  # below the middle of the image
    here.page.keyboard.press(".")
    here.has_text("facts", r"step 3, you: [+-]0\.0\d \+0\.[5-9]")
    here.page.mouse.up()
    here.page.keyboard.press(".")
    here.has_text("facts", r"step 4, you: \+0\.00 \+0\.00")


def test_models_are_evaluated_and_compared(visit, serve, catch, tmp_path) -> None:
    config = training_config("tiny", overrides=SMALL)
    for number in range(2):
        source = [Source(Dataset.open(catch))]
        train_model(source, tmp_path / f"run{number}", config, updates=1, seed=number)
    runs = [run_entry(tmp_path / f"run{number}", "latest", "cpu", []) for number in range(2)]
    here = visit(serve(Catalog(runs, [data_entry(catch)])))
    here.page.get_by_role("tab", name="Models").click()
    here.page.get_by_label("Evaluate run1").check()
    here.page.get_by_label("windows").fill("4")
    here.page.get_by_label("steps ahead").fill("6")
    here.page.get_by_role("button", name="Evaluate", exact=True).click()
    here.has_text("measure-text", r"\d windows: episodes held out of training")
    here.expect(here.page.locator("#results h2")).to_have_text(
        ["run0", "run1", "Quality of predictions", "Differences, on the same windows"]
    )
    here.expect(here.page.locator("#results tbody tr").first).to_contain_text("PSNR")
    verdicts = here.page.locator("#results .verdict.bad")
    here.expect(verdicts).to_have_count(2)
    here.expect(verdicts.first).to_contain_text("Bad for training a policy: ")
    assert here.page.locator("#results li.doubtful").count() > 0
    assert np.ptp(here.pixels("chart")) > 50


def test_closing_pages_frees_the_model(visit, serve, until) -> None:
    server = serve()
    one, two = visit(server), visit(server, color_scheme="dark")
    for here in (one, two):
        here.has_text("facts", "step 0")
        here.page.keyboard.press("p")
    for here in (one, two):
        here.has_text("facts", r"step \d\d")
    until(lambda: len(server.engine.models) == 1)
    one.page.close()
    until(lambda: server.engine.clients == 1)
    two.page.close()
    until(lambda: server.engine.clients == 0 and len(server.engine.models) == 0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_fits_a_small_screen_and_has_a_name(visit, scheme) -> None:
    here = visit(color_scheme=scheme)
    here.has_text("facts", "step 0")
    page = here.page
    for name in ("Play", "Data", "Models", "Help"):
        page.get_by_role("tab", name=name, exact=True).click()
        view = page.locator(f"#view-{name.lower()}")
        wide, room = view.evaluate("node => [node.scrollWidth, node.clientWidth]")
        assert wide <= room, name
        if name in {"Play", "Data"}:
            tall, room = view.evaluate("node => [node.scrollHeight, node.clientHeight]")
            assert tall <= room, name
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, canvas")]
            .filter((node) => !(node.labels?.length || node.ariaLabel || node.textContent.trim()))
            .map((node) => node.outerHTML)"""
    )
    assert unnamed == []
    page.get_by_role("tab", name="Play", exact=True).click()
    # The layout stays the same during playback.
    places = ("stage", "timeline", "keys", "codes")
    before = [page.locator(f"#{id}").bounding_box() for id in places]
    page.keyboard.press("p")
    here.has_text("facts", r"step \d\d")
    page.locator("#codes").click(position={"x": 5, "y": 5})
    page.keyboard.press("p")
    here.has_text("rate", "paused")
    assert [page.locator(f"#{id}").bounding_box() for id in places] == before
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    page.get_by_label("Dark or light colors").click()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") != background
