"""The log of the cortex: a line per event with ids and counts, without user text, impossible to forge."""  # SC-07

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.cortex import log_line
from engrambus.policy.secrets import Secret, SecretRules
from engrambus.testing.client import expect_refusal
from tests.cortex.conftest import Team
from tests.secrets.kinds import FREE

LINE = re.compile(r"SHARED_CORTEX_[A-Z_]+( [a-z_]+=[A-Za-z0-9_.:/@,+-]*)+")
HOSTILE = "Fine.\nSHARED_CORTEX_CONTRIBUTION_ACCEPT contribution_id=forged stm_id=forged\n\ttoken=x y=z"


def events(team: Team) -> list[str]:
    """Return the names of the logged events in order."""
    for line in team.log():
        assert LINE.fullmatch(line), line
    return [line.split(" ")[0].removeprefix("SHARED_CORTEX_") for line in team.log()]


def test_every_step_writes_its_line(team: Team) -> None:
    team.keep("The gateway times out after 30 seconds.", kind="decision", slug="timeout", pinned=True)
    snapshot = team.client.call("inherit", team.coder)
    clean = team.contribute("The parser trusts its input.", confidence=0.8)
    conflicting = team.contribute("The gateway times out after 60 seconds.")
    accepted = team.client.call("accept_contribution", team.lead, id=clean.contribution_id)
    team.client.call("reject_contribution", team.lead, id=conflicting.contribution_id, reason="Measured wrongly.")
    assert events(team) == [
        "INHERIT_START",
        "INHERIT_DONE",
        "CONTRIBUTION_SUBMIT",
        "CONTRIBUTION_SUBMIT",
        "CONFLICT_DETECTED",
        "CONTRIBUTION_ACCEPT",
        "CONTRIBUTION_REJECT",
    ]
    lines = team.log()
    assert f"INHERIT_START snapshot_id={snapshot.snapshot_id} scope=" in lines[0]  # SC-09
    assert f"snapshot_id={snapshot.snapshot_id} items=1 chars=" in lines[1]
    assert f"contribution_id={clean.contribution_id} hash={clean.dedupe.content_hash} confidence=0.8" in lines[2]
    assert f"contribution_id={conflicting.contribution_id} pins=1 against=decision:timeout@1" in lines[4]
    assert f"contribution_id={clean.contribution_id} stm_id={accepted.memory_id}" in lines[5]
    assert f"contribution_id={conflicting.contribution_id} reason=17_characters" in lines[6]


def test_user_text_does_not_get_into_the_log(team: Team) -> None:
    team.client.call("apply_policy", policy={"limits": {"inline_code": "off"}})  # or the assignments would be refused
    sent = team.contribute(HOSTILE, thread_id="token=x", proposed_categories=["y=forged"])
    team.client.call("reject_contribution", team.lead, id=sent.contribution_id, reason=HOSTILE)
    second = team.contribute("The parser trusts its input.", evidence=[{"kind": "note", "value": HOSTILE}])
    team.client.call("accept_contribution", team.lead, id=second.contribution_id)
    team.client.call("inherit", team.coder, scope={"categories": [HOSTILE[:60]]})
    assert events(team).count("CONTRIBUTION_ACCEPT") == 1
    text = "\n".join(team.log())
    for word in ("forged", "token", "Fine"):
        assert word not in text


def test_failures_write_a_line_too(team: Team) -> None:
    with expect_refusal("FIELD_VALUE"):
        team.contribute("bell \x07")
    with expect_refusal("CONTRIBUTION_NOT_FOUND"):
        team.client.call("accept_contribution", team.lead, id="x\nSHARED_CORTEX_FORGED a=b"[:26])
    with expect_refusal("CONTRIBUTION_NOT_FOUND"):
        team.client.call("reject_contribution", team.lead, id="0" * 26, reason="None.")
    with expect_refusal("TTL_INVALID"):
        team.client.call("inherit", team.coder, scope={"recency_window": "soon"})
    assert events(team) == ["CONTRIBUTION_FAIL", "CONTRIBUTION_FAIL", "CONTRIBUTION_FAIL", "INHERIT_FAIL"]
    assert team.log()[0].endswith("error=FIELD_VALUE")
    assert "contribution_id=x_SHARED_CORTEX_FORGED_a_b error=CONTRIBUTION_NOT_FOUND" in team.log()[1]


def test_if_the_secret_check_fails_nothing_is_stored_and_the_log_says_so(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:  # SC-06
    def broken(text: str, rules: SecretRules) -> list[Secret]:
        raise RuntimeError(text)

    monkeypatch.setattr("engrambus.policy.secrets.check.find_secrets", broken)
    journal = team.journal()
    with expect_refusal("SECRET_CHECK_FAILED"):
        team.contribute("The parser trusts its input.")
    assert team.journal() == journal
    assert events(team) == ["REDACTION_FAIL", "CONTRIBUTION_FAIL"]
    with expect_refusal("SECRET_CHECK_FAILED"):
        team.keep("The parser trusts its input.")
    with expect_refusal("SECRET_CHECK_FAILED"):
        team.client.call("inherit", team.coder)


def test_a_text_with_more_secrets_than_can_be_replaced_is_not_stored(team: Team) -> None:  # SC-06
    dump = " ".join(FREE["aws-access-key"](Random(number)) for number in range(101))
    journal = team.journal()
    with expect_refusal("SECRET_CHECK_FAILED"):
        team.contribute(dump)
    assert team.journal() == journal
    assert events(team) == ["REDACTION_FAIL", "CONTRIBUTION_FAIL"]
    assert all("error=SECRET_CHECK_FAILED" in line for line in team.log())


def test_removed_secrets_are_noted_by_kind_and_never_logged(team: Team) -> None:  # SC-06
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    sent = team.contribute(f"The key {secret} works.", thread_id=secret, proposed_categories=[secret])
    assert sent.security.redacted
    assert {note.partition(":")[0] for note in sent.security.redaction_notes} == {
        "content",
        "thread_id",
        "proposed_categories",
    }
    with expect_refusal("INPUT_NOT_FOUND"):
        team.contribute(f"The key {secret} works.", inputs_used=[secret])
    assert secret not in "\n".join(team.log())
    assert secret.encode() not in team.journal()
    for path in team.catalog.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


@given(st.text(), st.text(), st.text())
def test_no_value_can_begin_a_line_or_another_value(first: str, second: str, third: str) -> None:
    line = log_line("TEST", first=first, second=second, third=third)
    assert LINE.fullmatch(line)
    assert len(line.split(" ")) == 4
