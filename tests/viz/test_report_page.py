"""The report of a correct model, opened in a browser without network access."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wmtk.agent.outputs import PolicyRollout
from wmtk.datasets import Batch, Dataset, Episode, Provenance
from wmtk.viz.html_report import ReportInfo, collect_content, report_page, write_report
from wmtk.viz.windows import Window, read_windows

from .dots import PLACES, SCHEMA, DotModel, draw, find, record

pytest.importorskip("imageio_ffmpeg")

CONTEXT = 3
SECTIONS = (
    *("summary", "videos", "policy", "prediction", "heads", "latents", "factors", "training"),
    *("data", "provenance", "definitions"),
)
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


class Dots(DotModel):
    def decode(self, deter: NDArray[Any], stoch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        return {"image": draw(stoch.argmax(-1))}

    def value_of(self, deter: NDArray[Any], stoch: NDArray[Any]) -> NDArray[np.float32]:
        return stoch.argmax(-1).astype(np.float32)

    def rollout_policy(
        self, batch: Batch, *, context: int, horizon: int, samples: int = 1, **_: Any
    ) -> PolicyRollout:
        """The dot moves to the right."""
        N = len(batch.reward)
        place = find(batch.obs["image"][:, context - 1])[:, None] + 1 + np.arange(horizon)
        place = np.minimum(place, PLACES - 1)[:, None].repeat(samples, 1)  # (N, S, H)
        return PolicyRollout(
            obs={"image": self._show(place)},
            action=np.full((N, samples, horizon), 2),
            reward=self._reward(place),
            discount=np.full(place.shape, 0.9, np.float32),
            value=place.astype(np.float32),
        )


def make_dataset(path: Path) -> Dataset:
    """The random walks of dots as episodes."""
    walks = record()
    with Dataset.create(path, SCHEMA, env={"env_id": "test/Dots <b>"}) as dataset:
        for n in range(len(walks.reward)):
            arrays = {
                "obs/image": walks.obs["image"][n],
                "info/place": walks.info["place"][n],
                **{
                    name: getattr(walks, name)[n]
                    for name in ("action", "reward", "terminated", "truncated")
                },
            }
            arrays["reward"] = arrays["reward"].astype(np.float64)
            dataset.append(Episode.from_arrays(arrays, None, Provenance("test/Dots")))
    return Dataset.open(path)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    dataset = make_dataset(folder / "dots.zarr")
    rows = 20
    batches = [
        read_windows(dataset, [Window(n, 0, rows) for n in numbers], rows)
        for numbers in (range(8), range(8, 16))
    ]
    progress: dict[str, tuple[int, int]] = {}
    content = collect_content(
        Dots(),
        batches,
        context=CONTEXT,
        samples=2,
        earlier=[(100, DotModel(collapsed=True))],
        update=200,
        policy=Dots(),
        on_progress=lambda text, done, total: progress.update({text: (done, total)}),
    )
    assert set(progress) == {
        *("Predicting windows", "Computing metrics", "Evaluating checkpoints", "Changing codes"),
    }
    assert all(done == total for done, total in progress.values()), progress
    info = ReportInfo(
        name="dots <script>alert(1)</script>",
        run="runs/dots",
        kind="model",
        update=200,
        hash="abc",
        run_json={"data": [], "env": {"env_id": "test/Dots"}},
        config="model:\n  depth: 2\n",
        commands="",
        history=[
            {"step": n, "train/kl": 1.0 + n, "train/psnr/image": 20.0, "val/kl": 2.0}
            for n in range(50, 201, 50)
        ],
        dataset=dataset,
        held_out="all episodes",
        seed=0,
        created="2026-01-01T00:00:00+00:00",
        command="wmtk viz report runs/dots dots.zarr",
        version="0",
    )
    videos: list[tuple[int, int]] = []
    page = report_page(content, info, on_video=lambda done, total: videos.append((done, total)))
    assert videos == [(1, 4), (2, 4), (3, 4), (4, 4)]
    write_report(folder / "report.html", page)
    return folder / "report.html"


@pytest.mark.slow
def test_the_page_has_all_sections_and_videos(path: Path) -> None:
    page = path.read_text()
    assert re.findall(r'<section id="(\w+)"', page) == list(SECTIONS)
    for name in SECTIONS:
        assert f'href="#{name}"' in page
    for words in ("Good for training a policy", "of the codes are dead", "Rewards are", "z0"):
        assert words in page, words
    assert page.count("data:video/webm;base64,") == 4
    assert "alert(1)</script>" not in page
    # Every link to a definition has its target.
    assert set(re.findall(r'href="#(definition-[^"]+)"', page)) <= set(
        re.findall(r'id="(definition-[^"]+)"', page)
    )
    assert path.stat().st_size < 5_000_000


@pytest.fixture(scope="module")
def browser(path: Path) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as running:
        # With a temporary profile.
        opened = running.chromium.launch(
            executable_path=chromium, args=list(FLAGS), timeout=120_000
        )
        yield opened
        opened.close()


class Visit:
    """The page in a browser, with its console messages and its blocked requests."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.context.set_default_timeout(60_000)
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.context.route("**/*", self._route)
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self.messages.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.goto(path.as_uri())

    def _route(self, route: Any) -> None:
        """Allow files and data URLs; record and block everything else."""
        if route.request.url.startswith(("file:", "data:")):
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()


