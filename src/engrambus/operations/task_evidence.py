"""Evidence that a task is done: places, the last commit and receipts, as pointers with digests (decision 113)."""

from __future__ import annotations

from collections.abc import Sequence

from engrambus.core import is_digest, is_hex, short_id
from engrambus.errors import EngramBusError, FieldValue, ReceiptNotFound, TaskEvidence
from engrambus.evidence.pointers import DiffAddress, Pointer, check_pointer, print_address
from engrambus.evidence.receipts import EvidenceRef
from engrambus.gateway.context import Context
from engrambus.space.tuples import visible_receipt

MAX_CHANGED_FILES = 16
"""Files of a commit whose changes are named as evidence; the first of more."""
MIN_RECEIPT_CHARS = 8
"""Digits from which the beginning of a receipt's id is taken for one, and not for a file's name."""
HEAD = "HEAD"


def stamp_place(context: Context, text: str | Pointer, field: str) -> Pointer:
    """Return a full pointer with the digest of its content; refuse one that leads nowhere."""
    checked, address = check_pointer(context.completer.complete(text, field), field)
    stamped = context.evidence.stamp(checked, address, field)
    context.project_files.retain((address,))
    return stamped


def read_evidence(context: Context, texts: Sequence[str]) -> list[EvidenceRef]:
    """Return what shows that a task is done: receipts that ended with 0, and pointers with their digests."""
    evidence: dict[str, EvidenceRef] = {}
    for position, text in enumerate(texts):
        field = f"evidence[{position}]"
        for item in _evidence_of(context, text.strip(), field):
            evidence[item.ref] = item
    return list(evidence.values())


def _evidence_of(context: Context, text: str, field: str) -> list[EvidenceRef]:
    receipt = _receipt(context, text, field)
    if receipt is not None:
        return [receipt]
    try:
        pointers = _changes_of_head(context) if text == HEAD else [stamp_place(context, text, field)]
    except EngramBusError as refusal:
        raise TaskEvidence(
            f"'{text[:80]}' shows nothing: {refusal.detail}",
            field=field,
            used=text[:80],
            hint="Pass lines (src/a.py:10-20), HEAD for the last commit, a full pointer, or the id of a receipt that "
            "ended with 0.",
        ) from None
    return [EvidenceRef(ref=pointer.ref, digest=pointer.digest) for pointer in pointers]


def _receipt(context: Context, text: str, field: str) -> EvidenceRef | None:
    """Return the receipt of an id or its beginning, or None if the text is none."""
    digits = text.removeprefix("sha256:")
    if not is_digest(text) and not (len(digits) >= MIN_RECEIPT_CHARS and is_hex(digits, len(digits))):
        return None
    try:
        with context.tuple_space.space.store.read() as view:
            receipt = visible_receipt(view, context.caller, text)
    except ReceiptNotFound:
        if is_digest(text):
            raise TaskEvidence(f"There is no receipt {short_id(text)}.", field=field, used=text[:80]) from None
        return None
    if receipt.exit != 0 or receipt.step is None:
        what = f"ended with {receipt.exit}" if receipt.exit else "is of no step that was executed"
        raise TaskEvidence(
            f"The receipt {short_id(receipt.id)} {what}.",
            field=field,
            used=short_id(receipt.id),
            limit="a step's receipt with exit 0",
            hint="`receipt list` lists the receipts of steps.",
        )
    return EvidenceRef(ref=receipt.id)


def _changes_of_head(context: Context) -> list[Pointer]:
    """Return the changes of the commit that is checked out, as pointers."""
    head = context.project_files.head()
    base = context.project_files.expand(f"{head}^")
    changed = context.project_files.repositories.select().changed_files(base, head)
    paths = [change.new_path or change.old_path or "" for change in changed][:MAX_CHANGED_FILES]
    pointers = []
    for path in filter(None, paths):
        ref = print_address(DiffAddress(path=path, base=base, head=head))
        pointers.append(stamp_place(context, Pointer(type="diff", ref=ref), "evidence"))
    if not pointers:
        raise FieldValue("The last commit changes no file.", field="evidence", used=HEAD)
    return pointers
