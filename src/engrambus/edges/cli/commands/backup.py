"""`engrambus backup` and `restore`: one file with everything of a project that is not made again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from engrambus.edges.cli.command import Argument, Values, local_command
from engrambus.edges.cli.screen import dim, safe
from engrambus.edges.cli.session import Session


@local_command(
    "backup",
    Argument("file", None, "The file to write; it must not be there", required=True),
    click.Option(["--no-keys", "no_keys"], is_flag=True, help="Leave the keys out: keep them with keys export."),
    section="maintenance",
    example="engrambus backup /backup/app-2026-01-31.tar",
    rank=62,
)
def backup(session: Session, values: Values) -> None:
    """Write a backup of the project to one file: journals, stored output, committed files, keys, a mirror.

    The project may be in use. With the keys in it, anyone who has the file can write to the journals and make tokens.
    """
    from engrambus.app import back_up
    from engrambus.policy.secrets import hide_secrets

    session.require_admin("backup")
    target = (session.folder / Path(values["file"]).expanduser()).resolve()
    manifest = back_up(session.folder, session.settings, target, with_keys=not values["no_keys"])
    size = target.stat().st_size

    def render(_: Any) -> Iterator[str]:
        yield f"Wrote {safe(hide_secrets(str(values['file'])))}: {len(manifest.files)} files, {size:,} bytes"
        yield dim("Keep it where you keep passwords. In an empty folder: engrambus restore FILE")

    session.print(
        {"file": hide_secrets(str(target)), "project": manifest.project, "files": len(manifest.files), "bytes": size},
        render,
    )


@local_command(
    "restore",
    Argument("file", None, "The file that `backup` wrote", required=True),
    section="maintenance",
    example="engrambus restore /backup/app-2026-01-31.tar",
    rank=63,
)
def restore(session: Session, values: Values) -> None:
    """Restore a backup into this folder, which has no project, or an empty one for a server with a mirror.

    The file is checked as a whole before anything is written. Tokens that were given out stay valid.
    """
    from engrambus.app import restore_backup

    session.require_admin("restore")
    source = (session.folder / Path(values["file"]).expanduser()).resolve()
    manifest = restore_backup(session.folder, session.settings, source)

    def render(_: Any) -> Iterator[str]:
        yield f"Restored the project {safe(manifest.project)} as it was at {safe(manifest.made_at)}"
        yield dim("Next: engrambus verify, then engrambus up as before.")

    session.print({"project": manifest.project, "made_at": manifest.made_at, "files": len(manifest.files)}, render)
