"""Claims in answers in prose: taken from the text, kept unconfirmed. The rules are in `knowledge`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from engrambus.core import digest, parse_duration
from engrambus.errors import EngramBusError
from engrambus.gateway.context import Context
from engrambus.gateway.ports import View

# decision 39: these packages load a module with its first use
from engrambus.knowledge import engrams, messages
from engrambus.policy import ADMIN

if TYPE_CHECKING:
    from engrambus.evidence.pointers import Pointer
    from engrambus.knowledge.engrams import CaptureOutcome, PreparedCapture
    from engrambus.knowledge.messages import ProseClaim


class ProseFindings(NamedTuple):
    """What was found in an answer in prose."""

    refs: Sequence[str] = ()
    """Pointers to what it cites and quotes, in order, each once."""
    unresolved: int = 0
    """Citations of lines that lead nowhere."""
    claims: Sequence[ProseClaim] = ()

    @property
    def needs_answer(self) -> bool:
        """True if a claim has no evidence but the answer itself."""
        return any(not claim.pointers for claim in self.claims)


def read_prose(context: Context, text: str, counter: messages.CodeCounter) -> ProseFindings:
    """Return what a text cites and quotes, and the claims in it; nothing is refused, nothing guessed."""
    from engrambus.evidence.pointers.citations import find_citations

    if not text.strip():
        return ProseFindings()
    citations = find_citations(text)
    places = context.project_files.cited_places(context.completer, context.evidence)
    cited = places.resolve_all(citations)
    pastes = counter.find_pastes(text)
    # A path alone is only looked up, a place with lines was meant as a citation.
    unresolved = len({citation.place for citation in citations if citation.has_lines and citation not in cited})
    refs = [*(pointer.ref for pointer in cited.values()), *messages.locate_quotes(text, counter, pastes)]
    claims: Sequence[ProseClaim] = ()
    if context.policy.capture and context.caller.role != ADMIN:  # what a person writes is put by that person
        passages = messages.find_passages(text, counter, pastes)
        claims = messages.find_claims(text, cited, passages, counter.count)
    return ProseFindings(list(dict.fromkeys(refs)), unresolved, claims)


def prepare_claims(
    context: Context, text: str, findings: ProseFindings, stored_text: str, whole: bytes | None
) -> list[PreparedCapture]:
    """Return the claims of an answer that keep the rules of engrams; `whole` is its artifact, stored already."""
    prepared = []
    for claim in findings.claims:
        said = _answer_lines(text[claim.start : claim.end], stored_text, whole)
        pointers = claim.pointers or ((said,) if said is not None else ())
        engram = _prepare(context, claim, pointers) if pointers else None
        if engram is not None:
            answer = said.ref if said is not None else None
            prepared.append(engrams.PreparedCapture(prepared=engram, answer=answer, marked=claim.is_marked))
    return prepared


def keep_claims(
    context: Context, view: View, claims: Sequence[PreparedCapture]
) -> tuple[Sequence[Any], CaptureOutcome]:
    """Decide which claims of an answer are kept."""
    if not claims:
        return (), engrams.CaptureOutcome()
    return engrams.capture_all(
        view,
        claims,
        caller=context.caller,
        policy=context.policy,
        limits=context.limits,
        randomness=context.randomness,
    )


def _prepare(context: Context, claim: ProseClaim, pointers: Sequence[Pointer]) -> engrams.PreparedEngram | None:
    """Return a claim as an engram, at the project's scope or the widest its author may write; None if none is."""
    draft = {"kind": claim.kind, "claim": claim.claim, "pointers": msgspec.to_builtins(list(pointers))}
    for scope in ("project", "run"):
        try:
            checked = engrams.validate({**draft, "scope": scope}, max_ttl_us=parse_duration(context.policy.max_ttl))
            return engrams.prepare(
                checked,
                caller=context.caller,
                policy=context.policy,
                limits=context.policy.checks(context.caller.role),  # its author put nothing, so no warning is for it
                evidence=context.evidence,
                repositories=context.project_files.repositories,
            )
        except EngramBusError:
            continue
    return None


def _answer_lines(said: str, stored_text: str, whole: bytes | None) -> Pointer | None:
    """Return the pointer to the lines of a stored answer that say something."""
    from engrambus.evidence.pointers import BodyAddress, Pointer, print_address

    if whole is None:
        return None
    body, position = whole.decode(), -1
    if said in stored_text:
        position = body.find(said)
    lines = (1, body.count("\n"))
    if position >= 0:
        first = body.count("\n", 0, position) + 1
        lines = (first, first + said.count("\n"))
    return Pointer(type="artifact", ref=print_address(BodyAddress(digest=digest(whole), lines=lines)))
