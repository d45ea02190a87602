"""Calling the operation behind a command, and showing its answer."""

from __future__ import annotations

from typing import Any

from engrambus.edges.cli.session import Session
from engrambus.edges.cli.show import SHOW
from engrambus.gateway import Operation, to_request

Given = dict[str, Any]


def ask(session: Session, operation: Operation[Any, Any], given: Given, working: str = "Building the index") -> Any:
    """The answer to what was given."""
    request = to_request(given, operation.request)
    with session.bus(working) as bus:
        return bus.call(operation, request)


def ask_and_show(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    """Tell people, or a program, the answer to what was given."""
    session.answer(ask(session, operation, given), SHOW[operation.name])
