"""Commands that begin things: a project, and a server for one MCP client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from stigmergy.edges.cli.command import Command
from stigmergy.edges.cli.screen import dim, safe
from stigmergy.edges.cli.session import Session
from stigmergy.edges.cli.table import Entry


def init(entry: Entry) -> Command:
    """`stig init`"""
    return Command("init", entry, [], _init)


def _init(session: Session, given: dict[str, Any]) -> None:
    from stigmergy.app import init_project

    project = init_project(session.folder, session.settings)

    def show(_: Any) -> Iterator[str]:
        yield f"Project {click.style(project.project_id, bold=True)} in {safe(str(project.catalog))}"
        if project.git_folder is None:
            yield dim("There is no git repository here, so claims cannot point at files of one.")
        yield dim('Next: stig put "What you know." --at path/to/file:10-20')

    session.answer({"project": project.project_id, "catalog": str(project.catalog)}, show)


def hook(entry: Entry) -> Command:
    """`stig hook`"""
    return Command("hook", entry, [], _hook)


def _hook(session: Session, given: dict[str, Any]) -> None:
    from stigmergy.edges.clients.hook import main

    click.get_current_context().exit(main())


def mcp(entry: Entry) -> Command:
    """`stig mcp`"""
    return Command("mcp", entry, [], _mcp)


def _mcp(session: Session, given: dict[str, Any]) -> None:
    from stigmergy.edges.mcp import serve_stdio

    serve_stdio(session.way, session.credential())
