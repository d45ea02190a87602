"""`engrambus demo`: runs the demo of `examples/demo`, which the wheel carries as data."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import click

from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.session import Session

PAUSE_SECONDS = 1.8
"""The pause after each step on a terminal: the whole demo lasts about a minute."""
_PACKAGE = Path(__file__).parents[3]
_FOLDERS = (_PACKAGE / "examples" / "demo", _PACKAGE.parents[1] / "examples" / "demo")
"""In a wheel, and in a checkout."""


@local_command(
    "demo",
    click.Option(["--fresh", "fresh"], is_flag=True, help="Use a small repository made for the demo, in a new folder."),
    click.Option(
        ["--pace", "pace"],
        type=click.FloatRange(0, 60),
        help=f"Seconds between steps; {PAUSE_SECONDS} on a terminal, none in a pipe.",
    ),
    section="start",
    example="engrambus demo --fresh",
    rank=30,
)
def demo(session: Session, values: Values) -> None:
    """Watch four scripted agents review this repository, in about a minute."""
    if session.remote:
        raise click.UsageError("The demo works on files of this machine; unset ENGRAMBUS_URL.")
    default_pause = PAUSE_SECONDS if sys.stdout.isatty() and not session.json else 0.0
    figures = _load().run(
        session.folder,
        session.settings,
        fresh=values["fresh"],
        pause_seconds=values.get("pace", default_pause),
        silent=session.json,
    )
    if session.json:
        session.print(figures, lambda _: ())


def _load() -> Any:
    """Import the demo by its path: it is an example and no part of the package."""
    folder = next(folder for folder in _FOLDERS if (folder / "__init__.py").is_file())
    name = "engrambus_demo"
    if name not in sys.modules:
        spec = spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
        assert spec is not None  # noqa: S101  # the file is there
        assert spec.loader is not None  # noqa: S101
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    return import_module(f"{name}.run")
