"""`engrambus put`: one claim, its evidence given as paths from where one stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engrambus.core import digest
from engrambus.edges.cli.ask import Given, ask
from engrambus.edges.cli.places import find_worktree, from_link, from_top, full_ref, head_of_linked, print_place
from engrambus.edges.cli.session import Session
from engrambus.edges.cli.show import SHOW
from engrambus.errors import EngramBusError, FileNotFound
from engrambus.evidence.pointers import RepoAddress, parse
from engrambus.gateway import Operation, Place, is_ref, split_place
from engrambus.knowledge.engrams import Engram

HEAD = "HEAD"


def put_one(session: Session, operation: Operation[Any, Any], given: Given) -> None:
    """Put a claim and say what its pointers were stamped as."""
    refs = [full_ref(ref, session.folder, f"pointer[{n}]") for n, ref in enumerate(given.pop("pointers", ()))]
    places: dict[str, Place] = {}
    top = None if session.remote else find_worktree(session.folder)
    at: list[str] = []
    for position, text in enumerate(given.pop("at", ())):
        field = f"at[{position}]"
        linked = from_link(text, field)
        if linked is not None:
            refs.append(linked.ref)
        elif is_ref(text):
            refs.append(full_ref(text, session.folder, field))
        elif top is None:
            at.append(text)
        else:
            place = from_top(split_place(text), session.folder, top, field)
            places[text] = place
            at.append(print_place(_pinned(place, top)))
    given |= {"pointers": [{"type": ref.partition(":")[0], "ref": ref} for ref in refs], "at": at}
    for name in ("tags", "hash_keys"):
        if name in given:
            given[name] = list(given[name])
    try:
        engram = ask(session, operation, given)
    except EngramBusError as refusal:
        if top is not None:
            _explain(refusal, places, top)
        raise
    session.answer(engram, SHOW[operation.name])
    if top is not None:
        _warn_of_changes(session, engram, places, top)


def _pinned(place: Place, top: Path) -> Place:
    """In a linked checkout HEAD is that checkout's own, not the one the gateway stands on."""
    head = head_of_linked(top) if place.revision == HEAD else None
    return place._replace(revision=head) if head is not None else place


def _explain(refusal: EngramBusError, places: dict[str, Place], top: Path) -> None:
    """Say what to do when the evidence is there for the eye and not for git."""
    if isinstance(refusal, FileNotFound) and any((top / place.path).is_file() for place in places.values()):
        refusal.hint = (
            "The file is not in that commit: commit it first, or keep its lines with engrambus anchor --snapshot."
        )


def _warn_of_changes(session: Session, engram: Engram, places: dict[str, Place], top: Path) -> None:
    """Say so when the lines on disk are not the ones that were stamped."""
    stamped = {pointer.digest for pointer in engram.pointers}
    for text, place in places.items():
        if place.revision == HEAD and not _on_disk(engram, place, top) & stamped:
            session.warn(
                f"{text} differs on disk from HEAD, and HEAD's lines were stamped. See them: engrambus deref {text}"
            )


def _on_disk(engram: Engram, place: Place, top: Path) -> set[str]:
    """The digests the pointed lines would have as they lie on disk, with and without carriage returns."""
    from engrambus.evidence.pointers import cut_lines

    addresses = [parse(pointer.ref) for pointer in engram.pointers]
    spans = [each.lines for each in addresses if isinstance(each, RepoAddress) and each.path == place.path]
    try:
        whole = (top / place.path).read_bytes()
        return {
            digest(cut_lines(data, *lines) if lines else data)
            for lines in spans
            for data in (whole, whole.replace(b"\r\n", b"\n"))
        }
    except (OSError, EngramBusError):
        return set()
