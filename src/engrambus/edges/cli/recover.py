"""`engrambus recover`: what to do when a journal itself is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Command
from engrambus.edges.cli.screen import safe
from engrambus.edges.cli.session import Session
from engrambus.edges.cli.table import Entry

if TYPE_CHECKING:
    from engrambus.core.journal import Damage


def recover(entry: Entry) -> Command:
    """`engrambus recover`"""
    agreed = click.Option(["--yes", "agreed"], is_flag=True, help="Do not ask.")
    return Command("recover", entry, [agreed], _recover)


def _recover(session: Session, given: dict[str, Any]) -> None:
    from engrambus.app import find_project_damage, recover_project

    damaged = find_project_damage(session.folder)
    if damaged and not given["agreed"]:
        for line in (line for damage in damaged for line in _describe(damage)):
            session.say(line)
        click.confirm("Set the damaged part aside?", abort=True, err=True)
    if damaged:
        damaged = recover_project(session.folder)
    answer = {
        "recovered": bool(damaged),
        "journals": [
            {
                "journal": str(damage.journal),
                "set_aside": str(damage.set_aside),
                "line": damage.line,
                "offset": damage.offset,
                "kept_commits": damage.commits,
                "cut_bytes": damage.size,
            }
            for damage in damaged
        ],
    }
    sound = ["The journals are sound: there is nothing to recover."]
    session.answer(answer, lambda _: [line for damage in damaged for line in _done(damage)] or sound)


def _describe(damage: Damage) -> Iterator[str]:
    yield f"{safe(str(damage.journal))} is damaged at line {damage.line}, byte {damage.offset:,}."
    yield f"The {damage.commits:,} commits before it are sound and stay."
    yield f"The {damage.size:,} bytes from there on will be gone from the project; a copy of all of it is kept."


def _done(damage: Damage) -> Iterator[str]:
    cut = f"{damage.size:,} bytes from line {damage.line} on were cut"
    yield f"{safe(damage.journal.name)}: {damage.commits:,} sound commits are kept; {cut}."
    yield f"The damaged file is set aside as {safe(str(damage.set_aside))}"
