"""The example's orchestrator at each of the ten steps: the same results, a crash, the cache. # YT-17"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engrambus.adapters.migration import STEPS, MigrationFlags
from engrambus.settings import Settings
from tests.projects import Repository, git, make_repository
from tests.space.terminal import Terminal, open_terminal
from tests.space.worker_harness import wait_until

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "migration"
MODULE = "examples.migration.after.steps"
FOLDER = "examples/migration/project"
WORKER = ("worker", "--lane", "flow", "--import", MODULE)
EXPECTED = {
    "agent.lint.ruff": "All checks passed!",
    "agent.test.pytest": "2 passed",
    "agent.count.lines": "check_shop.py 11\nshop.py 7",
    "agent.list.todos": "# TODO: round half to even",
}


class Flow:
    """The example in a repository of its own."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.root = repository.path
        unmade = shutil.ignore_patterns("__pycache__")
        shutil.copytree(EXAMPLE, self.root / "examples" / "migration", ignore=unmade)
        (self.root / ".gitignore").write_text("out/\n__pycache__/\n")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "The example")
        settings = Settings.from_environment({"HOME": str(folder / "home")})
        self.terminal: Terminal = open_terminal(repository, settings, folder)
        self.terminal.environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.terminal.environment["PYTHONPATH"] = str(ROOT / "src")
        self.terminal.run("catalog", "build", "--import", MODULE)

    def start(self, which: str, *words: str, flags: MigrationFlags | None = None) -> subprocess.Popen[str]:
        named = {f"MIGRATION_{item.flag.upper()}": "on" for item in STEPS if flags and getattr(flags, item.flag)}
        return subprocess.Popen(
            [sys.executable, "-m", f"examples.migration.{which}.flow", *words],
            cwd=self.root,
            env={**self.terminal.environment, **named},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, which: str, *words: str, flags: MigrationFlags | None = None) -> str:
        process = self.start(which, *words or (FOLDER,), flags=flags)
        printed, errors = process.communicate(timeout=280)
        assert process.returncode == 0, errors
        return printed

    def standing(self, flags: MigrationFlags) -> str:
        return self.run("during", "--standing", flags=flags)

    def outputs(self) -> dict[str, str]:
        """Return what a run left behind."""
        out = self.root / "out"
        assert not (out / "state.json").exists()
        report = (out / "report.md").read_text()
        found = {name: (out / f"{name}.txt").read_text().strip() for name in EXPECTED}
        assert report == "\n".join(f"## {name}\n\n{text}\n" for name, text in found.items())
        return found

    def receipts(self) -> list[Any]:
        """Return the receipts of the flow's steps, the newest first; a worker that stays collects garbage as well."""
        listed = self.terminal.json("receipt", "list")["receipts"]
        return [item for item in listed if item["yool"].removesuffix(".v1") in EXPECTED]

    @contextmanager
    def worker(self) -> Iterator[None]:
        process = self.terminal.start(*WORKER)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(make_repository(tmp_path / "repository"), tmp_path)


EVIDENCE = {
    1: "7 yools declared, 0 keys of the registry are not",
    2: "0 differences in 4 look-ups since 20",
    3: "0 artifacts have receipts",
    4: "4 units recorded, 0 of them failed; 0 never ended",
    5: "1 emitted tuples are done, 0 given up",
    6: "4 steps executed by 1 processes",
    7: "0 steps answered from the cache",
    8: "not counted",
    9: "1 tuples have a budget, 0 earlier or other ones have none",
    10: "nothing is left to switch",
}


