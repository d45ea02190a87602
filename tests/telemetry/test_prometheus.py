"""`GET /metrics`, parsed by Prometheus's own client library."""  # EB-26

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from tests.http.running_server import Answer, RunningServer, run_new_project

CLAIM = "A singular claim."


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[RunningServer]:
    """Run a server with a new project for each test, because the figures cover the whole project."""
    with run_new_project(tmp_path) as bus:
        yield bus


def samples(answer: Answer) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample by its name and labels."""
    assert answer.status == 200, answer.body
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in read_text(answer.body.decode())
        for sample in family.samples
    }


def report(bus: RunningServer, *claims: str, summary: str = "Done.") -> str:
    """Return a programmer's message."""
    refs = ", ".join(f'"repo:{path}#L1-L1@{bus.repository.sha}"' for path in ("src/parser.py", "docs/design.md"))
    engrams = "".join(f'\n  - kind: risk\n    claim: "{claim}"\n    pointers: [{refs}]' for claim in claims)
    return f"ROLE: programmer\nTASK_STATUS: done\nENGRAMS:{engrams or ' []'}\nOUTPUT: '{summary}'\n"


def test_the_five_published_metrics_are_reported_by_role(bus: RunningServer) -> None:
    token = bus.add("paul")
    read = bus.call("POST", "/pointer/deref", {"pointer": f"repo:src/parser.py@{bus.repository.sha}"}, token=token)
    assert read.status == 200, read.body
    yaml = {"Content-Type": "application/yaml"}
    too_long = report(bus, CLAIM, summary="word " * 2000)
    assert bus.call("POST", "/message", too_long.encode(), token=token, headers=yaml).status == 413
    assert bus.call("POST", "/message", report(bus, CLAIM).encode(), token=token, headers=yaml).status == 200
    answer = bus.call("GET", "/metrics")
    by_name, role = samples(answer), (("role", "programmer"),)
    stats = bus.call("GET", "/stats?over=project").json
    (figures,) = [row["figures"] for row in stats["roles"] if row["role"] == "programmer"]
    for name in ("inline_tokens_per_turn", "derefs_per_turn", "contradiction_rate", "resend_rate", "tokens_not_copied"):
        assert by_name[f"engrambus_{name}", role] == figures[name]
    assert by_name["engrambus_contradiction_rate", role] == by_name["engrambus_resend_rate", role] == 1.0
    assert by_name["engrambus_engrams_total", (("kind", "risk"), *role)] == 1
    assert by_name["engrambus_rejections_total", role] == by_name["engrambus_turns_total", role] == 1
    assert by_name["engrambus_engrams_held", (("kind", "risk"),)] == 1
    assert CLAIM.encode() not in answer.body
    assert b"src/parser" not in answer.body


def test_denials_are_reported_by_code_and_strangers_are_counted(bus: RunningServer) -> None:  # EB-26
    token = bus.add("paul")
    assert bus.call("POST", "/agent", {"name": "boss", "role": "architect"}, token=token).status == 403
    assert bus.call("GET", "/engram/query?q=x", token="nothing").status == 401
    by_name, role = samples(bus.call("GET", "/metrics")), (("role", "programmer"),)
    assert by_name["engrambus_denials_total", role] == 1
    assert by_name["engrambus_denials_by_code_total", (("code", "ROLE_FORBIDDEN"), *role)] == 1
    assert by_name["engrambus_unidentified_denials_total", (("code", "TOKEN_INVALID"),)] == 1


def test_durations_are_reported_by_operation_and_code(bus: RunningServer) -> None:
    bus.put()
    bus.put("")
    bus.put(at=["src/nowhere.py:1-2"])
    bus.call("GET", "/engram/01K7Z3V5QX0000000000000000")
    by_name = samples(bus.call("GET", "/metrics"))
    count = {
        (dict(labels)["operation"], dict(labels)["code"]): value
        for (name, labels), value in by_name.items()
        if name == "engrambus_operation_duration_seconds_count"
    }
    assert count[("put_engram", "ok")] == 1
    assert count[("get_engram", "ENGRAM_NOT_FOUND")] == 1
    assert {code for (operation, code) in count if operation == "put_engram"} - {"ok"}, (
        "refused calls have durations too"
    )
    total = by_name["engrambus_operation_duration_seconds_sum", (("code", "ok"), ("operation", "put_engram"))]
    assert 0 < total < 10


def test_a_token_with_access_to_the_whole_project_is_required(bus: RunningServer) -> None:
    assert bus.call("GET", "/metrics", token=None).code == "TOKEN_MISSING"
    assert bus.call("GET", "/metrics", token="nonsense").code == "TOKEN_INVALID"
    lead = bus.add("lead", "architect")
    assert bus.call("GET", "/metrics", token=lead).code == "ROLE_FORBIDDEN"
    agents_tool = bus.add("probe", "tool", parent="lead")
    assert bus.call("GET", "/metrics", token=agents_tool).code == "ROLE_FORBIDDEN"
    admins_tool = bus.add("prometheus", "tool")
    assert bus.call("GET", "/metrics", token=admins_tool).status == 200
    assert bus.call("GET", "/metrics?x=1").status == 422
    assert bus.call("POST", "/metrics").status == 405


def test_a_tools_token_is_valid_in_later_runs_until_its_own_ends(bus: RunningServer) -> None:
    token = bus.add("prometheus", "tool")
    run = bus.run
    bus.call("POST", "/run", {"goal": "another"})
    assert bus.call("GET", "/metrics", token=token).status == 200
    bus.call("POST", f"/run/{run}/end")
    assert bus.call("GET", "/metrics", token=token).code == "RUN_ENDED"


def test_openmetrics_is_returned_if_accepted(bus: RunningServer) -> None:
    answer = bus.call("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert {family.name for family in read_openmetrics(answer.body.decode())} > {"engrambus_turns"}  # type: ignore[no-untyped-call]


def test_nothing_is_added_to_the_processs_global_registry(bus: RunningServer) -> None:
    bus.call("GET", "/metrics")
    assert not [name for name in REGISTRY._names_to_collectors if name.startswith("engrambus")]
