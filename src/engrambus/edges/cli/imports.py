"""`--import MODULE`: the code an operator names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from traceback import extract_tb

import click

import engrambus
from engrambus.errors import EngramBusError

_OURS = str(Path(engrambus.__file__).parent)


def import_modules(modules: Sequence[str], root: Path) -> None:
    """Import modules, those in the project's folder too; what goes wrong in one is told with its name and line."""
    if modules and str(root) not in sys.path:
        sys.path.append(str(root))  # behind everything else: a project may have a queue.py of its own
    for name in modules:
        if not name or name.startswith("."):
            raise _cannot(f"'{name}' is not the full name of a module.")
        try:
            import_module(name)
        except EngramBusError as refusal:  # a yool that cannot be one
            refusal.hint = " ".join(filter(None, (f"It stands in '{name}'{_where(refusal)}.", refusal.hint)))
            raise
        except ImportError as problem:
            raise _cannot(f"'{name}' cannot be imported{_where(problem)}: {problem}") from None
        except SyntaxError as problem:
            place = f" ({problem.filename}, line {problem.lineno})" if problem.filename else ""
            raise _cannot(f"'{name}' cannot be imported{place}: {type(problem).__name__}: {problem.msg}") from None
        except (Exception, SystemExit) as problem:
            said = f"{type(problem).__name__}: {problem}"
            raise _cannot(f"'{name}' cannot be imported{_where(problem)}: {said}") from None


def _cannot(text: str) -> click.BadParameter:
    return click.BadParameter(text, param_hint="'--import'")


def _where(problem: BaseException) -> str:
    """The last place on the way to a problem that is the operator's code."""
    theirs = [each for each in extract_tb(problem.__traceback__) if not each.filename.startswith((_OURS, "<frozen"))]
    place = next((each for each in reversed(theirs) if "importlib" not in each.filename), None)
    return f" ({place.filename}, line {place.lineno})" if place else ""