@pytest.mark.parametrize("step", range(11))
def test_the_results_are_the_same_at_each_step(flow: Flow, step: int) -> None:
    flags = MigrationFlags.up_to(step)
    if flags.workers:
        with flow.worker():
            flow.run("during", flags=flags)
    else:
        flow.run("during", flags=flags)
    assert flow.outputs() == EXPECTED
    standing = flow.standing(flags)
    assert standing.startswith(f"step {step} of 10")
    if step:
        expected = EVIDENCE[step].replace("0 artifacts", "4 artifacts")
        assert f"evidence: {expected}" in standing
    # Each of the three ways back leads to the same results, too.
    if step in (2, 5, 7):
        flow.run("before")
        assert flow.outputs() == EXPECTED


def test_before_and_after_do_the_same_and_the_second_run_comes_from_the_cache(flow: Flow) -> None:
    flow.run("before")
    assert flow.outputs() == EXPECTED
    with flow.worker():
        flow.run("after")
        assert flow.outputs() == EXPECTED
        assert [item["hit"] for item in flow.receipts()] == [False] * 4
        flow.run("after")
    assert flow.outputs() == EXPECTED
    assert [item["hit"] for item in flow.receipts()] == [True] * 4 + [False] * 4
    shop = flow.root / FOLDER / "shop.py"
    shop.write_text(shop.read_text().replace("# TODO: round half to even", "# TODO: cents"))
    with flow.worker():
        flow.run("after")
    assert flow.outputs()["agent.list.todos"] == "# TODO: cents"


def test_a_registry_that_differs_from_the_catalog_is_found(flow: Flow) -> None:
    steps = flow.root / "examples/migration/before/steps.py"
    text = steps.read_text().replace('"""Run ruff."""', '"""Run another linter."""')
    steps.write_text(text.replace('    "agent.list.todos": todos,\n', '    "agent.list.chores": todos,\n'))
    flags = MigrationFlags.up_to(2)
    flow.run("during", flags=flags)
    standing = flow.standing(flags)
    assert "evidence: 2 differences in 4 look-ups" in standing
    assert "not yet: 3." in standing
    assert "agent.list.chores" in flow.standing(MigrationFlags.up_to(1))
    lines = map(json.loads, (flow.root / "out/dual-read.jsonl").read_text().splitlines())
    found = [line["difference"] for line in lines if "difference" in line]
    assert [(item["key"], item["kind"], item["what"]) for item in found] == [
        ("agent.lint.ruff", "differs", "the catalog says: Run ruff."),
        ("agent.list.chores", "missing in catalog", ""),
    ]


@pytest.mark.parametrize("step", [4, 5, 9])
def test_a_run_that_is_killed_goes_on_where_it_was(flow: Flow, step: int) -> None:
    """Killed while the second of its steps runs: the first is not run again, on the old path or the new one."""
    flags = MigrationFlags.up_to(step)

    def ended() -> int:
        return sum(item["yool"].startswith("agent.lint.") for item in flow.receipts())

    def kill() -> None:
        process = flow.start("during", FOLDER, flags=flags)
        wait_until(lambda: ended() == 1, 200)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    if flags.workers:
        worker = flow.terminal.start(*WORKER)
        kill()
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        with flow.worker():
            flow.run("during", flags=flags)
    else:
        kill()
        flow.run("during", flags=flags)
    assert flow.outputs() == EXPECTED
    done = [item["yool"] for item in flow.receipts() if item["exit"] == 0]
    assert sorted(done) == sorted(f"{name}.v1" for name in EXPECTED)


def test_the_how_to_shows_the_difference_between_the_folders() -> None:
    page = (ROOT / "docs" / "migration.md").read_text("utf-8")
    for name in ("steps.py", "flow.py"):
        assert folder_diff(name) in page, f"docs/migration.md: python -m tests.migration.test_ten_steps {name}"


def folder_diff(name: str) -> str:
    """Return how a file of the example differs after the migration, as the how-to shows it."""
    before, after = ((EXAMPLE / folder / name).read_text("utf-8").splitlines() for folder in ("before", "after"))
    lines = difflib.unified_diff(before, after, f"before/{name}", f"after/{name}", n=1, lineterm="")
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    print(folder_diff(sys.argv[1]))