@pytest.fixture
def visit(browser: Any, path: Path) -> Iterator[Visit]:
    visit = Visit(browser, path)
    yield visit
    assert visit.messages == []
    assert visit.requests == []
    visit.context.close()


def wait_until(check: Callable[[], bool], seconds: float = 60) -> None:
    """Poll a condition; the content security policy blocks `wait_for_function`."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)


@pytest.mark.slow
def test_videos_play(visit: Visit) -> None:
    page = visit.page
    assert page.locator("video").count() == 4
    for number in range(4):
        figure = page.locator("figure.video").nth(number)
        video = figure.locator("video")
        figure.get_by_role("button", name="Play").click()
        wait_until(lambda video=video: video.evaluate("v => v.currentTime") > 0.3)
        width, height, error = video.evaluate("v => [v.videoWidth, v.videoHeight, v.error]")
        assert width > 300
        assert height > 200
        assert error is None
        figure.get_by_role("button", name="Pause").click()
        assert figure.locator("output").inner_text().startswith("row ")


@pytest.mark.slow
def test_videos_have_steps_and_speeds(visit: Visit) -> None:
    figure = visit.page.locator("figure.video").first
    video = figure.locator("video")
    wait_until(lambda: video.evaluate("v => v.readyState") >= 2)

    def stands_at(row: int) -> bool:
        at, seeking = video.evaluate("v => [v.currentTime, v.seeking]")
        return not seeking and abs(at - (row + 0.5) / 8) < 0.01

    figure.get_by_text("+10").click()
    wait_until(lambda: stands_at(10))
    figure.get_by_text("−1 step").click()
    wait_until(lambda: stands_at(9))
    wait_until(lambda: figure.locator("output").inner_text() == "row 10 of 20")
    figure.get_by_label("Row").fill("4")
    wait_until(lambda: stands_at(4))
    figure.locator("select").select_option("2")
    assert video.evaluate("v => v.playbackRate") == 2


@pytest.mark.slow
def test_charts_have_a_cursor_for_pointer_and_keys(visit: Visit) -> None:
    page = visit.page
    charts = page.locator("figure.chart")
    assert charts.count() > 12
    assert charts.evaluate_all(
        "all => all.every(c => c.querySelector('svg path, svg rect, svg circle'))"
    )
    psnr = page.locator("figure.chart", has_text="PSNR of predictions")
    plot, tooltip = psnr.locator(".plot"), psnr.locator(".tooltip")
    assert tooltip.is_hidden()
    plot.hover()
    assert "reconstruction" in tooltip.inner_text()
    page.mouse.move(1, 1)
    assert tooltip.is_hidden()
    plot.focus()
    page.keyboard.press("End")
    assert tooltip.inner_text().startswith("step 17")
    page.keyboard.press("ArrowLeft")
    assert tooltip.inner_text().startswith("step 16")
    announcement = psnr.locator("[aria-live]").inner_text()
    assert announcement.startswith("step 16")
    # Charts of a group share a cursor.
    assert page.locator("#heads .cursor").count() > 0
    page.keyboard.press("Escape")
    assert tooltip.is_hidden()
    curves = psnr.locator("path.curve").count()
    psnr.get_by_role("button", name="mean frame").click()
    assert psnr.locator("path.curve").count() == curves - 1
    psnr.get_by_text("Numbers").click()
    wait_until(lambda: psnr.locator("tbody tr").count() == 17)


@pytest.mark.slow
def test_code_usage_by_key_and_checkpoint(visit: Visit) -> None:
    page = visit.page
    codes = page.locator("figure.codes")
    plot, tooltip = codes.locator(".plot"), codes.locator(".tooltip")
    plot.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert tooltip.inner_text().startswith("z0, class 1")
    assert codes.locator("rect.dead").count() == 0
    usage = tooltip.inner_text()
    codes.locator("input[type=range]").fill("0")
    assert codes.locator("output").inner_text() == "100"
    plot.focus()
    page.keyboard.press("ArrowDown")
    assert "used in 12.5% of frames" in tooltip.inner_text()
    assert tooltip.inner_text() != usage


@pytest.mark.slow
def test_light_and_dark(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, color_scheme="dark")
    page = visit.page
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.get_by_role("button", name="Light theme").click()
    light = page.evaluate(paper)
    assert light == "rgb(255, 255, 255)"
    assert dark != light
    assert visit.messages == []
    visit.context.close()


@pytest.mark.slow
def test_the_banner_has_the_color_of_its_grade(visit: Visit) -> None:
    banner = visit.page.locator("#verdict")
    assert banner.get_attribute("class") == "headline good"
    show = "(e, grade) => { e.className = 'headline ' + grade; return getComputedStyle(e)"
    colors = []
    for grade in ("good", "doubtful", "bad"):
        border = banner.evaluate(f"{show}.borderLeftColor }}", grade)
        red, green, blue = map(int, re.findall(r"\d+", border)[:3])
        colors.append((red > green, red < 2 * green))
        assert blue < max(red, green)
    assert colors == [(False, True), (True, True), (True, False)]  # green, amber, red


@pytest.mark.slow
def test_narrow_windows_do_not_scroll_sideways(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 420, "height": 800})
    visit.page.wait_for_timeout(300)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 420
