"""Dead letters: when a tuple is retried, when it is given up, and how a dead letter is put again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from engrambus.errors import DeadlinePast, TupleEnded, TupleNotFound
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples.enqueue import PutResult, put
from engrambus.space.tuples.facts import Fact, TupleReleased
from engrambus.space.tuples.final_receipts import EXIT_REFUSED, end_tuple
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.rules import CheckedTuple, read_tuple
from engrambus.space.tuples.values import SpaceSettings, TupleRecord

_NOT_RETRIED = frozenset(
    {"BUDGET_EXCEEDED", "DEADLINE_PAST", "YOOL_FORBIDDEN", "YOOL_ARGUMENTS", "MEMORY_QUOTA", "DISK_QUOTA"}
    | {"PROCESS_QUOTA"}
    | {"ARTIFACT_PATH", "FIELD_VALUE", "EFFECT_VIOLATED", "HOOK_VETO"}
)
"""Error codes that a retry would only meet again."""
EXIT_TRANSIENT = 75
"""Exit status by which a step says that trying again may help: EX_TEMPFAIL of sysexits.h."""
_LAST_OWN_EXIT = 128
"""Above it, a shell reports the signal that ended a process: the step was cut off and returned nothing."""
WORKER_LOST = "the worker was lost"
"""Error of a dead letter whose last worker neither completed nor released it."""


def dead_letter_reason(record: TupleRecord, now_us: int, settings: SpaceSettings) -> str | None:
    """Explain why a waiting tuple may not be claimed any more; None if it may be."""
    if record.deadline_us is not None and record.deadline_us <= now_us:
        return DeadlinePast.code
    return WORKER_LOST if record.attempts > _max_retries(record, settings) else None


def _max_retries(record: TupleRecord, settings: SpaceSettings) -> int:
    return settings.max_retries if record.retries is None else record.retries


def retry_or_give_up(
    view: WorkView, record: TupleRecord, failure: str, receipts: Sequence[Receipt], settings: SpaceSettings
) -> Fact:
    """Return the fact that follows a failed attempt: a release with backoff, or the end as a dead letter.

    `failure` is an error code, perhaps followed by a colon and details; `receipts` are those of the same commit.
    """
    if record.attempts > _max_retries(record, settings) or not _may_retry(record, failure):
        # A step that failed while others were running may have been recorded together with theirs, before the end.
        earlier = (view.receipt(receipt_id) for receipt_id in view.receipt_ids(record.id))
        recorded = [receipt for receipt in earlier if receipt is not None and receipt.attempt == record.attempts]
        codes = [receipt.exit for receipt in (*recorded, *receipts) if receipt.exit]
        exit = codes[-1] if codes else EXIT_REFUSED
        return end_tuple(view, record, "dead", exit=exit, error=failure, unrecorded=receipts)
    delay_us = min(settings.backoff_us << min(record.attempts - 1, 30), settings.max_backoff_us)
    return TupleReleased(id=record.id, ready_us=view.as_of + delay_us, reason=failure)


def _may_retry(record: TupleRecord, failure: str) -> bool:
    """True if another attempt may end otherwise: after a fault, or where the terms ask for retries."""
    if failure.partition(":")[0] in _NOT_RETRIED:
        return False
    # decision 102: what a linter or a test returns is its result, and it would return the same again.
    return record.retries is not None or not is_own_exit(failure)


def is_own_exit(failure: str) -> bool:
    """True if an attempt failed with an exit status that the step itself returned as its result."""
    word, _, status = failure.partition(" ")
    if word != "exit" or not status.isdecimal():
        return False
    return int(status) != EXIT_TRANSIENT and (int(status) <= _LAST_OWN_EXIT or int(status) > _LAST_OWN_EXIT + 64)


def put_again(
    view: WorkView,
    tuple_id: str,
    *,
    authority: Mapping[str, Any],
    settings: SpaceSettings,
    admit: Callable[[CheckedTuple], int | None],
) -> tuple[list[Fact], list[PutResult]]:
    """Put a dead letter again, as a new tuple with the same content."""
    # decision 24: a new tuple, because each tuple has exactly one final receipt.
    record = view.find(tuple_id)
    if record is None or record.state == "taken":
        raise TupleNotFound(field="id", used=tuple_id)
    if record.state != "dead":
        raise TupleEnded(f"The tuple is {record.state}, not a dead letter.", field="id", used=tuple_id)
    if record.put_again_as is not None:
        raise TupleEnded("The dead letter was already put again.", field="id", used=record.put_again_as)
    fields = msgspec.json.decode(record.body)
    for stamped in ("authority", "created_at"):
        fields.pop(stamped)
    if record.deadline_us is not None and record.deadline_us <= view.as_of:  # it could never start
        del fields["agent_terms"]["deadline_iso"]
    draft = read_tuple(fields, authority, view.as_of)
    return put(view, [draft], run=record.run, settings=settings, admit=admit, replaces=tuple_id, every_run=True)
