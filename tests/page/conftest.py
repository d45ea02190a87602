"""A browser and a served project for the tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.http.served import Served, serving
from tests.page.scene import Scene, make_scene

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
"""What a root account needs, and a container with little shared memory."""

expect.set_options(timeout=60_000)


def find_browser() -> str:
    """Where a Chromium lies; without one, tests are skipped on a laptop and fail in CI."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    reason = "no Chromium here: `make browser` installs one on Debian"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for each worker. It leaves with the tests of the page: the event loop that Playwright keeps running
    in this thread would be in the way of every test with a loop of its own."""
    path = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A team at work."""
    scene = make_scene(tmp_path_factory.mktemp("scene"), engrams=120)
    yield scene
    scene.gateway.close()


@pytest.fixture(scope="module")
def bus(scene: Scene) -> Iterator[Served]:
    """The team's project, served."""
    with serving(scene.gateway, scene.repository) as bus:
        yield bus


class Visit:
    """A browser window on the page; whatever its console complained of is kept."""

    def __init__(self, context: BrowserContext, bus: Served) -> None:
        self.complaints: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.base = f"http://127.0.0.1:{bus.port}"
        self.page.goto(f"{self.base}/#code={bus.codes.new()}")
        self.page.wait_for_selector("main.start")

    def open(self, path: str) -> Page:
        """Go to an address of the page."""
        self.page.goto(self.base + path)
        return self.page

    def _heard(self, message: ConsoleMessage) -> None:
        # htmx tells of every request that a newer one took the place of; that is as it should be.
        if message.type in ("error", "warning") and "AbortError" not in message.text:
            self.complaints.append(message.text)


@pytest.fixture
def visit(browser: Browser, bus: Served) -> Iterator[Visit]:
    """A visit that ends with a clean console: nothing was blocked by the content security policy either."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    visit = Visit(context, bus)
    yield visit
    context.close()
    assert visit.complaints == []


@pytest.fixture
def pictures() -> Path | None:
    """Where pictures for the README go, when they are asked for."""
    folder = os.environ.get("ENGRAMBUS_PICTURES")
    return Path(folder) if folder else None
