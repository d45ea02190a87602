"""Messages over HTTP: as YAML, as a JSON object, or as the text field of one."""  # EB-06, EB-16

from __future__ import annotations

import json
from typing import Any

import pytest

from engrambus.core import estimate_tokens
from tests.http.running_server import RunningServer

YAML = {"Content-Type": "application/yaml"}
REPORT = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT:\n  summary: {}\n"
LONG = "It went on and on and said very little. " * 100


@pytest.fixture(scope="module")
def child(bus: RunningServer) -> str:
    """The token of a programmer below a manager."""
    bus.add("mia", "manager")
    return bus.add("paul", "programmer", parent="mia")


def _encodings(sections: dict[str, Any]) -> list[tuple[bytes, dict[str, str]]]:
    plain = json.dumps(sections).encode()
    text = json.dumps({"text": plain.decode()}).encode()
    return [(plain, YAML), (plain, {"Content-Type": "text/yaml; charset=utf-8"}), (plain, {}), (text, {})]


def test_a_report_is_accepted_in_every_encoding(bus: RunningServer, child: str) -> None:
    for body, headers in [
        (REPORT.format("All is well.").encode(), YAML),
        *_encodings({"ROLE": "programmer", "TASK_STATUS": "done", "OUTPUT": {"summary": "All is well."}}),
    ]:
        answer = bus.call("POST", "/message", body, token=child, headers=headers)
        assert (answer.status, answer.json["to"]) == (200, "mia"), answer.body


def test_a_broadcast_is_accepted_in_every_encoding(bus: RunningServer, child: str) -> None:
    for body, headers in _encodings({"ROLE": "manager", "INSTRUCTIONS": ["Go on."]}):
        answer = bus.call("POST", "/broadcast?as=mia", body, headers=headers)
        assert (answer.status, answer.json["to"]) == (200, ["paul"]), answer.body
    as_field = {"text": json.dumps({"ROLE": "manager", "INSTRUCTIONS": ["Go on."]}), "to": ["paul"]}
    assert bus.call("POST", "/broadcast?as=mia", as_field).json["to"] == ["paul"]
    assert bus.call("POST", "/broadcast?as=paul", as_field).code == "ROLE_FORBIDDEN"
    kinds = [mail["kind"] for mail in bus.call("GET", "/inbox", token=child).json["mail"]]
    assert kinds == ["broadcast"] * 5


def test_fields_beside_a_text_body_are_parameters(bus: RunningServer, child: str) -> None:  # EB-16, EB-34
    body = b'ROLE: manager\nINSTRUCTIONS: ["Go on."]\n'
    answer = bus.call("POST", "/broadcast?as=mia&to=programmer", body, headers=YAML)
    assert (answer.status, answer.json["to"]) == (200, ["paul"]), answer.body
    note = bus.call("POST", "/message?to=mia", b"I begin with the tests.", token=child, headers=YAML)
    assert (note.status, note.json["to"]) == (200, "mia"), note.body
    as_fields = {"text": "I begin with the tests.", "to": "mia"}
    assert bus.call("POST", "/message", as_fields, token=child).status == 200
    with bus.nothing_stored():
        twice = bus.call("POST", "/message?to=mia", as_fields, token=child)
        assert (twice.code, twice.json["field"]) == ("FIELD_UNKNOWN", "to")
        token = bus.call("POST", "/message?budget_token=g_1", b"Hello.", token=child, headers=YAML)
        assert (token.code, token.json["field"]) == ("FIELD_UNKNOWN", "budget_token"), "addresses are logged"


def test_an_inbox_lists_what_is_unseen_once(bus: RunningServer) -> None:  # EB-32
    bus.add("nora", "manager")
    token = bus.add("nils", "programmer", parent="nora")
    bus.call("POST", "/message", REPORT.format("All is well.").encode(), token=token, headers=YAML)
    lines = bus.call("GET", "/inbox?unseen=true&short=true&max_tokens=300&as=nora").json
    assert [line.partition(" ")[2] for line in lines["lines"]] == ["message from nils, just now, done: All is well."]
    assert "waiting" not in lines
    assert bus.call("GET", "/inbox?unseen=true&as=nora").json["mail"] == []
    (mail,) = bus.call("GET", "/inbox?as=nora").json["mail"]
    assert bus.call("GET", f"/inbox/{mail['item']}?as=nora").json == mail
    assert bus.call("GET", f"/inbox/{mail['item']}?as=nils").status == 404


