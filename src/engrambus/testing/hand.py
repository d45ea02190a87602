"""A hand on a gateway: what the tests do, in as few words as a person would use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import msgspec

from engrambus.errors import EngramBusError
from engrambus.gateway import LOCAL_ADMIN, Credential, to_request
from engrambus.knowledge.engrams import Engram
from engrambus.operations import OPERATIONS
from engrambus.operations.asking import QueryAnswer
from engrambus.operations.messages import MailRow, MessageAnswer
from engrambus.operations.pointers import DerefAnswer
from engrambus.testing.harness import Opened

NOTE = "sam:note:anything@2026-01-01"
_RECEIPT = "sha256:" + "0" * 64

Answer = tuple[str, bytes]
"""`ok` and the answer's JSON, or the refusal's code and the problem's."""


def leads_to(file: str) -> str:
    """The ref of a pointer that leads to a file of that name; without a resolver it is stored as it is."""
    return f"test:tests/{file}::it_works@{_RECEIPT}"


class Hand:
    """Calls operations by name, in somebody's name."""

    def __init__(self, harness: Opened) -> None:
        self._harness = harness
        self._places = count(1)

    def call(self, operation: str, credential: Credential = LOCAL_ADMIN, /, **fields: Any) -> Any:
        """An operation's typed answer."""
        declared = OPERATIONS[operation]
        return self._harness.gateway.call(declared, to_request(fields, declared.request), credential)

    def ask(self, operation: str, credential: Credential = LOCAL_ADMIN, /, **fields: Any) -> Answer:
        """An operation's answer or refusal, as bytes to compare."""
        try:
            return "ok", msgspec.json.encode(self.call(operation, credential, **fields))
        except EngramBusError as refusal:
            return refusal.code, msgspec.json.encode(refusal.problem())

    def put(self, claim: str, who: Credential = LOCAL_ADMIN, /, *, refs: Sequence[str] = (), **more: Any) -> Engram:
        """Put an engram; without refs, about a place of its own, so that it repeats no other."""
        if not refs:
            refs = (f"sam:note:anything@v{next(self._places)}",)
        pointers = [{"type": ref.partition(":")[0], "ref": ref} for ref in refs]
        engram: Engram = self.call("put_engram", who, claim=claim, pointers=pointers, **more)
        return engram

    def put_many(self, claims: Sequence[str], who: Credential = LOCAL_ADMIN, /, **more: Any) -> list[str]:
        """Put engrams in one commit and give their ids."""
        pointers = [{"type": "sam", "ref": NOTE}]
        engrams = [{"claim": claim, "pointers": pointers, **more} for claim in claims]
        ids: list[str] = self.call("put_engrams", who, engrams=engrams).ids
        return ids

    def query(self, q: str = "", who: Credential = LOCAL_ADMIN, /, **more: Any) -> QueryAnswer:
        """Ask."""
        answer: QueryAnswer = self.call("query_engrams", who, q=q, **more)
        return answer

    def found(self, q: str = "", who: Credential = LOCAL_ADMIN, /, **more: Any) -> list[str]:
        """The claims an answer holds, in its order."""
        return [engram.claim for engram in self.query(q, who, **more).engrams]

    def report(
        self, who: Credential, summary: str = "All is well.", /, *, token: str | None = None, **sections: Any
    ) -> MessageAnswer:
        """Send a child's message; its sections are named in small letters."""
        said = {"role": "programmer", "task_status": "done", **sections, "output": {"summary": summary}}
        answer: MessageAnswer = self.call("send_message", who, text=written(**said), budget_token=token)
        return answer

    def tell(self, who: Credential, /, *brief: str, role: str = "manager", to: Sequence[str] = (), **more: Any) -> Any:
        """Broadcast to somebody's children."""
        text = written(ROLE=role, SHARED_BRIEF_MICRO=list(brief), **more)
        return self.call("broadcast", who, text=text, to=list(to))

    def deref(self, who: Credential, ref: str, /, **more: Any) -> DerefAnswer:
        """Read what a pointer leads to."""
        answer: DerefAnswer = self.call("deref_pointer", who, pointer=ref, **more)
        return answer

    def mail(self, who: Credential = LOCAL_ADMIN, /, **more: Any) -> list[MailRow]:
        """What lies in somebody's inbox."""
        rows: list[MailRow] = self.call("inbox", who, **more).mail
        return rows

    def add(self, name: str, role: str = "programmer", by: Credential = LOCAL_ADMIN, /, **more: Any) -> Credential:
        """Add an agent and give what it shows at the door."""
        return Credential(token=self.call("add_agent", by, name=name, role=role, **more).token)

    def open_run(self, goal: str = "another run") -> str:
        """Open a run and give its id."""
        run_id: str = self.call("open_run", goal=goal).run_id
        return run_id

    def counts(self) -> dict[str, Any]:
        """How much there is."""
        counts: dict[str, Any] = msgspec.to_builtins(self.call("stats").counts)
        return counts


def written(**sections: Any) -> str:
    """A message as JSON, its empty sections left out."""
    return json.dumps({name.upper(): said for name, said in sections.items() if said}, ensure_ascii=False)


def refusal_of(act: Callable[[], object]) -> EngramBusError:
    """Why something is not done."""
    try:
        act()
    except EngramBusError as refusal:
        return refusal
    raise AssertionError("it was not refused")


@contextmanager
def refused(code: str, field: str | None = None) -> Iterator[None]:
    """What happens inside must be refused with this code, and name this field when one is given."""
    try:
        yield
    except EngramBusError as refusal:
        if refusal.code != code:
            raise AssertionError(f"refused with {refusal.code} instead of {code}: {refusal}") from refusal
        if field is not None and refusal.field != field:
            raise AssertionError(f"refused for {refusal.field} instead of {field}: {refusal}") from refusal
    else:
        raise AssertionError(f"not refused; {code} was expected")


def shown(engram: Engram) -> Engram:
    """An engram as a query shows it: without its hash keys."""
    return msgspec.structs.replace(engram, hash_keys=())
