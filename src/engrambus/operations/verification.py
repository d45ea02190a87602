"""Checking the files of a project against its journals, and making copies again (decision 94)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct
from msgspec.structs import replace

from engrambus.errors import EngramBusError
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, Command, operation
from engrambus.gateway.ports import Finding

MAX_FINDINGS = 50
"""Findings of one kind of file that are listed; others are only counted."""
BODY_HINT = (
    "Restore {path} from a backup, or put the tuple again: a step whose output is gone or damaged is executed again."
)

_LOCAL_ONLY = {"http": "for the admin at the machine", "mcp": "for the admin at the machine"}


class Verify(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    repair: Annotated[bool, Meta(description="Make copies that differ again, from the journals and from git")] = False


class VerifyAnswer(Struct, frozen=True, kw_only=True):
    sound: bool
    """True if nothing was found, or with `repair` if everything that was found is repaired."""
    commits: int
    """Lines of both journals: memory.jsonl and tuples.jsonl."""
    findings: list[Finding]


@operation(
    "verify",
    roles=ADMINS,
    writes=True,  # without a view of the store for the time of the call, which would keep SQLite from emptying its WAL
    command=Command(
        "verify",
        section="maintenance",
        example="engrambus verify",
        renderer="maintenance:verification",
        rank=30,
        override="maintenance:verify",
    ),
    absent_from=_LOCAL_ONLY,
)
def verify(context: Context, request: Verify) -> VerifyAnswer:
    """Check every file of the project: journals, stored output, and all copies made from them.

    The journals are the record of everything; indexes, receipts as files and caches are copies of them or of git. With
    --repair, copies that differ are made again. A damaged journal or a damaged output is reported and left as it is.
    """
    findings = [*_check_indexes(context, repair=request.repair)]
    for check in (_check_receipts, _check_bodies, _check_episodes, _check_caches):
        findings += check(context, request.repair)
    commits = context.store.last_line() + (context.tuple_space.commits() if context.tuple_space.has_journal() else 0)
    sound = not findings or (request.repair and all(finding.repaired for finding in findings))
    return VerifyAnswer(sound=sound, commits=commits, findings=findings)


class _Rebuilt(Protocol):
    """A store whose index can be verified and rebuilt."""

    def verify(self) -> list[Any]: ...

    def rebuild(self) -> None: ...


def _check_indexes(context: Context, *, repair: bool) -> list[Finding]:
    """Check both journals and their indexes. Nothing is repaired unless both journals are sound."""
    stores: list[_Rebuilt] = [context.store]
    if context.tuple_space.has_journal():
        stores.append(context.tuple_space.space.store)
    by_store: list[list[Finding]] = [store.verify() for store in stores]
    if not repair:
        return [finding for findings in by_store for finding in findings]
    return [
        finding
        for store, findings in zip(stores, by_store, strict=True)
        for finding in _repaired(findings, store.rebuild)
    ]


def _check_receipts(context: Context, repair: bool) -> list[Finding]:
    """Compare the files of receipts with the journal; those that no worker has written yet are no finding."""
    if not context.tuple_space.has_journal():
        return []
    space, receipts = context.tuple_space.space, context.project_files.receipts
    differences = space.receipt_differences(receipts)
    every = (Finding(what=problem, where=_place(path, context), is_copy=True) for path, problem in differences)
    findings = _listed(every, "receipts", is_copy=True)
    return _repaired(findings, lambda: space.rewrite_receipts(receipts)) if repair else findings


def _check_bodies(context: Context, repair: bool) -> list[Finding]:
    """Recompute the digest of every stored body, and look for those that receipts name; they are no copies."""
    if not context.tuple_space.has_journal():
        return []
    bodies = context.tuple_space.bodies

    def find() -> Iterator[Finding]:
        for sha, problem in bodies.find_damaged(context.tuple_space.on_progress):
            where = bodies.place_of(sha)
            yield Finding(what=problem, where=where, hint=BODY_HINT.format(path=where))
        for sha, receipt in context.tuple_space.space.missing_bodies(bodies):
            where = bodies.place_of(sha)
            problem = f"the stored body is missing; {receipt} names it"
            yield Finding(what=problem, where=where, hint=BODY_HINT.format(path=where))

    return _listed(find(), "cas", is_copy=False)


def _check_episodes(context: Context, repair: bool) -> list[Finding]:
    """Compare the memory store of the team's episodes with the journal."""
    cortex = context.cortex
    problem = cortex.find_difference(context.store.read) if cortex is not None else None
    if cortex is None or problem is None:
        return []
    findings = [Finding(what=problem, where="sam/episodes.jsonl", is_copy=True)]
    return _repaired(findings, lambda: cortex.rewrite_episodes(context.store.read)) if repair else findings


def _check_caches(context: Context, repair: bool) -> list[Finding]:
    """Check the files that are worked out again from git and the journals when they are gone."""
    caches = context.project_files.caches
    if caches is None:
        return []
    findings: list[Finding] = []
    for path, problem in list(caches.find_damaged()):
        finding = Finding(what=problem, where=_place(path, context), is_copy=True)
        findings += _repaired([finding], partial(caches.remove, path)) if repair else [finding]
    return findings


def _place(path: Path, context: Context) -> str:
    """Return a path as findings name it: from the folder of private files."""
    return str(path.relative_to(context.project_files.state_path("cas").parent))


def _listed(findings: Iterable[Finding], where: str, *, is_copy: bool) -> list[Finding]:
    """Return the first findings of one kind of file, and one that counts the others."""
    every = iter(findings)
    first = list(islice(every, MAX_FINDINGS))
    others = sum(1 for _ in every)
    return [*first, Finding(what=f"{others:,} more", where=where, is_copy=is_copy)] if others else first


def _repaired(findings: list[Finding], repair: Callable[[], None]) -> list[Finding]:
    """Repair what was found and is a copy; return the findings with the outcome."""
    if not findings:
        return []
    try:
        repair()
    except (OSError, EngramBusError) as problem:
        return [replace(finding, hint=f"It could not be repaired: {problem}") for finding in findings]
    return [replace(finding, repaired=True) for finding in findings]
