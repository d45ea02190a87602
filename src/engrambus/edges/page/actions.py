"""The forms of the page: each one calls an operation or two. Everything else on the page only reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from engrambus.edges.page.messages import send_message
from engrambus.edges.page.session import PageSession
from engrambus.edges.page.template_filters import pointer_label
from engrambus.errors import FieldMissing

Form = Mapping[str, str]


class Action(msgspec.Struct, frozen=True):
    """A form that a visitor can send."""

    run: Callable[[PageSession, Form], str]
    """Calls the operations and returns the text that tells the visitor what was done."""
    fields: frozenset[str]
    required: frozenset[str] = frozenset()

    def __call__(self, session: PageSession, form: Form) -> str:
        """Run the action; raise FieldMissing if the form lacks a required field."""
        for missing in sorted(self.required - form.keys()):
            raise FieldMissing(f"The field `{missing}` is required.", field=missing)
        return self.run(session, form)


def _approve(session: PageSession, form: Form) -> str:
    requests = {row.request_id: row for row in session.call("list_requests").requests}
    request = requests.get(form["id"])
    answer = session.call("approve_request", id=form["id"], cap_tokens=form.get("cap_tokens"), uses=form.get("uses"))
    if request is None:
        return f"Approved. {answer.child_id} can now read it."
    label = pointer_label(request.ref)
    return f"Approved. {answer.child_id} can now read {label.name}{label.lines}."


def _deny(session: PageSession, form: Form) -> str:
    session.call("deny_request", id=form["id"])
    return "The request is declined."


def _pin(session: PageSession, form: Form) -> str:
    """Pin an existing engram, or put a constraint and pin that."""
    engram_id = form.get("id")
    if engram_id is None:
        put = session.call("put_engram", kind="constraint", claim=form.get("claim", ""), at=[form.get("where", "")])
        engram_id = put.id
    session.call("pin_engram", id=engram_id)
    return "Pinned. It now comes first in every brief."


def _confirm(session: PageSession, form: Form) -> str:
    """Confirm an engram that was adopted from elsewhere."""
    confirmed = session.call("confirm_engram", id=form["id"])
    return "Trusted, and pinned to every brief." if confirmed.pinned else "Trusted from now on."


def _renew(session: PageSession, form: Form) -> str:
    """Confirm an engram whose lines have changed, with the lines that show it now."""
    session.call("confirm_engram", id=form["id"], at=[form["where"]])
    return "Confirmed. It is in the briefs again."


def _unpin(session: PageSession, form: Form) -> str:
    session.call("unpin_engram", id=form["id"])
    return "No longer pinned."


def _release(session: PageSession, form: Form) -> str:
    answer = session.call("release_reservations", paths=[form["id"]])
    return f"Released. {answer.released[0].agent} no longer has it." if answer.released else "It has ended already."


def _accept(session: PageSession, form: Form) -> str:
    accepted = session.call(
        "accept_contribution", id=form["id"], pinned=form.get("pinned"), atomize=form.get("atomize")
    )
    return f"Accepted. The team remembers it as {accepted.memory_id}."


def _reject(session: PageSession, form: Form) -> str:
    session.call("reject_contribution", id=form["id"], reason=form["reason"])
    return "Rejected. Its author can read your reason."


def _decide(session: PageSession, form: Form) -> str:
    row = session.call("decide_contradiction", id=form["id"], keep=form["keep"], reason=form["reason"])
    return "Both claims stay." if row.keep == "both" else f"Decided: the {row.keep} claim holds."


def _approve_promotion(session: PageSession, form: Form) -> str:
    row = session.call("approve_promotion", id=form["id"])
    return f"Approved. Every project with the scope {row.scope} sees it."


def _decline_promotion(session: PageSession, form: Form) -> str:
    session.call("decline_promotion", id=form["id"])
    return "Declined. The engram stays in this project."


_ID = frozenset({"id"})

ACTIONS: dict[str, Action] = {
    "accept": Action(_accept, _ID | {"pinned", "atomize"}, _ID),
    "approve": Action(_approve, _ID | {"cap_tokens", "uses"}, _ID),
    "approve-promotion": Action(_approve_promotion, _ID, _ID),
    "confirm": Action(_confirm, _ID, _ID),
    "decide": Action(_decide, _ID | {"keep", "reason"}, _ID | {"keep", "reason"}),
    "decline-promotion": Action(_decline_promotion, _ID, _ID),
    "deny": Action(_deny, _ID, _ID),
    "message": Action(send_message, frozenset({"to", "text"}), frozenset({"to", "text"})),
    "pin": Action(_pin, _ID | {"claim", "where"}),
    "renew": Action(_renew, _ID | {"where"}, _ID | {"where"}),
    "reject": Action(_reject, _ID | {"reason"}, _ID | {"reason"}),
    "release": Action(_release, _ID, _ID),
    "unpin": Action(_unpin, _ID, _ID),
}
