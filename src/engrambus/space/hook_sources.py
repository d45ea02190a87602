"""Sources of hooks: entry points of installed packages, modules that the operator names, and the program itself.

A package declares one in its `pyproject.toml`; it names a hook, its class, a list of hooks, or a function that
returns one of these:

    [project.entry-points."engrambus.hooks"]
    acme = "acme.hooks:HOOKS"

Nothing that comes with a repository is a source: what a checkout brings along must not run before anyone looked at it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from engrambus.errors import HookInvalid
from engrambus.space.tuples.primitive_hooks import PRIMITIVES, PrimitiveHook

ENTRY_POINTS = "engrambus.hooks"
"""Group of the entry points that name hooks."""
ATTRIBUTE = "HOOKS"
"""What a module names its hooks."""
VARIABLE = "ENGRAMBUS_HOOKS"
_INSTALLED = ("site-packages", "dist-packages")


def find_hooks(modules: Sequence[str], given: Iterable[PrimitiveHook], root: Path) -> list[tuple[PrimitiveHook, str]]:
    """Return all hooks with their sources; refuse if one of them cannot be used, since it may be there to forbid."""
    hooks = [
        *_from_entry_points(),
        *(pair for name in modules for pair in _from_module(name, root)),
        *((_checked(hook, "the program"), "the program") for hook in given),
    ]
    names: set[str] = set()
    for hook, source in hooks:
        name = hook.name or type(hook).__name__
        if name in names:
            raise HookInvalid(f"Two hooks are called '{name}'; the second comes from {source}.", hook=name)
        names.add(name)
    return hooks


def _from_entry_points() -> Iterator[tuple[PrimitiveHook, str]]:
    if not _is_any_declared():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=ENTRY_POINTS)):
        source = f"entry point {point.name}"
        try:
            value = point.load()
        except (Exception, SystemExit) as problem:
            raise _unloadable(source, problem) from problem
        yield from ((hook, source) for hook in _hooks_in(value, source))


def _is_any_declared() -> bool:
    """True if an installed package may declare hooks. `importlib.metadata` takes ten times as long to find out."""
    marker = ENTRY_POINTS.encode()
    for folder in dict.fromkeys(sys.path):
        try:
            with os.scandir(folder or ".") as entries:
                names = [entry.name for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                    if marker in file.read():
                        return True
            except OSError:
                continue
    return False


def _from_module(name: str, root: Path) -> list[tuple[PrimitiveHook, str]]:
    source = f"{VARIABLE} {name}"
    try:
        _check_not_in_project(name, root, source)
        module = import_module(name)
        value = getattr(module, ATTRIBUTE)
    except HookInvalid:
        raise
    except (Exception, SystemExit) as problem:
        raise _unloadable(source, problem) from problem
    return [(hook, source) for hook in _hooks_in(value, source)]


def _check_not_in_project(name: str, root: Path, source: str) -> None:
    """Refuse a module of the repository: with its folder on the path, it could take the name of any other."""
    from importlib.util import find_spec

    spec = find_spec(name.partition(".")[0])  # the top package alone: looking for more would import it
    if spec is None:
        raise HookInvalid(
            f"{source}: there is no such module.", field=VARIABLE, used=name, hint="Install it, or set PYTHONPATH."
        )
    places = [spec.origin, *(spec.submodule_search_locations or ())]
    for place in (Path(place).resolve() for place in places if place and place not in ("built-in", "frozen")):
        if place.is_relative_to(root.resolve()) and not any(part in _INSTALLED for part in place.parts):
            raise HookInvalid(
                f"{source}: the module lies in the project, {place}; hooks come from the operator.",
                field=VARIABLE,
                used=name,
                hint="Install it as a package, or put it outside the repository.",
            )


def _hooks_in(value: Any, source: str) -> list[PrimitiveHook]:
    """Return the hooks that a hook, a class, a list or a function stands for."""
    try:
        if callable(value) and not isinstance(value, PrimitiveHook):
            value = value()
        listed = [value] if isinstance(value, PrimitiveHook) else list(value)
    except (Exception, SystemExit) as problem:
        raise _unloadable(source, problem) from problem
    return [_checked(item, source) for item in listed]


def _checked(value: Any, source: str) -> PrimitiveHook:
    if not isinstance(value, PrimitiveHook):
        raise HookInvalid(f"{source}: {type(value).__name__} is not a PrimitiveHook.", used=source)
    unknown = sorted(set(value.primitives) - set(PRIMITIVES))
    if unknown:
        raise HookInvalid(
            f"{source}: there is no primitive '{unknown[0]}'.", limit=", ".join(PRIMITIVES), used=str(unknown[0])
        )
    return value


def _unloadable(source: str, problem: BaseException) -> HookInvalid:
    return HookInvalid(
        f"{source} cannot be loaded: {type(problem).__name__}: {problem}",
        field=VARIABLE if source.startswith(VARIABLE) else None,
        reason=type(problem).__name__,
        hint="Until it can, the project's work is closed, because the hook may be there to forbid something.",
    )
