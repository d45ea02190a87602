"""The sprint project of section 5 with the real ruff and pytest: run, run again, edit, kill, resume. # YT-18 # YT-10"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.projects import git
from tests.space.terminal import ROOT

COSTS = {
    "op.jira.fetch_sprint": "$0.001",
    "agent.dev.python": "$0.12",
    "agent.lint.python": "$0.01",
    "agent.test.python": "$0.04",
    "agent.security.scan": "$0.02",
    "agent.pr.create": "$0.01",
}
"""The steps of an item in their order, with what section 5.4 of the specification prints for them."""
STEP_LINE = re.compile(r"^\[t=\d+s\] (\S+) +(MISS exec|HIT skip|FAIL exec) cost=(\S+)(?: task=([0-9a-f]{12}))?")
WAIT = """
import pathlib, time

pathlib.Path({started!r}).touch()
while not pathlib.Path({go!r}).exists():
    time.sleep(0.02)
"""


class Shop:
    """A new repository with a scaffold and a copy of the example, and a fresh home."""

    def __init__(self, folder: Path, like: Shop | None = None) -> None:
        self.path, home, binaries = folder / "shop", folder / "home", folder / "bin"
        self.environment = {
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "PYTHONPATH": str(ROOT / "src"),
        }
        if like is not None:
            shutil.copytree(like.path.parent, folder, symlinks=True, dirs_exist_ok=True)
            return
        for made in (self.path, home, binaries):
            made.mkdir(parents=True)
        for name, words in (("python", ""), ("engrambus", "-m engrambus")):
            (binaries / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            (binaries / name).chmod(0o755)
        git(self.path, "init", "-q")
        self.sh("engrambus init --scaffold")
        shutil.copytree(ROOT / "examples/sprint", self.path / "sprint", ignore=shutil.ignore_patterns("__pycache__"))
        self.sh("bin/build-hamt-catalog --import sprint.yools")

    def start(self, line: str) -> subprocess.Popen[str]:
        """Start a line of a shell; the process is that of its only command."""
        return subprocess.Popen(
            ["sh", "-c", line],
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def sh(self, line: str, code: int = 0) -> tuple[str, str]:
        """Run a line of a shell; return what it prints on each stream."""
        process = self.start(line)
        out, err = process.communicate(timeout=240)
        assert process.returncode == code, (line, out, err)
        return out, err

    def sprint(self, sprint_id: str = "JIRA-456", *words: str, code: int = 0) -> list[tuple[str, ...]]:
        """Run a sprint; return its steps as `(yool, what, cost, task)`, and the total as `("TOTAL:", cost)`."""
        out, _ = self.sh(" ".join(["exec python -m sprint run --sprint-id", sprint_id, *words]), code)
        return parse(out)

    def json(self, line: str) -> Any:
        """Run a command with --json; return its answer."""
        return json.loads(self.sh(f"{line} --json")[0])


def parse(printed: str) -> list[tuple[str, ...]]:
    """Return the step lines of a worker's output, and its total."""
    found: list[tuple[str, ...]] = []
    for line in printed.splitlines():
        if match := STEP_LINE.match(line):
            found.append(match.groups(""))
        elif line.startswith("TOTAL: "):
            found.append(("TOTAL:", line.removeprefix("TOTAL: ")))
    return found


def lines(misses: set[str], total: str, task: str = "") -> list[tuple[str, ...]]:
    """Return the steps of an item, of which some were executed, and the total."""
    missed, hit = "MISS exec", "HIT skip"
    steps = [(name, missed, cost, task) if name in misses else (name, hit, "$0", task) for name, cost in COSTS.items()]
    return [*steps, ("TOTAL:", total)]


