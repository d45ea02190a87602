"""Commands that begin things: a project, and a server for one MCP client."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import click

from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.commands.up import exporting
from engrambus.edges.cli.screen import dim, pairs, safe
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.edges.sdk import Transport
    from engrambus.errors import EngramBusError


_NEXT = (
    ("engrambus up", "shows the page"),
    ("engrambus demo", "lets a team of four review this repository, in a minute"),
    ("engrambus install CLIENT", "brings in claude-code, codex, cursor, vscode or gemini"),
    ('engrambus put "What you know." --at path:10-20', "puts the first claim on the bus"),
)
"""What somebody with a new project may want to do; the last only where there is something to point at."""


@local_command("init", section="start", example="engrambus init", rank=10)
def init(session: Session, values: Values) -> None:
    """Create a project in this folder: a .catalog folder, its keys and a first run."""
    from engrambus.app import init_project

    project = init_project(session.folder, session.settings)

    def show(_: Any) -> Iterator[str]:
        yield f"Project {click.style(project.project_id, bold=True)} in {safe(str(project.catalog))}"
        if project.git_folder is None:
            yield dim("There is no git repository here, so claims cannot point at files: git init makes one.")
        yield dim("Next, any of these:")
        with_git = project.git_folder is not None
        yield from (f"  {line}" for line in pairs(_NEXT if with_git else _NEXT[:-1]))

    session.answer({"project": project.project_id, "catalog": str(project.catalog)}, show)


@local_command("hook", section="start", example="engrambus hook < event.json", rank=60)
def hook(session: Session, values: Values) -> None:
    """Answer one hook call of a coding agent: JSON on stdin, JSON on stdout."""
    from engrambus.edges.integrations.client_hook import main

    click.get_current_context().exit(main())


@local_command("mcp", section="start", example="engrambus mcp", rank=50)
def mcp(session: Session, values: Values) -> None:
    """Serve the project to one coding agent, as an MCP server over stdin and stdout."""
    from engrambus.edges.mcp import serve_stdio
    from engrambus.errors import EngramBusError
    from engrambus.gateway import Credential, Gateway

    if sys.stdin.isatty():
        session.say(
            dim(
                "An MCP client starts this command and talks to it on stdin; see `engrambus install`. Stop with Ctrl-C."
            )
        )
    with ExitStack() as until_the_end:

        def open_way() -> Transport:
            way = session.way()
            if isinstance(way, Gateway):
                until_the_end.enter_context(exporting(session, way))
            return way

        try:
            credential = session.credential()
            open_bus: Callable[[], Transport] = open_way
        except EngramBusError as refusal:
            # Clients show what a tool answers and hide what a program dies of.
            credential, open_bus = Credential(), partial(_refuse, refusal)
        serve_stdio(open_bus, credential)


def _refuse(refusal: EngramBusError) -> NoReturn:
    raise refusal
