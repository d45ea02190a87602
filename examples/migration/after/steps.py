"""The steps, each with its contract; the catalog is generated from them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from engrambus import yool


def _run(*command: str) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, env=environment)
    return re.sub(r" in [\d.]+s", "", done.stdout).strip()


@yool("agent.lint.ruff", lane="flow", effect="reads", inputs=["${folder}"], env=["PATH"])
def lint(folder: str) -> str:
    """Run ruff."""
    return _run("ruff", "check", "--no-cache", "--isolated", folder)


@yool("agent.test.pytest", lane="flow", effect="reads", inputs=["${folder}"], env=["PATH"])
def test(folder: str) -> str:
    """Run pytest."""
    files = sorted(str(path) for path in Path(folder).glob("check_*.py"))
    printed = _run("pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder, *files)
    return printed.splitlines()[-1]


@yool("agent.count.lines", lane="flow", effect="reads", inputs=["${folder}"])
def count(folder: str) -> str:
    """Count lines of code."""
    files = sorted(Path(folder).glob("*.py"))
    return "\n".join(f"{path.name} {len(path.read_text().splitlines())}" for path in files)


@yool("agent.list.todos", lane="flow", effect="reads", inputs=["${folder}"])
def todos(folder: str) -> str:
    """List what is still to be done."""
    lines = (line.strip() for path in sorted(Path(folder).glob("*.py")) for line in path.read_text().splitlines())
    return "\n".join(line for line in lines if "TODO" in line)


STEPS = ("agent.lint.ruff", "agent.test.pytest", "agent.count.lines", "agent.list.todos")
