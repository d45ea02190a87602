"""`GET /metrics`, read by Prometheus's own parser."""  # EB-26

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from tests.http.served import Answer, Served, served_project

SECRETIVE = "A singular claim nobody else makes."


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Served]:
    """A project of its own for each test: the figures are the whole project's."""
    with served_project(tmp_path) as bus:
        yield bus


def samples(answer: Answer) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, by its name and labels."""
    assert answer.status == 200, answer.body
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in read_text(answer.body.decode())
        for sample in family.samples
    }


def report(*claims: str, summary: str = "Done.") -> str:
    """A programmer's message."""
    engrams = "".join(
        f'\n  - kind: risk\n    claim: "{claim}"\n    pointers: ["sam:note:a@v1", "sam:note:b@v1"]' for claim in claims
    )
    return f"ROLE: programmer\nTASK_STATUS: done\nENGRAMS:{engrams or ' []'}\nOUTPUT: '{summary}'\n"


def test_the_five_published_metrics_stand_there_by_role(bus: Served) -> None:
    token = bus.add("paul")
    read = bus.call("POST", "/pointer/deref", {"pointer": f"repo:src/parser.py@{bus.repository.sha}"}, token=token)
    assert read.status == 200, read.body
    yaml = {"Content-Type": "application/yaml"}
    too_long = report(SECRETIVE, summary="word " * 2000)
    assert bus.call("POST", "/message", too_long.encode(), token=token, headers=yaml).status == 413
    assert bus.call("POST", "/message", report(SECRETIVE).encode(), token=token, headers=yaml).status == 200
    told = bus.call("GET", "/metrics")
    found, role = samples(told), (("role", "programmer"),)
    stats = bus.call("GET", "/stats?over=project").json
    (figures,) = [row["figures"] for row in stats["roles"] if row["role"] == "programmer"]
    for name in ("inline_tokens_per_turn", "derefs_per_turn", "contradiction_rate", "resend_rate", "tokens_not_copied"):
        assert found[f"engrambus_{name}", role] == figures[name]
    assert found["engrambus_contradiction_rate", role] == found["engrambus_resend_rate", role] == 1.0
    assert found["engrambus_engrams_total", (("kind", "risk"), *role)] == 1
    assert found["engrambus_rejections_total", role] == found["engrambus_turns_total", role] == 1
    assert found["engrambus_engrams_held", (("kind", "risk"),)] == 1
    assert SECRETIVE.encode() not in told.body
    assert b"sam:note" not in told.body


def test_calls_are_timed_by_operation_and_the_code_they_ended_with(bus: Served) -> None:
    bus.put()
    bus.put("")
    bus.put(at=["src/nowhere.py:1-2"])
    bus.call("GET", "/engram/01K7Z3V5QX0000000000000000")
    found = samples(bus.call("GET", "/metrics"))
    count = {
        (dict(labels)["operation"], dict(labels)["code"]): value
        for (name, labels), value in found.items()
        if name == "engrambus_operation_duration_seconds_count"
    }
    assert count[("put_engram", "ok")] == 1
    assert count[("get_engram", "ENGRAM_NOT_FOUND")] == 1
    assert {code for (operation, code) in count if operation == "put_engram"} - {"ok"}, "refusals are timed too"
    total = found["engrambus_operation_duration_seconds_sum", (("code", "ok"), ("operation", "put_engram"))]
    assert 0 < total < 10


def test_it_needs_a_token_of_somebody_who_may_see_the_whole_project(bus: Served) -> None:
    assert bus.call("GET", "/metrics", token=None).code == "TOKEN_MISSING"
    assert bus.call("GET", "/metrics", token="nonsense").code == "TOKEN_INVALID"
    lead = bus.add("lead", "architect")
    assert bus.call("GET", "/metrics", token=lead).code == "ROLE_FORBIDDEN"
    theirs = bus.add("probe", "tool", parent="lead")
    assert bus.call("GET", "/metrics", token=theirs).code == "ROLE_FORBIDDEN"
    ours = bus.add("prometheus", "tool")
    assert bus.call("GET", "/metrics", token=ours).status == 200
    assert bus.call("GET", "/metrics?x=1").status == 422
    assert bus.call("POST", "/metrics").status == 405


def test_a_tools_token_goes_on_through_later_runs(bus: Served) -> None:
    token = bus.add("prometheus", "tool")
    run = bus.run
    bus.call("POST", "/run", {"goal": "another"})
    bus.call("POST", f"/run/{run}/end")
    assert bus.call("GET", "/metrics", token=token).status == 200


def test_openmetrics_is_spoken_when_asked_for(bus: Served) -> None:
    answer = bus.call("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert {family.name for family in read_openmetrics(answer.body.decode())} > {"engrambus_turns"}  # type: ignore[no-untyped-call]


def test_nothing_stands_in_the_registry_of_the_whole_process(bus: Served) -> None:
    bus.call("GET", "/metrics")
    assert not [name for name in REGISTRY._names_to_collectors if name.startswith("engrambus")]
