"""The drawer: one engram, one receipt, or the lines a pointer leads to, beside what one was looking at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engrambus.edges.page.desk import Desk
from engrambus.edges.page.highlight import numbered
from engrambus.edges.page.words import outward
from engrambus.edges.page.work import load_receipt
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import BodyAddress, DiffAddress, RepoAddress, parse_ref

PARAMS = ("engram", "pointer", "receipt")
MAX_TOKENS = 20_000


def load(desk: Desk, params: Mapping[str, str]) -> dict[str, Any]:
    """What the address wants shown beside the page; a refusal is shown in its place."""
    if "pointer" in params:
        name = _tried(desk, params, _name_in_receipt) if "receipt" in params else {}
        return {"kind": "pointer", "ref": params["pointer"]} | _tried(
            desk, params["pointer"], lambda desk, ref: _pointer(desk, ref, name.get("name", ""))
        )
    if "receipt" in params:
        return {"kind": "receipt"} | _tried(desk, params["receipt"], load_receipt)
    if "engram" in params:
        return {"kind": "engram"} | _tried(desk, params["engram"], _engram)
    return {"kind": ""}


def _tried(desk: Desk, what: Any, show: Any) -> dict[str, Any]:
    try:
        shown: dict[str, Any] = show(desk, what)
    except EngramBusError as refusal:
        return {"refusal": refusal}
    return shown


def _engram(desk: Desk, engram_id: str) -> dict[str, Any]:
    answer = desk.ask("feed", id=engram_id)
    return {"row": answer.rows[0], "as_of": answer.as_of}


def _name_in_receipt(desk: Desk, params: Mapping[str, str]) -> dict[str, Any]:
    """What the receipt one comes from calls the body: a body has no name of its own."""
    address = parse_ref(params["pointer"])
    if not isinstance(address, BodyAddress):
        return {}
    receipt = desk.ask("receipt_get", id=params["receipt"]).receipt
    named = [(each["path"], each["sha"]) for each in receipt["artifacts"]]
    return {"name": next((name for name, sha in named if sha == address.digest), "")}


def _pointer(desk: Desk, ref: str, name: str) -> dict[str, Any]:
    """The lines behind a pointer. Reading them is a dereference like any other, and leaves its proof."""
    read = desk.ask("deref_pointer", pointer=ref, max_tokens=MAX_TOKENS)
    link = desk.ask("link_pointer", ref=read.pointer.ref)
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
        "editor": outward(link.editor),
        "forge": outward(link.github),
        "lines": numbered(read.excerpt, path, first),
    }