def test_a_message_that_contains_the_word_text_is_not_read_as_a_request(bus: RunningServer, child: str) -> None:
    engram = {
        "kind": "fact",
        "claim": "The parser reads text.",
        "tags": ["text"],
        "pointers": [{"type": "repo", "ref": f"repo:src/parser.py#L1-L2@{bus.repository.sha}"}],
    }
    body = {"ROLE": "programmer", "TASK_STATUS": "done", "OUTPUT": {"summary": "Done."}, "ENGRAMS": [engram]}
    answer = bus.call("POST", "/message", body, token=child)
    assert answer.status == 200, answer.body
    assert len(answer.json["engrams"]) == 1


def test_a_body_of_another_type_or_an_invalid_one_is_refused(bus: RunningServer, child: str) -> None:
    with bus.nothing_stored():
        for media_type in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"):
            headers = {"Content-Type": media_type}
            answer = bus.call("POST", "/message", REPORT.format("x").encode(), token=child, headers=headers)
            assert (answer.status, answer.code) == (415, "CONTENT_TYPE"), media_type
        assert bus.call("POST", "/message", b"ROLE: x", token=child).code == "BAD_JSON"
        assert bus.call("POST", "/message", b'{"ROLE":"a","ROLE":"b"}', token=child).code == "DUPLICATE_KEY"
        assert bus.call("POST", "/message", b"\xff", token=child, headers=YAML).code == "BAD_TEXT"
        assert bus.call("POST", "/message", b"[1]", token=child).code == "FIELD_TYPE"
        assert bus.call("POST", "/message", None, token=child).code == "FIELD_MISSING"
        assert bus.call("POST", "/message", b"x" * 70_000, token=child, headers=YAML).code == "BODY_TOO_LARGE"


def test_a_message_over_its_budget_is_refused_with_one_to_send_instead(bus: RunningServer, child: str) -> None:
    engram = "- kind: risk\n  claim: The parser trusts its input.\n"
    engram += f"  pointers: ['repo:src/parser.py@{bus.repository.sha}']\n"
    body = REPORT.format(LONG) + "ENGRAMS:\n" + engram
    answer = bus.call("POST", "/message", body.encode(), token=child, headers=YAML)
    assert (answer.status, answer.code) == (413, "BUDGET_EXCEEDED")
    (exceeded,) = answer.json["exceeded"]
    assert (exceeded["what"], exceeded["limit"]) == ("inline_tokens", 800)
    assert exceeded["used"] == estimate_tokens(body)
    filled = answer.json["resend"].replace("...", "The input is trusted.")
    assert "The parser trusts its input." in filled
    second = bus.call("POST", "/message", filled.encode(), token=child, headers=YAML)
    assert second.status == 200, second.body
    assert second.json["resends"].encode() in bus.journal()
    assert len(second.json["engrams"]) == 1


def test_validating_accepts_every_encoding_and_stores_nothing(bus: RunningServer, child: str) -> None:
    with bus.nothing_stored():
        for body, headers in _encodings({"ROLE": "programmer", "TASK_STATUS": "done", "OUTPUT": LONG}):
            verdict = bus.call("POST", "/message/validate", body, token=child, headers=headers).json
            assert (verdict["ok"], verdict["problems"][0]["code"]) == (False, "BUDGET_EXCEEDED")


def test_a_request_is_granted_read_and_revoked(bus: RunningServer, child: str) -> None:  # EB-10, EB-11
    ref = f"repo:src/parser.py#L1-L2@{bus.repository.sha}"
    for _ in range(3):
        assert bus.call("POST", "/pointer/deref", {"pointer": ref}, token=child).status == 200
    denied = bus.call("POST", "/pointer/deref", {"pointer": ref}, token=child)
    assert (denied.status, denied.code) == (403, "DEREF_DENIED")
    request = bus.call("POST", "/pointer/request", {"pointer": ref, "reason": "To see."}, token=child).json
    waiting = bus.call("GET", "/pointer/request?as=mia").json["requests"]
    assert [row["request_id"] for row in waiting] == [request["request_id"]]
    grant = bus.call("POST", f"/pointer/request/{request['request_id']}/approve?as=mia", {"uses": 2}).json
    assert bus.call("POST", "/pointer/deref", {"pointer": ref}, token=child).status == 200
    with_grant = {"pointer": ref, "budget_token": grant["budget_token"]}
    assert bus.call("POST", "/pointer/deref", with_grant, token=child).status == 200
    spent = bus.call("POST", "/pointer/deref", with_grant, token=child)
    assert (spent.status, spent.code) == (403, "GRANT_SPENT")
    assert bus.call("DELETE", f"/grant/{grant['grant_id']}?as=mia").json["revoked"] is True
    assert bus.call("POST", "/pointer/deref", with_grant, token=child).code == "GRANT_REVOKED"
    assert len(grant["budget_token"]) <= 40
