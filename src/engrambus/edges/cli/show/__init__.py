"""Answers as people read them: for each operation a function that returns lines of text, grouped by subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engrambus.gateway import Operation

Renderer = Callable[[Any], Iterable[str]]


def renderer(operation: Operation[Any, Any]) -> Renderer:
    """Return the function an operation's command names to print its answer; only its module is loaded."""
    if operation.command is None:
        raise ValueError(f"{operation.name} has no command")
    # decision 39: a query does not load the lines of the work board
    module, _, name = operation.command.renderer.partition(":")
    function: Renderer = getattr(import_module(f"{__name__}.{module}"), name)
    return function


__all__ = ["Renderer", "renderer"]
