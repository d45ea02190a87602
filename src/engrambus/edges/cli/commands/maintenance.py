"""Maintenance commands with code of their own: `verify`, `gc`, `policy apply` and `recover`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Values, local_command, override
from engrambus.edges.cli.screen import safe
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.app import JournalClock
    from engrambus.backends.moving import Moved
    from engrambus.core.journal import Damage
    from engrambus.gateway import Operation


@override()
def verify(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Check the project's files; exit with status 1 if one is damaged."""
    from engrambus.errors import JournalForeign

    try:
        answer = session.call(operation, values, "Reading the journal")
    except JournalForeign:
        _note_foreign(session)
        raise
    session.print_answer(operation, answer)
    if not answer.sound:
        click.get_current_context().exit(1)


def _note_foreign(session: Session) -> None:
    """Say of each foreign journal how far its checksums, which need no key, are right."""
    from engrambus.app import find_foreign_journals

    for journal in find_foreign_journals(session.folder, session.settings):
        right = "all are right" if journal.whole else f"they are right up to line {journal.commits + 1}"
        session.note(
            f"{safe(str(journal.journal))}: {journal.commits:,} commits; as to checksums, {right}. It is foreign."
        )


@override()
def gc(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Delete what no receipt has to keep, with a progress bar."""
    session.print_answer(operation, session.call(operation, values, "Deleting what is no longer needed"))


@override()
def policy_apply(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Send the project's policy file to the gateway."""
    from engrambus.core import files, read_yaml
    from engrambus.errors import BadText, PolicyInvalid
    from engrambus.policy import POLICY_FILE, find_project

    path = find_project(session.folder).catalog / POLICY_FILE
    try:
        policy = read_yaml(files.read_file(path).decode())
    except UnicodeDecodeError:
        raise BadText(f"{path} is not UTF-8.", field=POLICY_FILE) from None
    except FileNotFoundError:
        hint = "The policy applied last stays in force. To go back to the defaults, apply an empty file."
        raise PolicyInvalid(f"There is no {path}.", field=POLICY_FILE, hint=hint) from None
    session.call_and_print(operation, {"policy": {} if policy is None else policy})


@local_command(
    "recover",
    click.Option(["--yes", "agreed"], is_flag=True, help="Do it without asking."),
    click.Option(["--clock"], is_flag=True, help="Correct the project's time, which a wrong clock had moved ahead."),
    click.Option(["--accept"], is_flag=True, help="With --clock: the machine's clock is right, though far ahead."),
    section="maintenance",
    example="engrambus recover",
    rank=40,
)
def recover(session: Session, values: Values) -> None:
    """Repair a damaged journal: set the damaged part aside and keep every line that still checks.

    The journal, .catalog/memory.jsonl, is the record of everything; the damaged file is kept as a copy. A journal that
    takes no writes because a sync to disk failed is written into a new file first.

    With --clock, the project's time becomes the machine's: engrams that had expired only because a clock was ahead
    return; tokens and grants do not.
    """
    if values["clock"] or values["accept"]:
        _set_time(session, accept=values["accept"])
        return
    from engrambus.app import (
        begin_lost_work_anew,
        find_failed_syncs,
        find_lost_work,
        find_project_damage,
        recover_project,
        renew_journals,
    )

    failed = find_failed_syncs(session.folder, session.settings)
    if failed:
        renew_journals(session.folder, session.settings)
    damaged = find_project_damage(session.folder, session.settings)
    lost = find_lost_work(session.folder, session.settings)
    if (damaged or lost) and not values["agreed"]:
        for line in (line for damage in damaged for line in _describe(damage)):
            session.note(line)
        if lost is not None:
            session.note(f"{safe(lost.detail)} A new journal of work would begin.")
        # On stderr, so that --json prints nothing but the answer to stdout.
        if not click.confirm("Set aside what is damaged or remains?", err=True):
            click.get_current_context().exit(1)
    if damaged:
        damaged = recover_project(session.folder, session.settings)
    aside = begin_lost_work_anew(session.folder, session.settings) if lost is not None else None
    answer = {
        "recovered": bool(damaged or failed or aside),
        "begun_anew": str(aside) if aside else None,
        "rewritten": [str(path) for path in failed],
        "journals": [
            {
                "journal": str(damage.journal),
                "set_aside": str(damage.set_aside),
                "line": damage.line,
                "offset": damage.offset,
                "kept_commits": damage.commits + damage.kept,
                "lost_commits": damage.lost,
                "cut_bytes": damage.size_bytes,
                "left_out_facts": damage.left_out,
                "unmade": list(damage.unmade),
            }
            for damage in damaged
        ],
    }
    sound = ["The journals are sound: there is nothing to recover."]
    rewritten = [f"{safe(path.name)} was written into a new file and takes writes again." for path in failed]
    if aside is not None:
        rewritten.append(f"tuples.jsonl was gone: what remained is in {safe(str(aside))}; a new one begins.")
    lines = [*rewritten, *(line for damage in damaged for line in _outcome(damage))]
    session.print(answer, lambda _: lines or sound)


def _set_time(session: Session, *, accept: bool) -> None:
    """Take the machine's time for the journals that cannot follow it, and say what was done."""
    from engrambus.app import set_project_time
    from engrambus.core import print_time
    from engrambus.core.project_clock import ACCEPT_HINT
    from engrambus.errors import ClockAhead

    clocks = set_project_time(session.folder, session.settings, accept=accept)
    changed = [clock for clock in clocks if clock.change is not None]
    ahead = next((clock.state for clock in clocks if clock.state.is_ahead and clock.change is None), None)
    if ahead is not None and not changed:
        latest = print_time(ahead.latest_us) if ahead.latest_us is not None else None
        raise ClockAhead(limit=latest, used=print_time(ahead.machine_us), hint=ACCEPT_HINT)
    answer = {
        "journals": [
            {
                "journal": clock.journal,
                "change": clock.change,
                "was": print_time(clock.state.last_us),
                "now": print_time(clock.state.machine_us),
            }
            for clock in clocks
        ],
    }
    agree = ["The clock and the journals agree: there is nothing to correct."]
    session.print(answer, lambda _: [line for clock in changed for line in _time_lines(clock)] or agree)


def _time_lines(clock: JournalClock) -> Iterator[str]:
    from engrambus.core import print_time

    was, now = print_time(clock.state.last_us), print_time(clock.state.machine_us)
    yield f"{safe(clock.journal)}: the time was {was} and is {now} from now on."
    if clock.change == "corrected" and clock.is_knowledge:
        yield "Engrams that had expired only because of that are back. All tokens and grants are revoked."


def _describe(damage: Damage) -> Iterator[str]:
    if damage.foreign:
        where = f"from line {damage.line} on, byte {damage.offset:,}"
        yield f"{safe(str(damage.journal))} has lines {where}, that were not written with this machine's key."
    else:
        yield f"{safe(str(damage.journal))} is damaged at line {damage.line}, byte {damage.offset:,}."
    yield f"The {damage.commits:,} commits before it are sound and stay, and so does every later line that checks."
    yield "If lines are lost, grants and tokens issued before them are revoked. The whole file is kept as a copy."


def _outcome(damage: Damage) -> Iterator[str]:
    cut = f"{damage.lost:,} are lost from line {damage.line} on, {damage.size_bytes:,} bytes"
    yield f"{safe(damage.journal.name)}: {damage.commits + damage.kept:,} sound commits are kept; {cut}."
    if damage.left_out:
        ids = ", ".join(map(safe, damage.unmade))
        yield f"{damage.left_out:,} changes were left out: they concern what was lost with those lines: {ids}"
    yield f"The whole file is set aside as {safe(str(damage.set_aside))}"


@local_command("migrate", section="maintenance", example="engrambus migrate", rank=45)
def migrate(session: Session, values: Values) -> None:
    """Bring the tables in the database of ENGRAMBUS_STORE up to this version, while others go on working.

    An empty database gets its tables on first use; this command is for a login that may create them, and for upgrades.
    """
    from engrambus.app import migrate_store, store_name
    from engrambus.errors import FieldMissing

    if session.settings.store_url is None:
        raise FieldMissing(
            "The project is in files, which need no migration.",
            field="ENGRAMBUS_STORE",
            hint="Set ENGRAMBUS_STORE to the URL of a database: postgresql://user@host:5432/database",
        )
    applied = migrate_store(session.settings)
    name = store_name(session.settings)
    answer = {"store": name, "applied": [f"{step.version:04} {step.name}" for step in applied]}
    lines = [f"{safe(name)}: applied {step.version:04} {safe(step.name)}." for step in applied]
    session.print(answer, lambda _: lines or [f"{safe(name)}: the tables are those of this version."])


@local_command(
    "move",
    click.Option(["--to", "url"], metavar="URL", help="The database; by default that of ENGRAMBUS_STORE."),
    click.Option(["--restart"], is_flag=True, help="Take back first what an earlier move has copied."),
    section="maintenance",
    example="engrambus move --to postgresql://bus@db.example/engrambus",
    rank=46,
)
def move(session: Session, values: Values) -> None:
    """Move the project from its files into a PostgreSQL database that several hosts share.

    Most is copied while others go on working. In the end every line is compared, and the files take no more writes. A
    move that was interrupted goes on where it was. With ENGRAMBUS_BODIES, stored bodies are copied there.
    """
    from engrambus.app import move_project
    from engrambus.edges.cli.progress import ProgressBar
    from engrambus.errors import FieldMissing

    url = values["url"] or session.settings.store_url
    if url is None:
        raise FieldMissing(
            "Say where to.",
            field="to",
            hint="Pass --to postgresql://user@host:5432/database, or set ENGRAMBUS_STORE to it.",
        )
    with ProgressBar("Moving") as bar:
        moved = move_project(session.folder, session.settings, url, restart=values["restart"], progress=bar)
    session.print(moved, lambda _: _moved_lines(moved))


def _moved_lines(moved: Moved) -> Iterator[str]:
    yield f"moved to {safe(moved.to)}: {moved.lines:,} commits of knowledge, {moved.work_lines:,} of work, all compared"
    if moved.bodies is None:
        yield "Bodies stay in .catalog/cas. To share them between hosts, set ENGRAMBUS_BODIES and copy them there."
    else:
        yield f"{moved.bodies:,} bodies are in the store of ENGRAMBUS_BODIES."
    yield "The files take no more writes. Set ENGRAMBUS_STORE for every gateway, worker and command; start them again."
