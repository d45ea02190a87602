"""The page in a real browser, on the store as it stands: how long until something is seen."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bench.edges import COMMAND
from bench.measure import Row

if TYPE_CHECKING:
    from playwright.sync_api import Page

VISITS = 9
BAR = 1000
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
ANSWERED = "performance.getEntriesByType('resource').find((entry) => entry.initiatorType === 'fetch')?.responseEnd ?? 0"


def page_rows(project: Path, environment: dict[str, str], engrams: int) -> list[Row]:
    """The start page from the request to its first paint, beside a page of ours with next to nothing on it."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        return [Row("page", "first paint: no Chromium here", "–", "–", "–", f"≤ {BAR} ms", None)]
    from playwright.sync_api import sync_playwright

    server = subprocess.Popen(
        [COMMAND, "up", "--json", "--project", str(project)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
    )
    try:
        served = json.loads(server.stdout.readline() if server.stdout else "")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            bare = [_visit(page, served["url"] + "/") for _ in range(VISITS)]
            page.goto(served["link"])
            page.wait_for_selector(".row")
            full = [_visit(page, served["url"] + "/") for _ in range(VISITS)]
            browser.close()
    finally:
        server.terminate()
        server.wait(10)
    painted, answered = (statistics.median(each) for each in zip(*full, strict=True))
    comparison = statistics.median(paint for paint, _ in bare)
    return [
        Row("page", f"first paint, {engrams:,} engrams, median of {VISITS} (answered after {answered:.0f} ms)",
            f"{painted:.0f} ms", f"the page without a session {comparison:.0f} ms", f"{painted / comparison:.1f} ×",
            f"≤ {BAR} ms", painted <= BAR),
    ]  # fmt: skip


def _visit(page: Page, address: str) -> tuple[float, float]:
    page.goto(address)
    while (
        painted := page.evaluate(PAINTED)
    ) is None:  # the page's policy lets nothing be evaluated in a loop inside it
        page.wait_for_timeout(20)
    return painted, page.evaluate(ANSWERED)
