"""What a person can do on the page, each an operation or two; all else on it is for reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from engrambus.edges.page.desk import Desk
from engrambus.edges.page.words import place
from engrambus.errors import FieldMissing

Form = Mapping[str, str]


class Action(msgspec.Struct, frozen=True):
    """Something that can be done with a form."""

    do: Callable[[Desk, Form], str]
    """Does it, and says what was done."""
    fields: frozenset[str]
    required: frozenset[str] = frozenset()

    def __call__(self, desk: Desk, form: Form) -> str:
        """Do it, if the form says all that is needed."""
        for missing in sorted(self.required - form.keys()):
            raise FieldMissing(f"The field '{missing}' is required.", field=missing)
        return self.do(desk, form)


def _approve(desk: Desk, form: Form) -> str:
    (asked,) = [row for row in desk.ask("list_requests").requests if row.request_id == form["id"]] or [None]
    answer = desk.ask("approve_request", id=form["id"], cap_tokens=form.get("cap_tokens"), uses=form.get("uses"))
    what = f"read {place(asked.ref).name}{place(asked.ref).lines}" if asked else "read it"
    return f"{answer.child_id} may {what}."


def _deny(desk: Desk, form: Form) -> str:
    desk.ask("deny_request", id=form["id"])
    return "The request is turned down."


def _pin(desk: Desk, form: Form) -> str:
    """Pin an engram there is, or put a constraint and pin it."""
    engram_id = form.get("id")
    if engram_id is None:
        said = desk.ask("put_engram", kind="constraint", claim=form.get("claim", ""), at=[form.get("where", "")])
        engram_id = said.id
    desk.ask("pin_engram", id=engram_id)
    return "Pinned: it stands first in every brief."


def _unpin(desk: Desk, form: Form) -> str:
    desk.ask("unpin_engram", id=form["id"])
    return "No longer pinned."


def _accept(desk: Desk, form: Form) -> str:
    accepted = desk.ask("accept_contribution", id=form["id"], pinned=form.get("pinned"))
    return f"Remembered as {accepted.memory_id}."


def _reject(desk: Desk, form: Form) -> str:
    desk.ask("reject_contribution", id=form["id"], reason=form["reason"])
    return "Turned down; its author can read why."


_ID = frozenset({"id"})

ACTIONS: dict[str, Action] = {
    "accept": Action(_accept, _ID | {"pinned"}, _ID),
    "approve": Action(_approve, _ID | {"cap_tokens", "uses"}, _ID),
    "deny": Action(_deny, _ID, _ID),
    "pin": Action(_pin, _ID | {"claim", "where"}),
    "reject": Action(_reject, _ID | {"reason"}, _ID | {"reason"}),
    "unpin": Action(_unpin, _ID, _ID),
}
