"""The work board: lanes, what is worked on, what has ended, and a receipt with what it kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from engrambus.edges.page.desk import Desk
from engrambus.errors import EngramBusError
from engrambus.evidence.receipts import EMPTY

SHOWN = 50
OUTPUT_TOKENS = 4_000
"""How much of what a step printed is shown at once."""
HEAD_TOKENS = 1_000
"""How much of that is its beginning, when it is not all shown; the rest is its end."""


class Printed(NamedTuple):
    """What a step printed on one of its outputs."""

    name: str
    sha: str
    text: str
    end: str | None
    """Its end, when `text` holds only the beginning."""
    refusal: EngramBusError | None

    @property
    def between(self) -> str:
        """The lines that follow the beginning, as a pointer names them: only such as are there for certain."""
        if not self.end or not self.text.endswith("\n"):
            return ""  # what was cut inside its first line may have no other
        first, last = (each.removesuffix("\n").count("\n") + 1 for each in (self.text, self.end))
        return f"#L{first + 1}" + (f"-L{first + last}" if last > 1 else "")


def load(desk: Desk, params: Mapping[str, str]) -> dict[str, Any]:
    """The board as it is now."""
    return {"board": desk.ask_over_runs("work_board", limit=SHOWN)}


def load_receipt(desk: Desk, receipt_id: str) -> dict[str, Any]:
    """A receipt, with what was printed as far as it is kept."""
    answer = desk.ask("receipt_get", id=receipt_id)
    receipt = answer.receipt
    named = [("stdout", receipt["stdout_sha"]), ("stderr", receipt["stderr_sha"])]
    outputs = [_printed(desk, name, sha) for name, sha in named if sha != EMPTY]
    steps = [desk.ask("receipt_get", id=each).receipt for each in receipt.get("receipts", ())[:SHOWN]]
    return {"receipt": receipt, "gone": answer.gone, "outputs": outputs, "steps": steps}


def _printed(desk: Desk, name: str, sha: str) -> Printed:
    """Reading it is a dereference like any other, and leaves its proof."""

    def read(tokens: int, *, tail: bool = False) -> Any:
        return desk.ask("deref_pointer", pointer=f"artifact:{sha}", max_tokens=tokens, tail=tail)

    try:
        whole = read(OUTPUT_TOKENS)
        if not whole.truncated:
            return Printed(name, sha, whole.excerpt, None, None)
        # What does not fit at once is longer than these two together, so that nothing is shown twice.
        head, end = read(HEAD_TOKENS), read(OUTPUT_TOKENS - HEAD_TOKENS, tail=True)
    except EngramBusError as refusal:
        return Printed(name, sha, "", None, refusal)
    return Printed(name, sha, head.excerpt, end.excerpt, None)
