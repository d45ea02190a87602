"""The evidence that a message points at: every pointer in it must lead to content that is here (decision 55)."""

from __future__ import annotations

from collections.abc import Iterator

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import Evidence, Pointer, check_pointer
from engrambus.knowledge.messages.values import ChildMessage, Message


def evidence_problems(message: Message, evidence: Evidence) -> Iterator[EngramBusError]:
    """Yield a refusal for each pointer of a message that leads nowhere.

    Only an engram's pointer may stay unresolved, because an engram is shown with that: the others are to be read.
    """
    if isinstance(message, ChildMessage):
        for number, engram in enumerate(message.engrams):
            for position, (pointer, address) in enumerate(zip(engram.pointers, engram.addresses, strict=True)):
                try:
                    evidence.stamp_if_here(pointer, address, "stated", f"ENGRAMS[{number}].pointers[{position}]")
                except EngramBusError as problem:
                    yield problem
    for field, pointer in _pointers_to_read(message):
        try:
            evidence.stamp(*check_pointer(pointer, field), field)
        except EngramBusError as problem:
            yield problem


def check_evidence_to_read(message: Message, evidence: Evidence) -> None:
    """Refuse a message with a pack, a request or a grant whose pointer leads nowhere."""
    checked = [(field, *check_pointer(pointer, field)) for field, pointer in _pointers_to_read(message)]
    evidence.prefetch((pointer, address) for _, pointer, address in checked)
    for field, pointer, address in checked:
        evidence.stamp(pointer, address, field)


def _pointers_to_read(message: Message) -> Iterator[tuple[str, Pointer]]:
    """Yield field and pointer of everything but the engrams, which are stamped when they are put."""
    if isinstance(message, ChildMessage):
        for position, pointer in enumerate(message.pointer_pack):
            yield f"POINTER_PACK[{position}]", pointer
        for position, request in enumerate(message.deref_requests):
            yield f"DEREF_REQUESTS[{position}].pointer", request.pointer
    else:
        for position, note in enumerate(message.grants):
            yield f"GRANTS[{position}].pointer", note.pointer
        for position, pointer in enumerate(message.target_pointer_pack):
            yield f"TARGET_POINTER_PACK[{position}]", pointer
