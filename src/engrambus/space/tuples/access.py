"""Access: the authority stamped on a caller's tuples, and which tuples and receipts a caller sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from engrambus.core import MIN_PREFIX_CHARS, is_digest, is_hex
from engrambus.errors import AuthorityStamped, ReceiptNotFound, RunNotFound, TupleNotFound, ambiguous_id
from engrambus.evidence.receipts import Receipt
from engrambus.policy import ADMIN, Caller
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.values import TASK_LANE, TupleRecord

T = TypeVar("T")

MAX_CANDIDATES = 100
"""Ids that are looked at for those the caller sees."""


def stamp_authority(caller: Caller, *, ci: bool) -> dict[str, Any]:
    """Return the authority of a caller's tuples; `ci` says that the admin of this machine is a CI build."""
    if caller.role == ADMIN:
        return {"user": ADMIN, "agent": None, "ci": ci}
    return {"user": None, "agent": caller.full_name, "ci": False}


def check_stamp(view: WorkView, draft: Mapping[str, Any], stamp: Mapping[str, Any], caller: Caller) -> None:
    """Refuse a draft that names its authority, unless it is part of the content that its id was computed from.

    An authority other than the caller's own is accepted only from an admin, and only of a tuple that is in the space
    already: sending back what was read puts nothing new.
    """
    if "authority" not in draft:
        return
    if "id" not in draft:
        raise AuthorityStamped(field="authority", hint="Leave it out: it is set for every tuple without an id.")
    if draft["authority"] == stamp:
        return
    # decision 75: an authority that anybody could write would run what the catalog does not admit for the writer.
    if caller.role != ADMIN or view.find(str(draft["id"])) is None:
        raise AuthorityStamped(
            field="authority", hint="Leave out `authority` and `id`: the authority is set from who you are."
        )


def authority_kind(authority: Mapping[str, Any]) -> str:
    """Return the kind of authority stamped on a tuple: `ci`, `user` or `agent`."""
    if authority.get("ci"):
        return "ci"
    return "user" if authority.get("user") else "agent"


def find_tuple(view: WorkView, tuple_id: str) -> TupleRecord:
    """Return the tuple with that id, or refuse if it is not in the space."""
    record = view.find(tuple_id)
    if record is None or record.state == "taken":
        raise TupleNotFound(field="id", used=tuple_id[:80])
    return record


def visible_tuple(view: WorkView, caller: Caller, id_or_prefix: str, field: str = "id") -> TupleRecord:
    """Return the tuple with that id, or with a unique id that starts so, among those the caller sees."""
    records = _beginning_with(id_or_prefix, view.tuple_ids_starting, _tuple_sight(view, caller))
    record = _only([record.id for record in records], records, id_or_prefix, field)
    if record is None:
        raise TupleNotFound(
            field=field,
            used=id_or_prefix,
            hint="`engrambus board` lists tuples, `engrambus task list` tasks; the first digits of an id are enough.",
        )
    return record


def visible_receipt(view: WorkView, caller: Caller, id_or_prefix: str) -> Receipt:
    """Return the receipt with that id, or with a unique id that starts so, among those the caller sees."""
    receipts = _beginning_with(id_or_prefix, view.receipt_ids_starting, _receipt_sight(view, caller, id_or_prefix))
    receipt = _only([receipt.id for receipt in receipts], receipts, id_or_prefix, "id")
    if receipt is None:
        raise ReceiptNotFound(field="id", used=id_or_prefix)
    return receipt


def visible_tuple_or_receipt(view: WorkView, caller: Caller, id_or_prefix: str) -> tuple[TupleRecord, Receipt | None]:
    """Return the tuple of that id or of that receipt's id, or of a unique beginning of one, and the receipt."""
    see = _tuple_sight(view, caller)
    records = _beginning_with(id_or_prefix, view.tuple_ids_starting, see)
    receipts = _beginning_with(id_or_prefix, view.receipt_ids_starting, _receipt_sight(view, caller, ""))
    found = [*((record, None) for record in records), *((see(receipt.tuple_id), receipt) for receipt in receipts)]
    ids = [record.id for record in records] + [receipt.id for receipt in receipts]
    record, receipt = _only(ids, found, id_or_prefix, "id") or (None, None)
    if record is None:
        raise TupleNotFound(
            "There is no such tuple or receipt.",
            field="id",
            used=id_or_prefix,
            hint="An engram is shown by: engrambus show ID",
        )
    return record, receipt


def _tuple_sight(view: WorkView, caller: Caller) -> Callable[[str], TupleRecord | None]:
    """Return what looks up a tuple by its id, among those the caller sees."""

    def see(tuple_id: str) -> TupleRecord | None:
        record = view.find(tuple_id)
        if record is None or record.state == "taken" or not _is_visible(caller, record):
            return None
        return record

    return see


def _is_visible(caller: Caller, record: TupleRecord) -> bool:
    # decision 113: tasks are the project's, as reservations are
    return caller.role == ADMIN or record.run == caller.run.run_id or record.lane == TASK_LANE


def _receipt_sight(view: WorkView, caller: Caller, named: str) -> Callable[[str], Receipt | None]:
    """Return what looks up a receipt by its id, among those the caller sees; `named` is the id it has given."""

    def see(receipt_id: str) -> Receipt | None:
        receipt = view.receipt(receipt_id)
        if receipt is None:
            return None
        record = view.find(receipt.tuple_id)
        in_run = record is not None and _is_visible(caller, record)
        # A cached result is shared by all runs, and a caller that has its full id got it from the cache.
        return receipt if in_run or (receipt.key is not None and receipt_id == named) else None

    return see


def visible_run(caller: Caller, run: str, exists: Callable[[str], bool]) -> str:
    """Return the run, or refuse: an agent sees its own run only, as if there were no other."""
    if run != caller.run.run_id and (caller.role != ADMIN or not exists(run)):
        raise RunNotFound(field="run", used=run[:80], hint="List them: engrambus run list.")
    return run


def _beginning_with(
    id_or_prefix: str, ids_starting: Callable[..., list[str]], see: Callable[[str], T | None]
) -> list[T]:
    """Return the values of an id, or of the ids that begin so.

    Only values the caller sees count: an id it does not see neither matches nor makes a prefix ambiguous.
    """
    prefix = id_or_prefix.removeprefix("sha256:")
    if is_digest(id_or_prefix) or len(prefix) < MIN_PREFIX_CHARS or not is_hex(prefix, len(prefix)):
        values = [see(id_or_prefix)]
    else:
        ids = ids_starting(prefix, limit=MAX_CANDIDATES) if len(prefix) <= 64 else []
        values = [see(item) for item in ids]
    return [value for value in values if value is not None]


def _only(ids: Sequence[str], values: Sequence[T], id_or_prefix: str, field: str) -> T | None:
    """Return the only value; refuse several, naming the ids that the caller may choose from."""
    if len(values) > 1:
        raise ambiguous_id(ids, id_or_prefix, field)
    return values[0] if values else None
