"""The script a program was started as, whose yools run in other processes: these load it under another name.

As with `multiprocessing`: what stands under `if __name__ == "__main__":` is done by the program itself, and by it only.
"""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import msgspec

from engrambus.errors import ScriptUnguarded

LOADED_AS = "__mp_main__"
"""The name that `multiprocessing` gives it: it loads a script in its own processes where it finds that one."""

_under_way: set[Script] = set()
_loaded: dict[Script, BaseException | None] = {}
"""What went wrong with each, if anything did."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A script to be loaded."""

    path: str
    package: str | None = None
    """What its relative imports are relative to, if it was started by its name: `python -m package.script`."""


def own_script() -> Script | None:
    """The script this program was started as; None for a session, which is in no file."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    return Script(path=str(Path(path).absolute()), package=main.__package__) if path and Path(path).is_file() else None


def load(script: Script) -> None:
    """Load a script, once. What went wrong then goes wrong again: what it did before that is not done a second time."""
    if script not in _loaded:
        _under_way.add(script)
        problem = None
        try:
            _execute(script)
        except BaseException as raised:
            problem = raised
        _under_way.discard(script)
        _loaded[script] = problem
    problem = _loaded[script]
    if problem is not None:
        raise problem


def _execute(script: Script) -> None:
    module = ModuleType(LOADED_AS)
    module.__file__, module.__package__ = script.path, script.package
    sys.modules["__main__"] = sys.modules[LOADED_AS] = module
    SourceFileLoader(LOADED_AS, script.path).exec_module(module)


def check_not_loading() -> None:
    """Refuse what a script may do only as the program itself: each process would have processes of its own."""
    if _under_way:
        raise ScriptUnguarded
