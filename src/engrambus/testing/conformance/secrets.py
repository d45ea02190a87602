"""A secret reaches neither journal nor index, whatever field it stands in."""  # SC-06

from __future__ import annotations

import base64
from functools import partial
from typing import Any
from unittest.mock import patch

from engrambus.gateway import LOCAL_ADMIN
from engrambus.testing.client import NOTE, catch_refusal, expect_refusal, format_message
from engrambus.testing.conformance.messages import Team, draft
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

SECRET = "ghp_" + "a8Kd93mXq0Zr5TvB1nYw7LcE2sJfH6uPiG4o"


def _places(team: Team, secret: str) -> list[tuple[str, Any, dict[str, Any], str]]:
    """Every way to write: the operation, who, what, and the field that is to be named."""
    pointers = [{"type": "sam", "ref": NOTE}]
    said = f"It is {secret} here"
    child = {"role": "programmer", "task_status": "done"}
    wish = {"pointer": repo_ref("a.py"), "reason": said}
    return [
        ("put_engram", team.paul, {"claim": said, "pointers": pointers}, "claim"),
        ("put_engram", team.paul, {"claim": "Alpha.", "pointers": pointers, "tags": [secret]}, "tags[0]"),
        (
            "put_engram",
            team.paul,
            {"claim": "Alpha.", "pointers": [{"type": "sam", "ref": f"sam:note:{secret}@v1"}]},
            "pointers[0].ref",
        ),
        ("put_engrams", team.paul, {"engrams": [{"claim": said, "pointers": pointers}]}, "engrams[0].claim"),
        ("send_message", team.paul, {"text": format_message(**child, output=said)}, "OUTPUT.summary"),
        (
            "send_message",
            team.paul,
            {"text": format_message(**child, output="x", engrams=[draft(said)])},
            "ENGRAMS[0].claim",
        ),
        (
            "send_message",
            team.paul,
            {"text": format_message(**child, output="x", deref_requests=[wish])},
            "DEREF_REQUESTS[0].reason",
        ),
        ("send_message", team.paul, {"text": format_message(**child, output=said + " and on" * 999)}, "OUTPUT.summary"),
        ("send_message", team.paul, {"text": f"ROLE: programmer\nOUTPUT: {said}\nNEWS: {secret}"}, "text"),
        ("broadcast", team.mia, {"text": format_message(role="manager", instructions=[said])}, "INSTRUCTIONS[0]"),
        ("request_deref", team.paul, {"pointer": repo_ref("a.py"), "reason": said}, "reason"),
        (
            "request_deref",
            team.paul,
            {"pointer": repo_ref("a.py"), "reason": "x", "intended_use": said},
            "intended_use",
        ),
        (
            "issue_grant",
            team.mia,
            {"child_id": "paul", "pointer": repo_ref("a.py"), "intended_use": said},
            "intended_use",
        ),
        ("open_run", LOCAL_ADMIN, {"goal": said}, "goal"),
    ]


class SecretConformance:
    """Refused by name, and never repeated."""

    def test_a_secret_is_refused_in_every_field_and_never_repeated(self, harness: Harness) -> None:
        team = Team(harness)
        before = harness.journal_bytes()
        for secret in (SECRET, base64.b64encode(SECRET.encode()).decode()):
            for operation, who, fields, field in _places(team, secret):
                refusal = catch_refusal(partial(team.hand.call, operation, who, **fields))
                assert (refusal.code, refusal.field) == ("SECRET_FOUND", field), operation
                shown = str(refusal.problem())
                assert secret not in shown
                assert SECRET not in shown
        assert harness.journal_bytes() == before

    def test_a_secret_spelt_with_escapes_is_found_once_the_message_is_read(self, harness: Harness) -> None:
        team = Team(harness)
        before = harness.journal_bytes()
        hidden = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
        text = '{"ROLE": "programmer", "TASK_STATUS": "done", "OUTPUT": {"summary": "' + hidden + '"}}'
        with expect_refusal("SECRET_FOUND", "OUTPUT.summary"):
            team.hand.call("send_message", team.paul, text=text)
        assert harness.journal_bytes() == before

    def test_judging_a_message_tells_of_the_secret_in_it(self, harness: Harness) -> None:
        team = Team(harness)
        text = format_message(role="programmer", task_status="done", output=f"It is {SECRET} here")
        verdict = team.hand.call("validate_message", team.paul, text=text)
        assert (verdict.ok, verdict.problems[0]["code"]) == (False, "SECRET_FOUND")
        assert SECRET not in str(verdict.problems)

    def test_nothing_is_stored_when_secrets_cannot_be_looked_for(self, harness: Harness) -> None:
        team = Team(harness)
        before = harness.journal_bytes()
        with patch("engrambus.policy.secrets.check.find_secrets", side_effect=RuntimeError("out of order")):
            for operation, who, fields, _ in _places(team, "nothing of worth"):
                said, shown = team.hand.try_call(operation, who, **fields)
                assert said == "SECRET_CHECK_FAILED", operation
                assert b"out of order" not in shown
        assert harness.journal_bytes() == before
        team.hand.put("Alpha holds.", team.paul)
