"""A client for tests: calls operations on a harness's gateway in few words, and compares their refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import msgspec

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import DerefAnswer
from engrambus.gateway import LOCAL_ADMIN, Credential, to_request
from engrambus.knowledge.engrams import Engram
from engrambus.operations import OPERATIONS
from engrambus.operations.engram_queries import QueryAnswer
from engrambus.operations.inbox import MailRow
from engrambus.operations.messages import MessageAnswer
from engrambus.testing.harness import HasGateway

NOTE = "sam:note:anything@2026-01-01"
_RECEIPT = "sha256:" + "0" * 64

Outcome = tuple[str, bytes]
"""`ok` and the answer as JSON, or the error code and the problem document as JSON."""


def ref_to_test(file: str) -> str:
    """Return a `test:` ref into a file."""
    return f"test:tests/{file}::it_works@{_RECEIPT}"


class GatewayClient:
    """Calls operations by name with a caller's credential; the local admin's unless another is passed."""

    def __init__(self, harness: HasGateway) -> None:
        self._harness = harness  # not its gateway: a harness that is reopened has another
        self._notes = count(1)

    def call(self, operation: str, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> Any:
        """Return the typed answer of an operation, or raise its refusal."""
        declared = OPERATIONS[operation]
        return self._harness.gateway.call(declared, to_request(fields, declared.request), caller)

    def try_call(self, operation: str, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> Outcome:
        """Return the answer or the refusal of an operation as bytes that can be compared."""
        try:
            return "ok", msgspec.json.encode(self.call(operation, caller, **fields))
        except EngramBusError as refusal:
            return refusal.code, msgspec.json.encode(refusal.problem())

    def put(
        self, claim: str, caller: Credential = LOCAL_ADMIN, /, *, refs: Sequence[str] = (), **fields: Any
    ) -> Engram:
        """Put an engram. Without refs it points at a note no other engram has, so that it is never a duplicate."""
        if not refs:
            refs = (f"sam:note:anything@v{next(self._notes)}",)
        pointers = [{"type": ref.partition(":")[0], "ref": ref} for ref in refs]
        engram: Engram = self.call("put_engram", caller, claim=claim, pointers=pointers, **fields)
        return engram

    def put_many(self, claims: Sequence[str], caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> list[str]:
        """Put engrams in one commit and return their ids."""
        pointers = [{"type": "sam", "ref": NOTE}]
        engrams = [{"claim": claim, "pointers": pointers, **fields} for claim in claims]
        ids: list[str] = self.call("put_engrams", caller, engrams=engrams).ids
        return ids

    def query(self, q: str = "", caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> QueryAnswer:
        """Query engrams."""
        answer: QueryAnswer = self.call("query_engrams", caller, q=q, **fields)
        return answer

    def query_claims(self, q: str = "", caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> list[str]:
        """Query engrams and return their claims in the answer's order."""
        return [engram.claim for engram in self.query(q, caller, **fields).engrams]

    def report(
        self, caller: Credential, summary: str = "All is well.", /, *, token: str | None = None, **sections: Any
    ) -> MessageAnswer:
        """Send a child's message; its sections are named in lower case."""
        message = {"role": "programmer", "task_status": "done", **sections, "output": {"summary": summary}}
        answer: MessageAnswer = self.call("send_message", caller, text=format_message(**message), budget_token=token)
        return answer

    def broadcast(
        self, caller: Credential, /, *brief: str, role: str = "manager", to: Sequence[str] = (), **sections: Any
    ) -> Any:
        """Broadcast a parent's message to its children."""
        text = format_message(ROLE=role, SHARED_BRIEF_MICRO=list(brief), **sections)
        return self.call("broadcast", caller, text=text, to=list(to))

    def deref(self, caller: Credential, ref: str, /, **fields: Any) -> DerefAnswer:
        """Dereference a pointer."""
        answer: DerefAnswer = self.call("deref_pointer", caller, pointer=ref, **fields)
        return answer

    def mail(self, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> list[MailRow]:
        """Return the caller's inbox."""
        rows: list[MailRow] = self.call("inbox", caller, **fields).mail
        return rows

    def add_agent(
        self, name: str, role: str = "programmer", caller: Credential = LOCAL_ADMIN, /, **fields: Any
    ) -> Credential:
        """Add an agent and return its credential."""
        return Credential(token=self.call("add_agent", caller, name=name, role=role, **fields).token)

    def open_run(self, goal: str = "another run") -> str:
        """Open a run and return its id."""
        run_id: str = self.call("open_run", goal=goal).run_id
        return run_id

    def counts(self) -> dict[str, Any]:
        """Return the counts of `stats`."""
        counts: dict[str, Any] = msgspec.to_builtins(self.call("stats").counts)
        return counts


def format_message(**sections: Any) -> str:
    """Return a message as JSON, without its empty sections."""
    return json.dumps({name.upper(): value for name, value in sections.items() if value}, ensure_ascii=False)


def same_changes(journal: bytes, earlier: bytes) -> bool:
    """True if two journals of a project differ at most in facts about denied calls (decision 52)."""
    return _changes(journal) == _changes(earlier)


def _changes(journal: bytes) -> list[list[dict[str, Any]]]:
    lines = (json.loads(line)["facts"] for line in journal.splitlines()[1:])
    changes = ([fact for fact in facts if fact["fact"] != "call.denied"] for facts in lines)
    return [facts for facts in changes if facts]


def catch_refusal(act: Callable[[], object]) -> EngramBusError:
    """Return the refusal that a call must meet."""
    try:
        act()
    except EngramBusError as refusal:
        return refusal
    raise AssertionError("it was not refused")


@contextmanager
def expect_refusal(code: str, field: str | None = None) -> Iterator[None]:
    """Require the block to be refused with this code, and for this field if one is passed."""
    try:
        yield
    except EngramBusError as refusal:
        if refusal.code != code:
            raise AssertionError(f"refused with {refusal.code} instead of {code}: {refusal}") from refusal
        if field is not None and refusal.field != field:
            raise AssertionError(f"refused for {refusal.field} instead of {field}: {refusal}") from refusal
    else:
        raise AssertionError(f"not refused; {code} was expected")


def without_keys(engram: Engram) -> Engram:
    """Return an engram as a query shows it: without its hash keys."""
    return msgspec.structs.replace(engram, hash_keys=())
