"""A browser and a served project for the tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.http.running_server import RunningServer, run_server
from tests.page.scene import Scene, make_scene

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
"""Needed by a root account, and in a container with little shared memory."""

expect.set_options(timeout=60_000)


def find_browser() -> str:
    """Return the path of Chromium; without one, skip the tests on a laptop and fail them in CI."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    reason = "no Chromium here: `make browser` installs one on Debian"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def start_browser() -> Iterator[Browser]:
    """Run a browser while the context is open.

    It must be closed in the end: the event loop that Playwright runs in this thread breaks tests with their own loop.
    """
    path = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Start one browser for the tests of the page."""
    with start_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Make a project with a team at work."""
    scene = make_scene(tmp_path_factory.mktemp("scene"), engrams=120)
    yield scene
    scene.gateway.close()


@pytest.fixture(scope="module")
def bus(scene: Scene) -> Iterator[RunningServer]:
    """Run a server for the team's project."""
    with run_server(scene.gateway, scene.repository) as bus:
        yield bus


class Visit:
    """A browser window on the page, and the errors and warnings of its console."""

    def __init__(self, context: BrowserContext, bus: RunningServer) -> None:
        self.console_errors: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.console_errors.append(str(error)))
        self.base = f"http://127.0.0.1:{bus.port}"
        self.page.goto(f"{self.base}/#code={bus.codes.new()}")
        self.page.wait_for_selector("main.start")

    def open(self, path: str) -> Page:
        """Open an address of the page and wait until its view is shown."""
        self.page.goto(self.base + path)
        self.page.wait_for_selector("#view #main")
        return self.page

    def _on_console(self, message: ConsoleMessage) -> None:
        # htmx logs every request that a newer one replaces; that is expected.
        if message.type in ("error", "warning") and "AbortError" not in message.text:
            self.console_errors.append(message.text)


@pytest.fixture
def visit(browser: Browser, bus: RunningServer) -> Iterator[Visit]:
    """Open the page in a window; its console must be clean, so the content security policy has blocked nothing."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    visit = Visit(context, bus)
    yield visit
    context.close()
    assert visit.console_errors == []


@pytest.fixture
def pictures() -> Path | None:
    """Return the folder for the pictures of the README, if one is set."""
    folder = os.environ.get("ENGRAMBUS_PICTURES")
    return Path(folder) if folder else None
