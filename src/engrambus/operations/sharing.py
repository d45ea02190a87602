"""Sharing engrams through git: they leave as signed events, and come in as untrusted (decision 119)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from engrambus.core import check_visible
from engrambus.errors import BadText, EngramBusError, FieldValue, IdTaken, Trouble
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.engrams import PreparedAdoption
from engrambus.knowledge.sharing import (
    Arrival,
    ImportableEngram,
    ShareableHistory,
    SharedEngram,
    Verdict,
    arrival_of,
    import_engrams,
    texts_of,
)
from engrambus.operations.adoption import MAX_PER_REQUEST, prepare_foreign
from engrambus.policy.secrets import check_no_secrets

BATCH_LINES = 1024
"""Journal lines read at once."""
AT_THE_MACHINE = "a person at the machine shares: engrambus export, import and sync"


class ExportEngrams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to choose."""


class ExportAnswer(Struct, frozen=True, kw_only=True):
    engrams: list[SharedEngram]
    skipped: dict[str, int]
    """Engrams that hold what may not leave the project, counted by the code of the refusal."""


@operation(
    "knowledge.export",
    roles=ADMINS,
    absent_from=dict.fromkeys(("http", "mcp", "client"), AT_THE_MACHINE)
    | {"cli": "engrambus export signs the events and writes the files"},
)
def export_engrams(context: Context, request: ExportEngrams) -> ExportAnswer:
    """Return the events of every engram that may be shared."""
    history = ShareableHistory(context.store.project)
    for facts, at_us in _commits(context):
        history.take(facts, at_us)
    engrams: list[SharedEngram] = []
    skipped: Counter[str] = Counter()
    for engram in history.engrams(context.as_of):
        try:
            texts = texts_of(engram.events)
            check_visible(texts)
            check_no_secrets(texts, rules=context.policy.secrets)
        except Trouble:
            raise
        except EngramBusError as refusal:  # put before the rule that refuses it now
            skipped[refusal.code] += 1
        else:
            engrams.append(engram)
    return ExportAnswer(engrams=engrams, skipped=dict(sorted(skipped.items())))


def _commits(context: Context) -> Iterator[tuple[bytes, int]]:
    last, line = context.store.last_line(), 0
    while line < last and (lines := context.store.lines_after(line, BATCH_LINES)):
        for commit in lines:
            yield commit.facts, commit.at_us
        line = lines[-1].seq


class ImportEngrams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Engrams of others, from events whose signatures are right."""

    engrams: Annotated[list[ImportableEngram], Meta(description=f"At most {MAX_PER_REQUEST}")] = []


class ImportedEngram(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Outcome for one engram of others."""

    verdict: Verdict | None = None
    """None if it was refused."""
    id: str
    """Its id here."""
    shared_id: str
    """Its id where it was put."""
    key: str
    pinned: bool = False
    """True if it was pinned there; it is pinned here when a person confirms it."""
    code: str = ""
    """Code of the refusal."""
    detail: str = ""


class ImportAnswer(Struct, frozen=True, kw_only=True):
    engrams: list[ImportedEngram]
    """In the order of the request."""


@operation(
    "knowledge.import",
    roles=ADMINS,
    writes=True,
    redacts=True,
    raw_fields=("engrams",),
    absent_from=dict.fromkeys(("http", "mcp", "client"), AT_THE_MACHINE)
    | {"cli": "engrambus import reads the events and sends engrams in batches"},
    span="create_memory",
)
def import_shared(context: Context, request: ImportEngrams) -> ImportAnswer:
    """Take on engrams that others share, as untrusted."""
    if len(request.engrams) > MAX_PER_REQUEST:
        raise FieldValue(field="engrams", limit=MAX_PER_REQUEST, used=len(request.engrams))
    refusals: dict[int, EngramBusError] = {}
    items: list[tuple[ImportableEngram, PreparedAdoption | None]] = []
    with context.store.read() as view:
        # Most are known from the import before; their pointers need not be resolved again.
        new = [arrival_of(view, item).verdict == "new" for item in request.engrams]
    for position, (item, is_new) in enumerate(zip(request.engrams, new, strict=True)):
        prepared = None
        if is_new:
            try:
                prepared = prepare_foreign(context, item.foreign)
            except Trouble:  # not the engram's fault
                raise
            except EngramBusError as refusal:
                refusals[position] = refusal
            except UnicodeEncodeError:
                refusals[position] = BadText()
        items.append((item, prepared))

    def decide(view: View) -> tuple[list[object], ImportAnswer]:
        facts, arrivals = import_engrams(view, items, context.caller)
        outcomes = [
            _outcome(item, arrival, refusals.get(position))
            for position, ((item, _), arrival) in enumerate(zip(items, arrivals, strict=True))
        ]
        return list(facts), ImportAnswer(engrams=outcomes)

    return context.commit(decide, ImportAnswer)


def _outcome(item: ImportableEngram, arrival: Arrival, refusal: EngramBusError | None) -> ImportedEngram:
    if arrival.verdict == "taken":
        refusal = IdTaken("An engram that was put here has this id.", field="id", used=item.id)
    is_refused = refusal is not None and arrival.verdict in ("new", "taken")
    return ImportedEngram(
        verdict=None if is_refused else arrival.verdict,
        id=arrival.id,
        shared_id=item.id,
        key=item.key,
        pinned=item.foreign.pinned,
        code=refusal.code if refusal is not None and is_refused else "",
        detail=refusal.detail if refusal is not None and is_refused else "",
    )
