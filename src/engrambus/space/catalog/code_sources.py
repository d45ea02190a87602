"""Sources of code: the modules that `--import` names, and the entry points `engrambus.yools` of installed packages.

A package declares one in its `pyproject.toml`; it names a module that registers yools, or a function that does:

    [project.entry-points."engrambus.yools"]
    acme = "acme.yools"
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from engrambus.errors import EngramBusError, error_line

ENTRY_POINTS = "engrambus.yools"
"""Group of the entry points that register yools."""


def load_entry_points(warn: Callable[[str], None]) -> list[str]:
    """Import every entry point; return the names of those that loaded. A broken one is named in a warning."""
    from importlib.metadata import entry_points

    loaded = []
    for point in sorted(entry_points(group=ENTRY_POINTS)):
        try:
            source = point.load()
            if callable(source) and not isinstance(source, ModuleType):
                source()
        except (Exception, SystemExit) as problem:  # one broken package must not stop the others
            package = f" of {point.dist.name}" if point.dist is not None else ""
            warn(
                f"The entry point '{point.name}'{package} ({point.value}) registers no yools"
                f"{user_line(problem)}: {describe_problem(problem)}"
            )
        else:
            loaded.append(point.name)
    return loaded


def describe_problem(problem: BaseException) -> str:
    """Return what an import raised, in a line."""
    if isinstance(problem, EngramBusError):
        return error_line(problem)
    text = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    return f"{type(problem).__name__}: {text}"


def user_line(problem: BaseException) -> str:
    """Return file and line of the innermost place that is neither ours nor the import system's."""
    if isinstance(problem, SyntaxError) and problem.filename:
        return f" ({problem.filename}, line {problem.lineno})"
    ours = str(Path(__file__).parents[2])
    frames = [
        frame
        for frame in extract_tb(problem.__traceback__)
        if not frame.filename.startswith((ours, "<frozen")) and "importlib" not in frame.filename
    ]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
