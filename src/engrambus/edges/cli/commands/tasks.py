"""Commands of tasks with code of their own: evidence and places as people type them."""

from __future__ import annotations

from typing import Any

import click

from engrambus.core import is_hex
from engrambus.edges.cli.command import Override, Values, override
from engrambus.edges.cli.inputs import place_from_top
from engrambus.edges.cli.session import Session
from engrambus.gateway import Operation

add = Override(Session.call_and_print, argument_help={"title": ("TITLE", "What is to be done, in one line")})


@override()
def without_process(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Claim a task for the caller of this command, whose process ends at once."""
    if values.get("process") is not None:
        raise click.UsageError("--process is for programs: a command's own process ends with the command.")
    session.call_and_print(operation, values)


@override()
def done(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """End a task; paths in its evidence are given from the current folder."""
    top = session.worktree
    evidence = list(values.get("evidence", ()))
    if top is not None:
        evidence = [
            text if text == "HEAD" or _is_id(text) else place_from_top(text, session.folder, top, f"evidence[{index}]")
            for index, text in enumerate(evidence)
        ]
    session.call_and_print(operation, {**values, "evidence": evidence})


def _is_id(text: str) -> bool:
    digits = text.removeprefix("sha256:")
    return len(digits) >= 8 and is_hex(digits, len(digits))
