"""Journals in a folder that were not written with this machine's key, and taking them as one's own (decision 67)."""

from __future__ import annotations

from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from engrambus.backends.facts import decode_facts
from engrambus.backends.sqlite.knowledge_index import KnowledgeIndex
from engrambus.backends.sqlite.lock import WriteLock
from engrambus.backends.sqlite.store import journals_in
from engrambus.core.journal import ForeignJournal, Journal, JournalKey, read_header, vouch_for
from engrambus.errors import FormatUnknown, JournalDamaged, JournalForeign
from engrambus.knowledge.engrams import EngramForgotten, EngramPinned, EngramPut, EngramReplaced, EngramUnpinned


def foreign_journals(folder: Path, key: JournalKey | None) -> list[ForeignJournal]:
    """Return the journals in a folder that were not written with this key; with None, all of them."""
    return [_summary(file.path, file.kind) for file in journals_in(folder) if not _is_ours(file.path, key, file.kind)]


def journals_not_ours(folder: Path, key: JournalKey | None) -> list[Path]:
    """Return the paths of the journals in a folder that were not written with this key; with None, of all of them."""
    return [file.path for file in journals_in(folder) if not _is_ours(file.path, key, file.kind)]


def own_journals(folder: Path, key: JournalKey, *, project: str, now_us: int) -> None:
    """Continue each foreign journal in a folder with a segment of this key, which vouches for everything before it."""
    for file in journals_in(folder):
        if _is_ours(file.path, key, file.kind):
            continue
        if read_header(file.path).project != project:
            raise JournalForeign(
                f"{file.path} belongs to another project.", field=str(file.path), hint="Move it out of this folder."
            )
        with closing(WriteLock(file.lock)) as lock:
            lock.run(partial(vouch_for, file.path, key, file.kind, now_us))


def _is_ours(path: Path, key: JournalKey | None, kind: str) -> bool:
    try:
        if key is not None:
            Journal(path, key, kind).close()
    except (JournalForeign, FormatUnknown):  # what cannot be read is not ours either
        return False
    return key is not None


def _summary(path: Path, kind: str) -> ForeignJournal:
    commits = first_us = last_us = 0
    pins: dict[str, str] = {}
    claims: dict[str, str] = {}
    with closing(Journal(path, None, kind)) as journal:
        end = journal.start
        with suppress(JournalDamaged):  # a segment that cannot be read to its end
            for line, behind in journal.read(journal.start):
                end = behind
                commits, first_us, last_us = line.seq, first_us or line.at_us, line.at_us
                if kind == KnowledgeIndex.kind:
                    _follow_pins(line.facts, claims, pins)
        whole = journal.into_segment(end).offset == journal.size()
    return ForeignJournal(
        journal=path,
        kind=kind,
        commits=commits,
        first_us=first_us,
        last_us=last_us,
        whole=whole,
        pinned=tuple(pins.values()),
    )


def _follow_pins(facts: bytes, claims: dict[str, str], pins: dict[str, str]) -> None:
    """Keep `pins`, a map from ids to claims, as it is after these facts."""
    for fact in decode_facts(facts):
        match fact:
            case EngramPut():
                claims[fact.engram.id] = fact.engram.claim
            case EngramPinned():
                pins[fact.id] = claims.get(fact.id, fact.id)
            case EngramUnpinned() | EngramForgotten() | EngramReplaced():
                pins.pop(fact.id, None)
            case _:
                pass
