"""A new operation is one function in one file: the generator and the edges make everything else from it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEW_MODULE = '''
"""Greetings."""

from msgspec import Struct

from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation


class Greet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


class Greeting(Struct, frozen=True, kw_only=True):
    run_id: str


@operation(
    "less.greet",
    route=Route("GET", "/greeting"),
    command=Command(
        "greet", section="team", example="engrambus greet ada", renderer="team:run", arguments=("name",)
    ),
    tool=Tool(),
)
def greet(context: Context, request: Greet) -> Greeting:
    """Greet an agent."""
    return Greeting(run_id=f"Hello, {request.name}.")
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree with one more module in `operations/`, its generated files written."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("src", "tools", "skills", "docs", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "src" / "engrambus" / "operations" / "greetings.py").write_text(NEW_MODULE)
    generated = _run(tree, tree / "tools" / "generate.py")
    assert "operations/table.py" in generated
    return tree


def _run(tree: Path, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={"PYTHONPATH": str(tree / "src"), "XDG_STATE_HOME": str(tree / "state"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_offers_it(copy: Path) -> None:
    command = "from engrambus.edges.cli import main; main()"
    assert "\n  greet        Greet an agent.\n" in _run(copy, "-c", command, "--help")
    assert "Example:  engrambus greet ada" in _run(copy, "-c", command, "greet", "--help")
    _run(copy, "-c", command, "init")
    assert _run(copy, "-c", command, "greet", "ada") == "Hello, ada.\n"


def test_every_other_edge_offers_it(copy: Path) -> None:
    lookup = """
from engrambus.edges.http.openapi import openapi
from engrambus.edges.mcp.tools import tools
from engrambus.edges.sdk import Bus
from engrambus.operations import OPERATIONS
described = openapi(operation for operation in OPERATIONS.values() if operation.route)
print("less_greet" in tools(), hasattr(Bus, "greet"), b'"/greeting"' in described)
"""
    assert _run(copy, "-c", lookup) == "True True True\n"


def test_a_second_run_of_the_generator_changes_nothing(copy: Path) -> None:
    assert _run(copy, copy / "tools" / "generate.py", "--check") == ""
