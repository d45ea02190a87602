"""What a worker carries out: one function for each step of an item.

Each says which files its result depends on. So a step is skipped as long as these are as they were, and editing a file
runs again only what read it. The prices stand for what models and services would cost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from engrambus import yool
from engrambus.space.work import step_context

from . import developer, proposals, tracker

SPEC = ".specs/sprints/${sprint_id}/${item}.json"
SOURCE, TESTS = "src/${module}.py", "tests/test_${module}.py"


@yool("op.jira.fetch_sprint", lane="build", cached=False, cost_usd=0.001)
def fetch_sprint(sprint_id: str, item: str) -> str:
    """Fetch an item into .specs. Never cached: only the tracker knows whether it has changed."""
    step_context.spend(usd=0.001)
    path = Path(f".specs/sprints/{sprint_id}/{item}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tracker.fetch(sprint_id, item), indent=2) + "\n", "utf-8")
    return str(path)


@yool("agent.dev.python", lane="build", inputs=[SPEC], cost_usd=0.12)
def develop(sprint_id: str, item: str) -> list[str]:
    """Write the function that an item asks for, and its tests."""
    step_context.spend(usd=0.12, tokens_in=900, tokens_out=300)
    return developer.develop(json.loads(Path(f".specs/sprints/{sprint_id}/{item}.json").read_text("utf-8")))


@yool("agent.lint.python", lane="build", effect="reads", inputs=[SOURCE, TESTS], cost_usd=0.01)
def lint(module: str) -> None:
    """Check the style with ruff."""
    step_context.spend(usd=0.01)
    run("ruff", "check", "--no-cache", f"src/{module}.py", f"tests/test_{module}.py")


@yool(
    "agent.test.python",
    lane="build",
    effect="reads",
    inputs=[SOURCE, TESTS],
    cost_usd=0.04,
    artifacts={"junit.xml": "junit"},
)
def test(module: str) -> None:
    """Run the tests with pytest; its report is kept with the receipt."""
    step_context.spend(usd=0.04)
    report = step_context.artifacts() / "junit.xml"
    options = ("-q", "-p", "no:cacheprovider", "-o", "pythonpath=src", f"--junit-xml={report}")
    run("pytest", *options, f"tests/test_{module}.py")


@yool("agent.security.scan", lane="build", effect="reads", inputs=[SOURCE], cost_usd=0.02)
def scan(module: str) -> None:
    """Look for insecure code with ruff's security rules."""
    step_context.spend(usd=0.02)
    run("ruff", "check", "--no-cache", "--isolated", "--select", "S", f"src/{module}.py")


@yool("agent.pr.create", lane="build", inputs=[SOURCE, TESTS], cost_usd=0.01, artifacts={"change.patch": "file"})
def create_pr(item: str, module: str) -> str:
    """Propose the change: a branch `sprint/ITEM`, and its patch as an artifact of the receipt."""
    step_context.spend(usd=0.01)
    branch, patch = proposals.create(item, [f"src/{module}.py", f"tests/test_{module}.py"])
    (step_context.artifacts() / "change.patch").write_bytes(patch)
    return branch


def run(tool: str, *arguments: str) -> None:
    """Run a tool of this Python; the step ends with its exit status if that is not 0."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # it may write nothing into the project
    done = subprocess.run([sys.executable, "-m", tool, *arguments], env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)
