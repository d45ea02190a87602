"""Secrets are refused in every field and reach neither the journal nor the index."""  # SC-06

from __future__ import annotations

import base64
from functools import partial
from typing import Any
from unittest.mock import patch

from engrambus.gateway import LOCAL_ADMIN
from engrambus.testing.client import NOTE, catch_refusal, expect_refusal, format_message, same_changes
from engrambus.testing.conformance.messages import Team, draft
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

SECRET = "ghp_" + "a8Kd93mXq0Zr5TvB1nYw7LcE2sJfH6uPiG4o"


def _places(team: Team, secret: str) -> list[tuple[str, Any, dict[str, Any], str]]:
    """Return every way to write a text: the operation, the caller, the fields, and the field that a refusal names."""
    pointers = [{"type": "sam", "ref": NOTE}]
    sentence = f"It is {secret} here"
    child = {"role": "programmer", "task_status": "done"}
    wish = {"pointer": repo_ref("a.py"), "reason": sentence}
    return [
        ("put_engram", team.paul, {"claim": sentence, "pointers": pointers}, "claim"),
        ("put_engram", team.paul, {"claim": "Alpha.", "pointers": pointers, "tags": [secret]}, "tags[0]"),
        (
            "put_engram",
            team.paul,
            {"claim": "Alpha.", "pointers": [{"type": "sam", "ref": f"sam:note:{secret}@v1"}]},
            "pointers[0].ref",
        ),
        ("put_engrams", team.paul, {"engrams": [{"claim": sentence, "pointers": pointers}]}, "engrams[0].claim"),
        ("send_message", team.paul, {"text": format_message(**child, output=sentence)}, "OUTPUT.summary"),
        (
            "send_message",
            team.paul,
            {"text": format_message(**child, output="x", engrams=[draft(sentence)])},
            "ENGRAMS[0].claim",
        ),
        (
            "send_message",
            team.paul,
            {"text": format_message(**child, output="x", deref_requests=[wish])},
            "DEREF_REQUESTS[0].reason",
        ),
        (
            "send_message",
            team.paul,
            {"text": format_message(**child, output=sentence + " and on" * 999)},
            "OUTPUT.summary",
        ),
        ("send_message", team.paul, {"text": f"ROLE: programmer\nOUTPUT: {sentence}\nNEWS: {secret}"}, "text"),
        ("broadcast", team.mia, {"text": format_message(role="manager", instructions=[sentence])}, "INSTRUCTIONS[0]"),
        ("request_deref", team.paul, {"pointer": repo_ref("a.py"), "reason": sentence}, "reason"),
        (
            "request_deref",
            team.paul,
            {"pointer": repo_ref("a.py"), "reason": "x", "intended_use": sentence},
            "intended_use",
        ),
        (
            "issue_grant",
            team.mia,
            {"child_id": "paul", "pointer": repo_ref("a.py"), "intended_use": sentence},
            "intended_use",
        ),
        ("open_run", LOCAL_ADMIN, {"goal": sentence}, "goal"),
    ]


class SecretConformance:
    """A refusal names the field and does not repeat the secret."""

    def test_a_secret_is_refused_in_every_field_and_never_repeated(self, harness: Harness) -> None:  # SC-06
        team = Team(harness)
        journal = harness.journal_bytes()
        for secret in (SECRET, base64.b64encode(SECRET.encode()).decode()):
            for operation, caller, fields, field in _places(team, secret):
                refusal = catch_refusal(partial(team.client.call, operation, caller, **fields))
                assert (refusal.code, refusal.field) == ("SECRET_FOUND", field), operation
                problem = str(refusal.problem())
                assert secret not in problem
                assert SECRET not in problem
        assert same_changes(harness.journal_bytes(), journal)

    def test_a_secret_written_with_escapes_is_found(self, harness: Harness) -> None:  # SC-06
        team = Team(harness)
        journal = harness.journal_bytes()
        hidden = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
        text = '{"ROLE": "programmer", "TASK_STATUS": "done", "OUTPUT": {"summary": "' + hidden + '"}}'
        with expect_refusal("SECRET_FOUND", "OUTPUT.summary"):
            team.client.call("send_message", team.paul, text=text)
        assert same_changes(harness.journal_bytes(), journal)

    def test_validating_a_message_reports_a_secret(self, harness: Harness) -> None:  # SC-06
        team = Team(harness)
        text = format_message(role="programmer", task_status="done", output=f"It is {SECRET} here")
        verdict = team.client.call("validate_message", team.paul, text=text)
        assert (verdict.ok, verdict.problems[0]["code"]) == (False, "SECRET_FOUND")
        assert SECRET not in str(verdict.problems)

    def test_nothing_is_stored_when_the_secret_check_fails(self, harness: Harness) -> None:  # SC-06
        team = Team(harness)
        journal = harness.journal_bytes()
        with patch("engrambus.policy.secrets.check.find_secrets", side_effect=RuntimeError("out of order")):
            for operation, caller, fields, _ in _places(team, "nothing of worth"):
                code, problem = team.client.try_call(operation, caller, **fields)
                assert code == "SECRET_CHECK_FAILED", operation
                assert b"out of order" not in problem
        assert same_changes(harness.journal_bytes(), journal)
        team.client.put("Alpha holds.", team.paul)
