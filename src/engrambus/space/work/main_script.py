"""The script a program was started as, whose yools run in warm processes: these load it under another name.

As with `multiprocessing`, only the program itself executes what stands under `if __name__ == "__main__":`.
"""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import msgspec

from engrambus.errors import ScriptUnguarded, YoolNotFound
from engrambus.space.catalog import Yool

LOADED_AS = "__mp_main__"
"""Name that `multiprocessing` uses, so that its own processes find the script loaded."""

_loading: set[MainScript] = set()
_loaded: dict[MainScript, BaseException | None] = {}
"""Scripts that were loaded, with the exception if one was raised."""


class MainScript(msgspec.Struct, frozen=True, kw_only=True):
    """A script to be loaded."""

    path: str
    package: str | None = None
    """Package its relative imports refer to, if it was started as `python -m package.script`."""


def current_script() -> MainScript | None:
    """Return the script this program was started as; None for an interactive session, which is in no file."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if not path or not Path(path).is_file():
        return None
    return MainScript(path=str(Path(path).absolute()), package=main.__package__)


def load(script: MainScript) -> None:
    """Load a script once; if that failed, raise the same exception again instead of repeating its side effects."""
    if script not in _loaded:
        _loading.add(script)
        problem = None
        try:
            _execute(script)
        except BaseException as raised:
            problem = raised
        _loading.discard(script)
        _loaded[script] = problem
    problem = _loaded[script]
    if problem is not None:
        raise problem


def _execute(script: MainScript) -> None:
    module = ModuleType(LOADED_AS)
    module.__file__, module.__package__ = script.path, script.package
    sys.modules["__main__"] = sys.modules[LOADED_AS] = module
    SourceFileLoader(LOADED_AS, script.path).exec_module(module)


def check_loadable(yool: Yool) -> None:
    """Refuse a function of an interactive session, which no warm process can load."""
    if getattr(yool.run, "__module__", None) == "__main__" and current_script() is None:
        raise YoolNotFound(
            f"'{yool.entry.full_name}' is defined in an interactive session, which other processes cannot load.",
            field="name",
            used=yool.entry.full_name,
            hint="Write it into a file, and import or run that.",
        )


def check_not_loading() -> None:
    """Refuse to start a worker while a script is loaded: every warm process would start its own, without end."""
    if _loading:
        raise ScriptUnguarded
