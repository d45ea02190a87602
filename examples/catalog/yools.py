"""Two yools: a Python function and a command."""

from __future__ import annotations

from pathlib import Path

from engrambus import yool


@yool("fs.count_lines", lane="build", effect="pure", inputs=["${path}"], authority=["user", "agent", "ci"])
def count_lines(path: str) -> int:
    """Count the lines of a file."""
    return Path(path).read_text("utf-8").count("\n")


lint = yool(
    "agent.lint.python",
    lane="build",
    effect="pure",
    authority=["user", "agent", "ci"],
    inputs=["${path}"],
    env=["PATH"],
)(["ruff", "check", "${path}"])
