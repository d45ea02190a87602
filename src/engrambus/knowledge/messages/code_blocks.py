"""Blocks of code in texts: the pointer that belongs in the place of each, and the refusal of a text that has too many.

Code that stands in the repository has a pointer already. New code becomes an artifact, whose pointer follows from its
content, so that a refusal can name it before anything is stored (decision 48).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from engrambus.core import digest
from engrambus.errors import BudgetExceeded
from engrambus.evidence.pointers import BodyAddress, print_address
from engrambus.knowledge.messages.code import CodeBlock
from engrambus.knowledge.messages.pastes import CodeCounter
from engrambus.policy import LimitChecks

STORE_ARTIFACT = "less.store_artifact"
"""The operation that stores a block."""
MAX_NAMED = 3
"""Pointers that a hint names; the error's `pointers` has all of them."""
MAX_PASSES = 3
MAX_BLOCKS = 32
"""Blocks of one request that pointers are made for."""


class PlacedCode(NamedTuple):
    """A block of code in a text, and where its content is or would be."""

    block: CodeBlock
    ref: str
    body: bytes | None
    """The artifact to store; None if the code stands in the repository."""


def artifact_body(text: str) -> bytes:
    """Return the bytes that a text is stored as: without blank lines around it, so that every copy has one digest."""
    lines = text.replace("\r\n", "\n").strip("\n").rstrip()
    return f"{lines}\n".encode()


def artifact_ref(body: bytes) -> str:
    """Return the pointer to all lines of an artifact."""
    return print_address(BodyAddress(digest=digest(body), lines=(1, body.count(b"\n"))))


def place_blocks(text: str, counter: CodeCounter) -> Iterator[PlacedCode]:
    """Yield the blocks of code in a text, each with its pointer: in the repository or, if it is new, as an artifact."""
    for block in counter.find_blocks(text):
        pointer = counter.locate(block.code)
        if pointer is not None:
            yield PlacedCode(block, pointer.ref, None)
        else:
            body = artifact_body(block.code)
            yield PlacedCode(block, artifact_ref(body), body)


class Extraction(NamedTuple):
    """A text without its code."""

    text: str
    """The text with a pointer in the place of each block."""
    placed: tuple[PlacedCode, ...]
    """The blocks in order."""


def extract_code(text: str, counter: CodeCounter) -> Extraction:
    """Put the pointer to it in the place of each block of code in a text."""
    placed: list[PlacedCode] = []
    # A line that was saved by its neighbours may look like code once they are gone.
    for _ in range(MAX_PASSES):
        found = list(place_blocks(text, counter))
        if not found:
            break
        parts: list[str] = []
        copied = 0
        for code in found:
            parts += (text[copied : code.block.start], code.ref)
            copied = code.block.end
        text = "".join((*parts, text[copied:]))
        placed += found
    return Extraction(text, tuple(placed))


def check_texts(
    texts: Iterable[tuple[str, str]], counter: CodeCounter, limits: LimitChecks, allowance: Callable[[], int]
) -> None:
    """Refuse texts, given as field and text, that have more characters of code than `allowance` together.

    The allowance is only asked for if there is code.
    """
    if limits.mode("inline_code") == "off":
        return
    found = [(chars, field, text) for field, text in texts if (chars := counter.count(text))]
    used = sum(chars for chars, _, _ in found)
    if used and used > (limit := allowance()):
        limits.exceeded("inline_code", _refusal(found, used, limit, counter))


def _refusal(found: Sequence[tuple[int, str, str]], used: int, limit: int, counter: CodeCounter) -> BudgetExceeded:
    largest = max(found)[1]
    refusal = BudgetExceeded(
        f"The text contains code: {used} characters of {limit}.",
        field=largest,
        limit=limit,
        used=used,
        exceeded=[{"what": "inline_code_chars", "limit": limit, "used": used, "field": largest}],
    )
    add_pointers(refusal, [(field, text) for _, field, text in found], counter)
    return refusal


def add_pointers(refusal: BudgetExceeded, texts: Iterable[tuple[str, str]], counter: CodeCounter) -> None:
    """Name the pointer for each block of code in the texts that were refused, and say what to do with them."""
    blocks = ((field, code) for field, text in texts for code in place_blocks(text, counter))
    placed = list(islice(blocks, MAX_BLOCKS))
    if placed:
        refusal.pointers = tuple(
            {"field": field, "ref": code.ref, "stored": code.body is None} for field, code in placed
        )
        only_code = all(excess["what"] == "inline_code_chars" for excess in refusal.exceeded)
        advice = "" if only_code else refusal.hint
        refusal.hint = " ".join(filter(None, (_placing_hint([code for _, code in placed]), advice)))


def _placing_hint(placed: Sequence[PlacedCode]) -> str:
    stored = [code.ref for code in placed if code.body is None]
    new = [code.ref for code in placed if code.body is not None]
    parts = ["Say it in words and point at the code."]
    if stored:
        parts.append(f"It stands in the repository: {_listed(stored)}.")
    if new:
        parts.append(f"Store new code with `{STORE_ARTIFACT}`; its pointer will be {_listed(new)}.")
    return " ".join(parts)


def _listed(refs: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(refs))
    more = f" and {len(distinct) - MAX_NAMED} more" if len(distinct) > MAX_NAMED else ""
    return ", ".join(distinct[:MAX_NAMED]) + more