FIRST, AGAIN = lines(set(COSTS), "$0.201"), lines({"op.jira.fetch_sprint"}, "$0.001")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A shop whose first sprint was run once."""
    shop = Shop(tmp_path_factory.mktemp("ran"))
    assert shop.sprint() == FIRST
    return shop


@pytest.fixture
def shop(ran: Shop, tmp_path: Path) -> Shop:
    """The shop whose first sprint was run, for one test to change: a copy."""
    return Shop(tmp_path, like=ran)


def test_a_sprint_develops_checks_and_proposes_and_costs_only_the_fetch_when_it_is_run_again(ran: Shop) -> None:
    """Section 5.4: the first run all MISS and $0.201, the second all HIT but the fetch and $0.001."""
    assert "def with_tax(net_cents: int, rate_pct: int) -> int:" in (ran.path / "src/prices.py").read_text()
    assert git(ran.path, "ls-tree", "-r", "--name-only", "sprint/JIRA-457").splitlines() == [
        "src/prices.py",
        "tests/test_prices.py",
    ]
    (tested,) = ran.json("engrambus receipt list --yool agent.test")["receipts"]
    (report,) = ran.json(f"engrambus receipt get {tested['id']}")["reports"]
    assert (report["tests"], report["passed"]) == (1, 1)
    (proposed,) = ran.json("engrambus receipt list --yool agent.pr")["receipts"]
    (patch,) = ran.json(f"engrambus receipt get {proposed['id']}")["receipt"]["artifacts"]
    read = ran.json(f"engrambus deref artifact:{patch['sha']}")
    assert "+++ b/src/prices.py" in json.dumps(read)
    assert ran.sprint() == AGAIN


def test_editing_a_file_runs_only_what_depends_on_it(shop: Shop) -> None:
    with (shop.path / "tests/test_prices.py").open("a") as file:
        file.write("    assert with_tax(200, 50) == 300\n")
    read_by = {"agent.lint.python", "agent.test.python", "agent.pr.create"}
    assert shop.sprint() == lines({"op.jira.fetch_sprint", *read_by}, "$0.061")
    assert shop.sprint() == AGAIN
    source = shop.path / "src/prices.py"
    source.write_text(source.read_text().replace("Prices in cents.", "Prices, in cents."))
    assert shop.sprint() == lines({*COSTS} - {"agent.dev.python"}, "$0.081")
    (shop.path / "unrelated.py").write_text("import os\n")
    assert shop.sprint() == AGAIN


def test_an_item_that_was_edited_in_the_tracker_is_developed_again(shop: Shop) -> None:
    tracked = shop.path / "sprint/jira/JIRA-456.json"
    tracked.write_text(tracked.read_text().replace("rounded down", "rounded to the cent below"))
    assert shop.sprint() == FIRST
    assert "rounded to the cent below" in (shop.path / "src/prices.py").read_text()
    assert shop.sprint() == AGAIN


def test_what_ruff_or_pytest_finds_fails_the_run_and_is_not_kept(shop: Shop) -> None:
    source = shop.path / "src/prices.py"
    sound = source.read_text()
    source.write_text(f"{sound}import os\n")
    failed = shop.sprint(code=1)
    assert failed[2] == ("agent.lint.python", "FAIL exec", "$0.01", "")
    assert len(failed) == 4, "nothing is tested or proposed after it"
    source.write_text(sound.replace("+", "-"))
    failed = shop.sprint(code=1)
    assert [step[:2] for step in failed[2:4]] == [
        ("agent.lint.python", "MISS exec"),
        ("agent.test.python", "FAIL exec"),
    ]
    assert git(shop.path, "show", "sprint/JIRA-457:src/prices.py") == sound.strip()
    source.write_text(sound)
    assert shop.sprint() == AGAIN


def test_insecure_code_is_not_proposed(shop: Shop) -> None:
    source = shop.path / "src/prices.py"
    source.write_text(f"{source.read_text()}    assert eval('1')\n")
    assert shop.sprint(code=1)[4] == ("agent.security.scan", "FAIL exec", "$0.02", "")


def test_a_killed_sprint_is_resumed_from_the_first_step_without_a_receipt(shop: Shop, tmp_path: Path) -> None:
    """Section 5.5: kill -9 while the tests run; the resumed run costs what was left."""
    signals = tmp_path / "signals"  # a step that only reads may not write directly above its project
    signals.mkdir()
    started, go = signals / "started", signals / "go"
    (shop.path / "tests/conftest.py").write_text(WAIT.format(started=str(started), go=str(go)))
    worker = shop.start("exec python -m sprint run --sprint-id JIRA-456 --no-cache")
    deadline = time.monotonic() + 120
    while not started.exists():
        assert time.monotonic() < deadline
        assert worker.poll() is None, worker.communicate()
        time.sleep(0.02)
    worker.kill()
    printed, _ = worker.communicate()
    assert parse(printed) == FIRST[:3]
    go.touch()
    (run, *_) = shop.sh("exec python -m sprint runs list")[0].splitlines()
    (tuple_id,) = re.findall(
        r"^([0-9a-f]{12})  (?:claimed|waiting)", shop.sh(f"engrambus rd --lane build --run-id {run} --state claimed")[0]
    )
    out, err = shop.sh("python -m sprint resume --run-id $(python -m sprint runs list | head -1)")
    assert err.splitlines() == [
        "[resume] reading .catalog/tuples.jsonl",
        f"[resume] {tuple_id} has receipts for [op.jira.fetch_sprint, agent.dev.python, agent.lint.python]",
        f"[resume] re-emitting {tuple_id} from step 4 (agent.test.python)",
    ]
    assert parse(out) == [*FIRST[3:6], ("TOTAL:", "$0.07")]
    totals = next(row for row in shop.json("engrambus runs")["runs"] if row["run_id"].startswith(run))
    # The killed step had spent its $0.04 as well.
    assert (totals["states"], totals["usd"]) == ({"done": 1}, 0.241)
    resumed = shop.json(f"engrambus receipt list --run-id {run}")["receipts"]
    assert sorted(row["yool"] for row in resumed) == sorted(f"{name}.v1" for name in COSTS)
    assert shop.sprint() == AGAIN


def test_items_are_worked_on_side_by_side_and_depend_only_on_their_own_files(shop: Shop) -> None:
    first = shop.sprint("JIRA-500")
    assert first[-1] == ("TOTAL:", "$0.402")
    assert sorted(step[0] for step in first[:-1]) == sorted([*COSTS, *COSTS])
    with (shop.path / "tests/test_discounts.py").open("a") as file:
        file.write("    assert discounted(200, 50) == 100\n")
    again = shop.sprint("JIRA-500")
    assert again[-1] == ("TOTAL:", "$0.062")
    missed = sorted(name for name, what, *_ in again[:-1] if what == "MISS exec")
    fetch = "op.jira.fetch_sprint"
    assert missed == ["agent.lint.python", "agent.pr.create", "agent.test.python", fetch, fetch]
    tasks = [task for *_, task in again[:-1]]
    assert len(set(tasks) - {""}) in (1, 2)
    assert "" not in tasks[tasks.index(next(filter(None, tasks))) :], (
        "from the second task on, each line says whose it is"
    )


def test_what_cannot_be_run_is_named(ran: Shop) -> None:
    assert ran.sh("exec python -m sprint run --sprint-id JIRA-9", 1)[1] == (
        "There is no sprint JIRA-9; there are JIRA-456, JIRA-500.\n"
    )
    unknown = ran.sh("exec python -m sprint run --sprint-id JIRA-456 --stack cobol", 1)[1]
    assert unknown.startswith("error YOOL_NOT_FOUND: There is no yool 'agent.dev.cobol' in the catalog.")
    nowhere = ran.sh("cd .. && PYTHONPATH=$PYTHONPATH:shop python -m sprint run --sprint-id JIRA-456", 1)[1]
    assert "error PROJECT_NOT_FOUND" in nowhere
    assert "engrambus init" in nowhere
