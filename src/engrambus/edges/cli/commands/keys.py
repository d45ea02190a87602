"""`engrambus keys`: the keys of a project as one file, and the public keys of those who share engrams with it."""

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


@local_command(
    "keys show",
    section="team",
    example="engrambus keys show",
    rank=83,
)
def keys_show(session: Session, values: Values) -> None:
    """Print the public key that signs what you export; it is made if there is none yet.

    Those you share engrams with list it in .catalog/project.yaml: engrambus keys trust KEY NAME.
    """
    from engrambus.app import open_signing_key
    from engrambus.policy import find_project, known_keys

    session.require_admin("keys show")
    key = open_signing_key(session.folder, session.settings, create=True)
    assert key is not None  # noqa: S101 - it was created
    name = known_keys(find_project(session.folder, session.settings.private_home).catalog).get(key.public)

    def render(_: Any) -> Iterator[str]:
        yield key.public
        yield dim(f"The project knows it as {safe(name)}" if name else "The project does not know it yet.")

    session.print({"key": key.public, "name": name}, render)


@local_command(
    "keys list",
    section="team",
    example="engrambus keys list",
    rank=84,
)
def keys_list(session: Session, values: Values) -> None:
    """List the public keys that the project knows: those in .catalog/project.yaml."""
    from engrambus.app import open_signing_key
    from engrambus.policy import find_project, known_keys

    session.require_admin("keys list")
    names = known_keys(find_project(session.folder, session.settings.private_home).catalog)
    own_key = open_signing_key(session.folder, session.settings, create=False)
    rows = [
        {"name": name, "key": key, "own": own_key is not None and key == own_key.public} for key, name in names.items()
    ]

    def render(_: Any) -> Iterator[str]:
        for row in rows:
            yield f"{row['key']}  {safe(str(row['name']))}" + dim("  yours" if row["own"] else "")
        if not rows:
            yield "The project knows no public key. Add one: engrambus keys trust KEY NAME"

    session.print({"keys": rows}, render)


@local_command(
    "keys trust",
    Argument("key", None, "The public key, as `engrambus keys show` prints it", required=True),
    Argument("name", None, "Whose it is", required=True),
    section="team",
    example="engrambus keys trust ed25519:uLn0gO2cYQX5o6n4z0cJ1c4V6b3r0dWlH5xY1n0v0aQ Ada",
    rank=85,
)
def keys_trust(session: Session, values: Values) -> None:
    """List a public key under a name in .catalog/project.yaml; commit the file for others to know it.

    Ask its owner for it, not the repository. What it signs is shown under the name, and stays untrusted until you
    confirm it.
    """
    from engrambus.policy import add_known_key, find_project

    session.require_admin("keys trust")
    project = find_project(session.folder, session.settings.private_home)
    is_new = add_known_key(project.catalog, values["name"], values["key"])

    def render(_: Any) -> Iterator[str]:
        name = safe(values["name"])
        yield f"The key is listed as {name} in .catalog/project.yaml." if is_new else f"It was listed as {name} before."

    session.print({"name": values["name"], "key": values["key"], "added": is_new}, render)
