"""A limit is enforced, only warned about, or off: for every role, or for one.  # EB-06 EB-07"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus import Bus, LimitWarning
from engrambus.edges.mcp.calls import ToolCalls
from engrambus.errors import BY_CODE, BudgetExceeded, EngramBusError
from engrambus.gateway import to_request
from engrambus.gateway.limit_warnings import parse_warning_header, warning_header, warning_line
from engrambus.operations import OPERATIONS
from engrambus.testing import expect_refusal
from tests.cli.runner import Shell
from tests.http.running_server import run_server
from tests.limits.team import Team
from tests.projects import Repository

LONG = "It went on and said very little of use to its readers. " * 80
REPORT = f"ROLE: programmer\nTASK_STATUS: done\nOUTPUT:\n  summary: {LONG}\n"


def apply(team: Team, **policy: Any) -> None:
    team.client.call("apply_policy", policy=policy)


def warned(team: Team, operation: str, **fields: Any) -> list[EngramBusError]:
    """The warnings of a call of the programmer that succeeds."""
    found: list[EngramBusError] = []
    declared = OPERATIONS[operation]
    team.gateway.call(declared, to_request(fields, declared.request), team.paul, found.append)
    return found


def test_a_warned_limit_accepts_the_message_and_says_what_was_exceeded(team: Team) -> None:
    apply(team, limits={"message_tokens": "warn"})
    (warning,) = warned(team, "send_message", text=REPORT)
    assert (warning.code, warning.limit) == ("BUDGET_EXCEEDED", 800)
    assert int(str(warning.used)) > 800


def test_a_warning_leaves_nothing_of_the_refusal_behind(team: Team) -> None:
    apply(team, limits={"message_tokens": "warn"})
    warned(team, "send_message", text=REPORT)
    assert b"message.rejected" not in team.journal()
    (row,) = [row for row in team.client.call("stats").agents if row.agent_id == "paul"]
    assert (row.figures.messages, row.figures.rejections) == (1, 0)
    (mail,) = team.client.mail(team.mia)
    assert mail.kind == "message"


def test_a_limit_that_is_off_says_nothing(team: Team) -> None:
    apply(team, limits={"message_tokens": "off"})
    assert warned(team, "send_message", text=REPORT) == []


def test_a_mode_holds_for_the_roles_it_names(team: Team) -> None:
    apply(team, limits={"message_tokens": {"manager": "off"}})
    with expect_refusal("BUDGET_EXCEEDED"):
        team.send(REPORT)
    team.send(REPORT.replace("programmer", "manager"), team.mia)


def test_an_enforced_limit_beside_a_warned_one_refuses_for_itself_alone(team: Team) -> None:
    apply(team, limits={"message_tokens": "warn"}, inline={"max_engram_chars": 10})
    engram = {
        "kind": "fact",
        "claim": "The parser trusts its input.",
        "pointers": [{"type": "repo", "ref": team.lines()}],
    }
    with pytest.raises(BudgetExceeded) as refused:
        team.client.report(team.paul, LONG, engrams=[engram])
    assert [item["what"] for item in refused.value.exceeded] == ["engram_chars"]


def test_a_check_lists_warnings_beside_problems(team: Team) -> None:
    apply(team, limits={"message_tokens": "warn"})
    answer = team.client.call("validate_message", team.paul, text=REPORT)
    assert (answer.ok, answer.problems) == (True, [])
    assert [(warning["code"], warning["mode"]) for warning in answer.warnings] == [("BUDGET_EXCEEDED", "warn")]


def test_prose_answers_are_warned_about_too(team: Team) -> None:
    apply(team, limits={"message_tokens": "warn"})
    (warning,) = warned(team, "take_answer", text=LONG, handed_over=True)
    assert warning.code == "BUDGET_EXCEEDED"


class TestEdges:
    """Every edge hands the warnings of a call to its caller."""

    def test_http_answers_carry_a_header(self, team: Team) -> None:
        apply(team, limits={"message_tokens": "warn"})
        with run_server(team.gateway, team.repository) as server:
            answer = server.call("POST", "/message", {"text": REPORT}, token=team.paul.token)
        assert answer.status == 200, answer.body
        header = answer.headers["engrambus-warning"]
        assert header.startswith("BUDGET_EXCEEDED; limit=800; used=")

    def test_an_answer_without_a_warning_has_no_header(self, team: Team) -> None:
        with run_server(team.gateway, team.repository) as server:
            answer = server.call("POST", "/answer", {"text": "All is well."}, token=team.paul.token)
        assert answer.status == 200
        assert "engrambus-warning" not in answer.headers

    def test_a_tool_result_begins_with_the_warning(self, team: Team) -> None:
        apply(team, limits={"message_tokens": "warn"})
        result = ToolCalls(lambda: team.gateway).call_tool("less_message", {"text": REPORT}, team.paul)
        first, answer = [block["text"] for block in result["content"]]
        assert first.startswith("warning: BUDGET_EXCEEDED: ")
        assert " sent to mia; turn 2 is open" in answer
        # A client that gets structured content shows its model nothing else.
        assert "structuredContent" not in result

    @pytest.mark.parametrize("remote", [False, True], ids=["in process", "remote"])
    def test_the_sdk_gives_a_python_warning(self, team: Team, remote: bool) -> None:
        apply(team, limits={"message_tokens": "warn"})
        with run_server(team.gateway, team.repository) as server:
            url = f"http://127.0.0.1:{server.port}"
            bus = Bus.connect(url, token=team.paul.token) if remote else Bus(team.gateway, team.paul)
            with pytest.warns(LimitWarning) as caught:
                bus.send_message(REPORT)
            if remote:
                bus.close()
        (message,) = [item.message for item in caught]
        assert isinstance(message, LimitWarning)
        assert (message.error.code, message.error.limit) == ("BUDGET_EXCEEDED", 800)
        assert caught[0].filename == __file__  # the warning names the code that called, not the library

    def test_the_sdk_passes_warnings_to_a_function_instead(self, team: Team) -> None:
        apply(team, limits={"message_tokens": "warn"})
        found: list[EngramBusError] = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Bus(team.gateway, team.mia, on_warning=found.append).speak_as("paul").send_message(REPORT)
        assert [error.code for error in found] == ["BUDGET_EXCEEDED"]

    @pytest.mark.parametrize("as_json", [False, True])
    def test_the_command_line_prints_it_on_stderr(
        self, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
    ) -> None:
        shell = Shell(repository, tmp_path / "home", monkeypatch)
        shell.ok("init")
        shell.ok("agent", "add", "paul", "--role", "programmer")
        (repository.path / ".catalog" / "policy.yaml").write_text("limits: {message_tokens: warn}\n")
        shell.ok("policy", "apply")
        (repository.path / "report.yaml").write_text(REPORT)
        result = shell.ok("message", "report.yaml", "--as", "paul", *(["--json"] if as_json else []))
        if as_json:
            problem = json.loads(result.err)
            assert (problem["code"], problem["mode"], problem["limit"]) == ("BUDGET_EXCEEDED", "warn", 800)
            assert "message_id" in result.json
        else:
            assert result.err.startswith("warning: BUDGET_EXCEEDED: ")


@given(
    code=st.sampled_from(sorted(BY_CODE)),
    detail=st.text(max_size=400),
    field=st.none() | st.text(min_size=1, max_size=40),
    limit=st.none() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    used=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_header_is_one_ascii_line_that_reads_back(
    code: str, detail: str, field: str | None, limit: int | str | None, used: float | None
) -> None:
    warning = BY_CODE[code](detail or None, field=field, limit=limit, used=used)
    header = warning_header(warning)
    assert header.isascii()
    assert header.isprintable()
    read = parse_warning_header(header)
    assert read is not None
    assert (read.code, read.field, read.limit, read.used) == (code, field, limit, used)
    assert read.detail == warning.detail[:300]


@pytest.mark.parametrize("text", ["", "not a code", 'CODE; detail="\\u"', "\x00"])
def test_a_header_that_is_not_ours_is_ignored(text: str) -> None:
    assert parse_warning_header(text) is None


def test_a_warning_is_one_line_whatever_it_quotes() -> None:
    assert "\n" not in warning_line(BudgetExceeded("a\nwarning: b\r\nc"))
