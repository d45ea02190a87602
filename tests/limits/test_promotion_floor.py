"""A put below the promotion floor is stored at run, and every interface says so beside the answer."""  # EB-20

from __future__ import annotations

from typing import Any

import pytest

from engrambus import Bus, LimitWarning
from engrambus.edges.mcp.calls import ToolCalls
from tests.http.running_server import run_server
from tests.limits.team import Team


@pytest.fixture
def unsure(team: Team) -> dict[str, Any]:
    return {"claim": "The parser may trust its input.", "at": ["src/parser.py:1-2"], "confidence": 0.2}


def test_http_answers_with_the_engram_and_a_header(team: Team, unsure: dict[str, Any]) -> None:
    with run_server(team.gateway, team.repository) as server:
        answer = server.call("POST", "/engram", {**unsure, "scope": "project"}, token=team.paul.token)
    assert answer.status == 200
    assert (answer.json["scope"], answer.json["confidence"]) == ("run", 0.2)
    header = answer.headers["engrambus-warning"]
    assert header.startswith('SCOPE_LOWERED; limit=0.5; used=0.2; field="confidence"')
    assert "stored at 'run'" in header


def test_a_tool_result_says_it_before_the_answer(team: Team, unsure: dict[str, Any]) -> None:
    result = ToolCalls(lambda: team.gateway).call_tool("less_put_engram", unsure, team.paul)
    text = "\n".join(block["text"] for block in result["content"])
    assert "SCOPE_LOWERED: " in text
    assert "stored at 'run'" in text
    assert "only warns" not in text


def test_the_sdk_warns_in_python(team: Team, unsure: dict[str, Any]) -> None:
    with pytest.warns(LimitWarning, match="SCOPE_LOWERED") as caught:
        engram = Bus(team.gateway, team.paul).put_engram(**unsure)
    assert engram.scope == "run"
    (message,) = [item.message for item in caught]
    assert isinstance(message, LimitWarning)
    assert (message.error.limit, message.error.used) == (0.5, 0.2)
