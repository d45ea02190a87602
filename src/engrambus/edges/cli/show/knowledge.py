"""Lines for people: engrams and briefs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import age, short_id
from engrambus.edges.cli.screen import counted, dim, kind, pairs, safe, safe_id, safe_line, width, wrap
from engrambus.evidence.pointers import describe_state, short_ref
from engrambus.knowledge.engrams import describe_readers

if TYPE_CHECKING:
    from engrambus.knowledge.engrams import ConfirmAnswer, Engram, ForgetAnswer, PinAnswer
    from engrambus.operations.brief import BriefAnswer, BriefsAnswer
    from engrambus.operations.engram_about import EngramAbout
    from engrambus.operations.engram_feed import FeedAnswer
    from engrambus.operations.engram_queries import QueryAnswer, ShownEngram
    from engrambus.operations.promotions import PromotionRow, PromotionsAnswer
    from engrambus.operations.recall import RecallAnswer

KIND_COLUMN = 12
MAX_VERSIONS = 8


def _author(engram: Engram) -> str:
    return engram.provenance.created_by.rpartition("/")[2]


def _said_by(engram: Engram, about: EngramAbout | None) -> str:
    """Return the author of an engram, or where it was learned."""
    if about is None or about.learned is None:
        return _author(engram)
    from engrambus.operations.learned_about import describe_learned

    return describe_learned(about.learned)


def engram_list(answer: QueryAnswer) -> Iterator[str]:
    columns = width()
    for engram in answer.engrams:
        claim = wrap(safe(engram.claim), columns - KIND_COLUMN if columns else None)
        yield kind(engram.kind) + " " * (KIND_COLUMN - len(engram.kind)) + claim[0]
        for line in claim[1:]:
            yield " " * KIND_COLUMN + line
        evidence = [pointer for pointer in engram.pointers if pointer.ref != engram.id]  # a memory's id is its pointer
        extra = f" +{len(evidence) - 1}" if len(evidence) > 1 else ""
        about = answer.about.get(engram.id)
        parts = [
            *([short_ref(evidence[0]) + extra] if evidence else []),
            _said_by(engram, about),
            age(engram.provenance.created_at, answer.as_of),
            *untrusted(about),
            *replaced(about),
            *evidence_words(engram, about),
            *([read_by(engram, about)] if about is not None and evidence else []),
            *_memory(about),
            short_id(engram.id),
        ]
        yield " " * KIND_COLUMN + dim("  ".join(map(safe, parts)))
    if not answer.engrams and not answer.truncated:
        yield "Nothing found."
    if answer.truncated:
        yield dim("There is more than --max-tokens allows.")
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def untrusted(about: EngramAbout | None) -> list[str]:
    """Return what a line says of an unconfirmed or untrusted engram."""
    if about is None:
        return []
    if about.unconfirmed is not None:
        return ["unconfirmed"]
    return [*_untrusted(about), *(f"conflicts with {short_id(engram_id)}" for engram_id in about.conflicts)]


def _untrusted(about: EngramAbout) -> list[str]:
    if about.untrusted is None:
        return []
    if about.signer is None:
        return [f"untrusted, from {about.untrusted.origin}"]
    return [f"untrusted, from {about.signer.name or 'an unknown key'}"]


def replaced(about: EngramAbout | None) -> list[str]:
    """Return what a line says of an engram that a newer one has replaced."""
    if about is None or about.superseded_at is None:
        return []
    return [f"replaced by {short_id(about.replaced_by)}" if about.replaced_by is not None else "replaced"]


def _memory(about: EngramAbout | None) -> list[str]:
    """Return what a line says of an engram that the team remembers."""
    if about is None or about.memory is None:
        return []
    return ["pinned memory" if about.memory.pinned else "memory"]


def evidence_words(engram: Engram, about: EngramAbout | None) -> list[str]:
    """Return what a line says of the evidence: how its lines have changed, and how many pointers are unresolved."""
    if about is None or about.evidence is None:
        return []
    words = describe_state(about.evidence)
    absent = len(about.evidence.unresolved)
    is_part = absent and about.evidence.state != "unresolved"
    return [*([words] if words else []), *([f"{absent} of {len(engram.pointers)} unresolved"] if is_part else [])]


def what_to_do(engram: Engram, about: EngramAbout) -> list[str]:
    """Return how an engram with stale evidence becomes current again."""
    evidence = about.evidence
    if evidence is None or evidence.state not in ("changed", "gone"):
        return []
    lines = evidence.now or "PATH:10-20"
    return [f"If it still holds: engrambus confirm {short_id(engram.id)} --at {lines}"]


def read_by(engram: Engram, about: EngramAbout) -> str:
    """Return who read the evidence of an engram."""
    readers = describe_readers(about.read_by, len(engram.pointers))
    return f"read by {readers}" if readers else "not read"


def recalled(answer: RecallAnswer) -> Iterator[str]:
    """Show what a hook would show, or why it shows nothing."""
    for line in answer.lines:
        yield from wrap(safe(line), width())
    if answer.off:
        yield "Off: the policy has `recall: false`."
    elif not answer.lines:
        yield "Nothing fits well enough to be shown unasked."


def shown_engram(answer: ShownEngram) -> Iterator[str]:
    """Show one engram, what it used and what used it."""
    (shown,) = answer.engrams
    about = answer.about.get(shown.id)
    rows = [*_replacing_rows(about), *_adoption_rows(shown, about), *_capture_rows(shown, about)]
    rows += [("quotes", _said_by(shown, about))] if about is not None and about.learned is not None else []
    if about is not None and about.evidence is not None and about.evidence.state not in (None, "unresolved"):
        rows += [("evidence", describe_state(about.evidence) or "unchanged")]
        rows += [("", way) for way in what_to_do(shown, about)]
    if about is not None and about.evidence is not None and about.evidence.unresolved:
        rows += [("unresolved", ref) for ref in about.evidence.unresolved]
        rows += [("", about.evidence.hint)] if about.evidence.hint else []
    if about is not None:
        rows += [("read by", describe_readers(about.read_by, len(shown.pointers)) or "not read")]
        rows += [("used", short_id(engram_id)) for engram_id in about.used]
    if about is not None and about.used_by is not None:
        newest = about.used_by.newest
        more = about.used_by.count - len(newest)
        uses = [
            f"{use.kind} {short_id(use.id)} by {use.agent.rpartition('/')[2]}, {age(use.at, answer.as_of)}"
            for use in newest
        ]
        rows += [("used by", use) for use in [*uses, *([f"{more} more"] if more else [])]]
    yield from engram(shown, rows)


def _replacing_rows(about: EngramAbout | None) -> list[tuple[str, str]]:
    """Return the rows about what an engram replaced, and what replaced it and when."""
    if about is None:
        return []
    rows = [("replaces", short_id(engram_id)) for engram_id in about.replaces]
    mark = about.untrusted or about.adopted
    rows += [("replaces there", short_id(engram_id)) for engram_id in (mark.replaces if mark is not None else ())]
    rows += [("conflicts", f"{short_id(engram_id)} replaces the same claim") for engram_id in about.conflicts]
    rows += [
        ("elsewhere", f"{short_id(engram_id)} replaces it where it comes from")
        for engram_id in about.replaced_elsewhere
    ]
    if about.superseded_at is not None:
        rows += [("valid from", about.valid_from or ""), ("replaced at", about.superseded_at)]
        rows += [("replaced by", short_id(about.replaced_by or "an engram that you cannot see"))]
    return rows


def _adoption_rows(engram: Engram, about: EngramAbout | None) -> list[tuple[str, str]]:
    """Return the rows about where an adopted engram came from."""
    adoption = None if about is None else about.untrusted or about.adopted
    if about is None or adoption is None:
        return []
    source = f"{adoption.origin}, by {adoption.by}, {adoption.made_at}"
    signed = [("signed by", f"{about.signer.name or 'an unknown key'}, {about.signer.key}")] if about.signer else []
    if adoption.confirmed_by is not None:
        return [("adopted from", source), *signed, ("trusted by", f"{adoption.confirmed_by}, {adoption.confirmed_at}")]
    pin = " It was pinned there, and is pinned here then." if adoption.pinned else ""
    return [("untrusted", f"from {source}"), *signed, ("", f"Trust it: engrambus confirm {short_id(engram.id)}.{pin}")]


def _capture_rows(engram: Engram, about: EngramAbout | None) -> list[tuple[str, str]]:
    """Return the rows about the answer in prose that an engram was taken from."""
    capture = None if about is None else about.unconfirmed or about.captured
    if capture is None:
        return []
    said = "marked in" if capture.marked else "from"
    source = f"{said} the answer of {capture.by}, {capture.at}"
    where = [("answer", capture.answer)] if capture.answer else []
    if capture.confirmed_by is not None:
        return [("taken", source), *where, ("confirmed by", f"{capture.confirmed_by}, {capture.confirmed_at}")]
    return [("unconfirmed", source), *where, ("", f"Confirm it: engrambus confirm {short_id(engram.id)}.")]


def engram(answer: Engram, about: Iterable[tuple[str, str]] = ()) -> Iterator[str]:
    """Show one engram, and the rows about it."""
    yield f"{kind(answer.kind)}  {safe(answer.claim)}"
    yield ""
    rows = [("id", short_id(answer.id))]
    for pointer in answer.pointers:
        rows += [("pointer", pointer.ref), ("digest", pointer.digest or "unresolved: what it names is not here")]
    rows += [("confidence", f"{answer.confidence:g}"), ("ttl", answer.ttl), ("scope", answer.scope)]
    rows += [("tags", ", ".join(answer.tags)), ("keys", ", ".join(answer.hash_keys))]
    rows += [("embedding", answer.embedding_ref or "")]
    rows += [("by", f"{answer.provenance.created_by} ({answer.provenance.source})")]
    rows += [("at", answer.provenance.created_at), *about]
    yield from pairs(row for row in rows if row[1])


def engram_put(engram: Engram) -> Iterator[str]:
    yield click.style(safe_id(engram.id), bold=True)
    for pointer in engram.pointers:
        yield safe(pointer.ref)
        yield dim(safe(pointer.digest or "unresolved: what it names is not here, so it is no evidence yet"))


def brief(answer: BriefAnswer) -> Iterator[str]:
    yield dim(f"Brief for {safe(answer.role)}, version {answer.version}")
    shared = len(answer.lines) - answer.own_lines
    for number, line in enumerate(answer.lines):
        # Lines about the reader are ours, and name a tool where a person has a command.
        yield safe_line(line if number < shared else line.replace(": less_inbox.", ": engrambus inbox."))


def brief_versions(answer: BriefsAnswer) -> Iterator[str]:
    which = f"version {answer.version}" if answer.version else "as it would be made now"
    yield dim(f"Brief for {safe(answer.role)}, {which}")
    for line in answer.changed if answer.changed is not None else answer.lines:
        yield safe_line(line)
    if answer.stale:
        yield dim(f"{counted(answer.stale, 'claim')} left out as stale: engrambus check")
    if answer.versions:
        versions = ", ".join(
            f"{brief.version} ({age(brief.made_at, answer.as_of)})" for brief in answer.versions[:MAX_VERSIONS]
        )
        yield dim(f"Versions: {versions}")


def feed(answer: FeedAnswer) -> Iterator[str]:
    for row in answer.rows:
        engram = row.engram
        marks = ["pinned"] if row.pinned else []
        uses = row.about.used_by.count if row.about.used_by is not None else 0
        marks += [f"used {uses} time{'s' * (uses != 1)}"] if uses else []
        marks += [*untrusted(row.about), *replaced(row.about), *evidence_words(engram, row.about)]
        about = [
            _said_by(engram, row.about),
            age(engram.provenance.created_at, answer.as_of),
            *marks,
            read_by(engram, row.about),
        ]
        extra = f" +{len(engram.pointers) - 1}" if len(engram.pointers) > 1 else ""
        yield kind(engram.kind) + " " * (KIND_COLUMN - len(engram.kind)) + safe_line(engram.claim)
        yield " " * KIND_COLUMN + dim(
            "  ".join(map(safe, [short_ref(engram.pointers[0]) + extra, *about, short_id(engram.id)]))
        )
    if not answer.rows:
        yield "Nothing found." if answer.cursor is None else f"Nothing in the newest {answer.searched:,}."
    if answer.cursor is not None:
        yield dim(f"Older: --cursor {safe(answer.cursor)}")


def pin_state(answer: PinAnswer) -> Iterator[str]:
    yield f"{safe_id(answer.id)} is {'pinned' if answer.pinned else 'no longer pinned'}."


def confirmation(answer: ConfirmAnswer) -> Iterator[str]:
    # A parent and all its descendants are one line: an agent cannot multiply its own vote.
    lines = f"{answer.votes} line{'s' * (answer.votes != 1)} of agents"
    yield f"{safe_id(answer.id)} holds until {safe(answer.expires_at)}, confirmed by {lines}."
    if answer.trusted:
        yield "It is trusted from now on, and pinned." if answer.pinned else "It is trusted from now on."
    if answer.replaced:
        yield f"It replaces {', '.join(map(safe_id, answer.replaced))}, as it does where it comes from."
    if answer.accepted:
        yield "It was taken from an agent's prose, and is the team's from now on."
    for ref in answer.pointers:
        yield f"points at   {safe(ref)}"
    for ref in answer.resolved:
        yield f"resolved    {safe(ref)}"
    for ref in answer.unresolved:
        yield f"unresolved  {safe(ref)}"


def forget_result(answer: ForgetAnswer) -> Iterator[str]:
    yield f"{safe_id(answer.id)} is forgotten."


def promotion_list(answer: PromotionsAnswer) -> Iterator[str]:
    """Show requests to promote, newest first."""
    for row in answer.promotions:
        yield from promotion(row)
    if not answer.promotions:
        yield "No request waits for approval."


def promotion(row: PromotionRow) -> Iterator[str]:
    """Show one request with its answer."""
    colour = {"waiting": "yellow", "approved": "green", "declined": "red"}[row.status]
    claim = safe(row.claim) if row.claim is not None else dim(f"engram {safe_id(row.id)}, which left the project")
    yield f"{click.style(row.status, fg=colour, bold=True)} for {safe(row.scope)}: {claim}"
    parts = [f"request {short_id(row.request_id)}", f"asked by {row.asked_by}", row.asked_at]
    if row.answered_by is not None:
        parts += [f"{row.status} by {row.answered_by}", row.answered_at or ""]
    yield "  " + dim("  ".join(map(safe, parts)))
