"""The drawer: one engram, one receipt, or the lines a pointer leads to, shown at the side of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from engrambus.edges.page.highlight import highlight_lines
from engrambus.edges.page.session import PageSession
from engrambus.edges.page.template_filters import safe_link
from engrambus.errors import EngramBusError, EngramNotFound
from engrambus.evidence.pointers import Address, BodyAddress, DiffAddress, EvidenceState, RepoAddress, parse_ref
from engrambus.evidence.receipts import EMPTY_DIGEST
from engrambus.operations.engram_feed import FeedRow

PARAMS = ("engram", "pointer", "receipt")
MAX_TOKENS = 20_000
STEP_ROWS = 50
OUTPUT_TOKENS = 4_000
"""Size of a step's output that is shown in full."""
HEAD_TOKENS = 1_000
"""Size of the beginning that is shown of a longer output; the other tokens go to its end."""

DrawerData = dict[str, Any]


def load_drawer(session: PageSession, params: Mapping[str, str]) -> DrawerData:
    """Return what the address opens in the drawer, or the error that prevents it."""
    if "pointer" in params:
        return {"kind": "pointer", "ref": params["pointer"]} | _or_error(lambda: _load_pointer(session, params))
    if "receipt" in params:
        return {"kind": "receipt"} | _or_error(lambda: _load_receipt(session, params["receipt"]))
    if "engram" in params:
        return {"kind": "engram"} | _or_error(lambda: _load_engram(session, params["engram"]))
    return {"kind": ""}


def _or_error(load: Callable[[], DrawerData]) -> DrawerData:
    try:
        return load()
    except EngramBusError as error:
        return {"refusal": error}


def _load_engram(session: PageSession, engram_id: str) -> DrawerData:
    answer = session.call("feed", id=engram_id)
    row = answer.rows[0]
    used = row.about.used
    return {"row": row, "as_of": answer.as_of, "used": [_load_used(session, used_id) for used_id in used]}


class UsedEngram(NamedTuple):
    """An engram that another one is based on, as it is now."""

    id: str
    row: FeedRow | None
    """None if it has expired or was removed, or the visitor's run cannot see it."""


def _load_used(session: PageSession, engram_id: str) -> UsedEngram:
    try:
        return UsedEngram(engram_id, session.call("feed", id=engram_id).rows[0])
    except EngramNotFound:
        return UsedEngram(engram_id, None)


def _load_pointer(session: PageSession, params: Mapping[str, str]) -> DrawerData:
    ref, name = params["pointer"], ""
    if "receipt" in params:
        name = _or_error(lambda: {"name": _name_in_receipt(session, ref, params["receipt"])}).get("name", "")
    # decision 16: reading a pointer on the page is a dereference like any other and leaves its proof.
    read = session.call("deref_pointer", pointer=ref, max_tokens=MAX_TOKENS)
    link = session.call("link_pointer", ref=read.pointer.ref)
    address = parse_ref(read.pointer.ref)
    path, first = "", 1
    if isinstance(address, RepoAddress):
        path, first = address.path, address.lines[0] if address.lines else 1
    elif isinstance(address, BodyAddress):
        path, first = name, address.lines[0] if address.lines else 1
    elif isinstance(address, DiffAddress):
        path = ".diff"
    return {
        "read": read,
        "name": name,
        "link": link,
        "editor": safe_link(link.editor),
        "forge": safe_link(link.github),
        "now": _place_now(link.evidence, address),
        "lines": highlight_lines(read.excerpt, path, first),
    }


def _place_now(evidence: EvidenceState | None, address: Address) -> str | None:
    """Return where moved or changed lines are now; the same line numbers, if that is not known."""
    if evidence is None or evidence.state not in ("moved", "changed"):
        return None
    if evidence.now is not None or not isinstance(address, RepoAddress):
        return evidence.now
    return address.path + (f":{address.lines[0]}-{address.lines[1]}" if address.lines else "")


def _name_in_receipt(session: PageSession, ref: str, receipt_id: str) -> str:
    """Return the path under which a receipt lists a stored body, which has no name itself."""
    address = parse_ref(ref)
    if not isinstance(address, BodyAddress):
        return ""
    receipt = session.call("receipt_get", id=receipt_id).receipt
    paths = (artifact["path"] for artifact in receipt["artifacts"] if artifact["sha"] == address.digest)
    return next(paths, "")


class StepOutput(NamedTuple):
    """The text a step printed to stdout or stderr."""

    name: str
    sha: str
    text: str
    tail: str | None
    """Its end, if `text` holds only the beginning."""
    refusal: EngramBusError | None

    @property
    def next_lines(self) -> str:
        """The fragment of a pointer to the lines after the beginning, or nothing if there may be none."""
        if not self.tail or not self.text.endswith("\n"):
            return ""  # text that was cut inside its first line may have no second one
        first, count = (part.removesuffix("\n").count("\n") + 1 for part in (self.text, self.tail))
        return f"#L{first + 1}" + (f"-L{first + count}" if count > 1 else "")


def _load_receipt(session: PageSession, receipt_id: str) -> DrawerData:
    answer = session.call("receipt_get", id=receipt_id)
    receipt = answer.receipt
    stored = [("stdout", receipt["stdout_sha"]), ("stderr", receipt["stderr_sha"])]
    outputs = [_load_output(session, name, sha) for name, sha in stored if sha != EMPTY_DIGEST]
    steps = [session.call("receipt_get", id=step_id).receipt for step_id in receipt.get("receipts", ())[:STEP_ROWS]]
    return {
        "receipt": receipt,
        "gone": answer.gone,
        "reports": answer.reports,
        "outputs": outputs,
        "steps": steps,
    }


def _load_output(session: PageSession, name: str, sha: str) -> StepOutput:
    def read(max_tokens: int, *, tail: bool = False) -> Any:
        return session.call("deref_pointer", pointer=f"artifact:{sha}", max_tokens=max_tokens, tail=tail)

    try:
        output = read(OUTPUT_TOKENS)
        if not output.truncated:
            return StepOutput(name, sha, output.excerpt, None, None)
        # The output is longer than both parts together, so no line is shown twice.
        head, tail = read(HEAD_TOKENS), read(OUTPUT_TOKENS - HEAD_TOKENS, tail=True)
    except EngramBusError as error:
        return StepOutput(name, sha, "", None, error)
    return StepOutput(name, sha, head.excerpt, tail.excerpt, None)
