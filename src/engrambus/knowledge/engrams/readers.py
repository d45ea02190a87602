"""Readers of the evidence of an engram: which agents, and how much of it (decision 56).

A reader is an agent, or an admin, to whom dereferences returned at least a part of what a pointer of the engram leads
to, whenever that was. Only recorded reads count: a digest in an engram says nothing about reading, because the gateway
stamps one on every pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from engrambus.evidence.pointers import Coverage, FileLines, Pointer, ReadSpan, cover, print_spans
from engrambus.knowledge.engrams.values import Engram
from engrambus.policy import RecordedRead, TurnReads

MAX_READERS = 3
"""Agents that are named."""

Locate = Callable[[str], FileLines | None]
"""Returns the file and the lines that a ref leads to, if it is here."""


class Reader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent that read the evidence of an engram: all of it, or a part of one pointer."""

    agent: str
    """Its name; with its run if that is not the run of the engram's author."""
    pointer: int | None = None
    """The position of the pointer that was read; none if all pointers were read whole."""
    lines: str | None = None
    """The lines that were read, `1-40,60`; none if all of the pointer was."""
    bytes: str | None = None
    """The bytes that were read, if not even one whole line was."""


class _Target(msgspec.Struct, frozen=True):
    """A pointer as reads are compared with it."""

    digest: str | None
    place: FileLines | None

    @property
    def contents(self) -> list[str]:
        file = self.place.file if self.place is not None else None
        return [content for content in (self.digest, file) if content is not None]


def read_by(reads: TurnReads, engrams: Sequence[Engram], own_run: str, locate: Locate) -> dict[str, list[Reader]]:
    """Return the readers of each engram by its id, its author first; at most `MAX_READERS` agents.

    Agents of the author's run and of `own_run`, the caller's, are named, and admins.
    """
    targets = [[_target(pointer, locate) for pointer in engram.pointers] for engram in engrams]
    by_author_run: dict[str, set[str]] = {}
    for engram, pointers in zip(engrams, targets, strict=True):
        contents = by_author_run.setdefault(_author_run(engram), set())
        contents.update(content for target in pointers for content in target.contents)
    records = {
        run: _by_content(reads.reads_of(sorted(contents), sorted({run, own_run})))
        for run, contents in by_author_run.items()
    }
    return {
        engram.id: _readers(engram, pointers, records[_author_run(engram)])
        for engram, pointers in zip(engrams, targets, strict=True)
    }


def _target(pointer: Pointer, locate: Locate) -> _Target:
    digest = pointer.digest
    if digest is None and pointer.type == "url":  # older ones have it in their ref alone
        digest = pointer.ref.rpartition("@")[2]
    return _Target(digest, locate(pointer.ref))


def _author_run(engram: Engram) -> str:
    return engram.provenance.created_by.rpartition("/")[0]


def _by_content(records: Iterable[RecordedRead]) -> dict[str, list[RecordedRead]]:
    grouped: dict[str, list[RecordedRead]] = {}
    for record in records:
        grouped.setdefault(record.span.of, []).append(record)
    return grouped


def _readers(engram: Engram, targets: Sequence[_Target], records: Mapping[str, Sequence[RecordedRead]]) -> list[Reader]:
    spans: dict[str, list[ReadSpan]] = {}
    for content in {content for target in targets for content in target.contents}:
        for run, agent, span in records.get(content, ()):
            spans.setdefault(f"{run}/{agent}", []).append(span)
    if not spans:
        return []
    author = engram.provenance.created_by
    found = {}
    for agent, agent_spans in spans.items():
        coverages = [cover(agent_spans, digest=target.digest, place=target.place) for target in targets]
        if any(coverages):
            found[agent] = coverages

    def order(agent: str) -> tuple[bool, bool, str]:
        return agent != author, not all(coverage.whole for coverage in found[agent]), agent

    own_run = _author_run(engram) + "/"
    return [
        reader
        for agent in sorted(found, key=order)[:MAX_READERS]
        for reader in _describe(agent.removeprefix(own_run), found[agent])
    ]


def _describe(agent: str, coverages: Sequence[Coverage]) -> list[Reader]:
    """Return one entry if everything was read, else one for each pointer that was read in part or whole."""
    if all(coverage.whole for coverage in coverages):
        return [Reader(agent=agent)]
    return [
        Reader(
            agent=agent,
            pointer=position,
            lines=print_spans(coverage.lines) if coverage.lines else None,
            bytes=print_spans(coverage.bytes) if coverage.bytes else None,
        )
        for position, coverage in enumerate(coverages)
        if coverage
    ]


def describe_readers(readers: Sequence[Reader], pointer_count: int) -> str:
    """Return the readers as a text: `ada`, `ada (lines 1-40)`, `ada (pointer 2: lines 1-40)`; empty without readers."""
    parts: dict[str, list[str]] = {}
    for reader in readers:
        extent = f"lines {reader.lines}" if reader.lines else f"bytes {reader.bytes}" if reader.bytes else ""
        if reader.pointer is not None and pointer_count > 1:
            extent = f"pointer {reader.pointer + 1}" + (f": {extent}" if extent else "")
        parts.setdefault(reader.agent, []).extend([extent] if extent else [])
    return ", ".join(agent + (f" ({'; '.join(extents)})" if extents else "") for agent, extents in parts.items())
