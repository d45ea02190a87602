"""`engrambus keys export` and `keys import`: the keys of a project as one file, for a backup or another machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from engrambus.edges.cli.command import Argument, Values, local_command
from engrambus.edges.cli.screen import dim, safe
from engrambus.edges.cli.session import Session


@local_command(
    "keys export",
    Argument("file", None, "The file to write; it must not exist", required=True),
    click.Option(["--shared", "shared"], is_flag=True, help="Add the keys of the stores that your projects share."),
    section="maintenance",
    example="engrambus keys export ~/engrambus-keys.json",
    rank=60,
)
def keys_export(session: Session, values: Values) -> None:
    """Write the project's keys to one file that only you can read.

    With them anyone can write to your journals and make tokens. A copy of the journals without them is foreign.
    """
    from engrambus.app import key_folders
    from engrambus.policy import export_keys, find_project

    session.require_admin("keys export")
    path = session.folder / Path(values["file"]).expanduser()
    project = find_project(session.folder, session.settings.private_home)
    folders = key_folders(project, session.settings, shared=bool(values["shared"]))
    projects = export_keys(path, folders)
    if path.resolve().is_relative_to(project.root):
        session.warn(f"{path} lies inside the project: do not commit it.")

    def render(_: Any) -> Iterator[str]:
        yield f"The keys of {len(projects)} {'store' if len(projects) == 1 else 'stores'} are in {safe(str(path))}"
        yield dim("Keep it where you keep passwords. On another machine: engrambus keys import FILE")

    session.print({"file": str(path), "projects": projects}, render)


@local_command(
    "keys import",
    Argument("file", None, "The file that `keys export` wrote", required=True),
    click.Option(["--replace", "replace"], is_flag=True, help="Replace keys that this machine has for it."),
    section="maintenance",
    example="engrambus keys import ~/engrambus-keys.json",
    rank=61,
)
def keys_import(session: Session, values: Values) -> None:
    """Bring the keys of a project to this machine, so that a copy of its journals is yours again.

    Existing tokens and grants stay valid.
    """
    from engrambus.errors import FieldValue
    from engrambus.policy import import_keys

    session.require_admin("keys import")
    path = session.folder / Path(values["file"]).expanduser()
    try:
        imported = import_keys(path, session.settings.key_folder, replace=bool(values["replace"]))
    except OSError as problem:
        raise FieldValue(f"{path} cannot be read: {problem.strerror}.", field="file") from None

    def render(_: Any) -> Iterator[str]:
        for keys in imported:
            if keys.written:
                yield f"The keys of {keys.project} are in {safe(str(keys.folder))}: {', '.join(keys.written)}"
            else:
                yield f"This machine has the keys of {keys.project} already."

    session.print({"imported": imported}, render)
