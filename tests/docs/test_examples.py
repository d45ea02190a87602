"""Every example in the documentation runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, Reader, examples, plain, settle

PAGES = (
    "README.md",
    "docs/quickstart.md",
    "docs/commands.md",
    "docs/evidence.md",
    "docs/gate.md",
    "docs/staleness.md",
    "docs/sharing-through-git.md",
    "docs/trust.md",
    "docs/capture.md",
    "docs/recall.md",
    "docs/semantic.md",
    "docs/replacing.md",
    "docs/grants.md",
    "docs/reservations.md",
    "docs/orchestrators.md",
    "docs/mcp.md",
    "docs/clients.md",
    "docs/telemetry.md",
    "docs/memory.md",
    "docs/shared-cortex.md",
    "docs/guardrails.md",
    "docs/policy.md",
    "docs/demo.md",
    "docs/use-cases.md",
    "docs/catalog.md",
    "docs/queues.md",
    "docs/work.md",
    "docs/sprint.md",
    "docs/migration.md",
    "docs/primitive-hooks.md",
    "docs/tasks.md",
    "docs/schedules.md",
    "docs/batches.md",
    "docs/team-server.md",
    "docs/operations.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_what_it_says(page: str, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    try:
        reader.start_bus()
        ran = 0
        for example in examples(ROOT / page):
            if example.command.startswith("curl ") and shutil.which("curl") is None and not os.environ.get("CI"):
                continue  # a laptop without curl; the HTTP tests ask the same questions
            expected = plain(example.expected)
            output = settle(plain(reader.run(example)), expected)
            where = f"{page}:{example.line}: {example.command}"
            assert output == expected, where
            ran += 1
        assert ran > 1
    finally:
        reader.leave()


def test_links_between_pages_resolve() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        without_blocks = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        without_code = re.sub(r"`[^`\n]*`", "", without_blocks)
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", without_code):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_page_and_no_lock_file_names_a_registry_host() -> None:
    for path in [*(ROOT / "requirements").glob("*.txt"), ROOT / "pyproject.toml", ROOT / "Makefile"]:
        assert "index-url" not in path.read_text("utf-8"), path
        assert not re.search(r"https?://\S+/simple", path.read_text("utf-8")), path
