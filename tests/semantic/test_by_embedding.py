"""`GET /engram/query_by_embedding`: what is similar to an engram, among what the caller may see."""  # EB-15

from __future__ import annotations

import sys

import pytest

from engrambus.errors import EngramBusError
from engrambus.gateway import LOCAL_ADMIN, to_request
from engrambus.knowledge.engrams import semantic_recall
from engrambus.operations import OPERATIONS
from tests.http.running_server import run_server
from tests.semantic.conftest import CLAIMS, MakeProject, SemanticProject

TOKENS, REFUNDS, PARSER, BACKUPS, INVOICES = CLAIMS
PASSWORDS = "Passwords are hashed with a salt."


def test_the_most_similar_engrams_come_first(project: SemanticProject) -> None:
    (passwords,) = project.put(PASSWORDS)
    answer = project.similar(passwords)
    assert answer[0] == TOKENS
    assert sorted(answer) == sorted(CLAIMS)  # without the engram itself
    assert project.similar(passwords, k=2) == answer[:2]
    assert project.similar(passwords) == answer


def test_a_short_id_is_enough(project: SemanticProject) -> None:
    (passwords,) = project.put(PASSWORDS)
    assert project.similar(passwords[:16], k=1) == [TOKENS]


def test_over_http(project: SemanticProject) -> None:
    (passwords,) = project.put(PASSWORDS)
    with run_server(project.gateway, project.repository) as bus:
        answer = bus.call("GET", f"/engram/query_by_embedding?embedding_ref=emb:{passwords}&k=1")
        assert (answer.status, [engram["claim"] for engram in answer.json["engrams"]]) == (200, [TOKENS])
        absent = bus.call("GET", "/engram/query_by_embedding?embedding_ref=emb:01KDVP9R00FQREJGN000000001")
        assert (absent.status, absent.code, absent.json["field"]) == (404, "ENGRAM_NOT_FOUND", "embedding_ref")
        for malformed in ("passwords", "emb:", passwords):
            refused = bus.call("GET", f"/engram/query_by_embedding?embedding_ref={malformed}")
            assert (refused.status, refused.code) == (422, "FIELD_VALUE")
        assert bus.call("GET", "/engram/query_by_embedding?embedding_ref=emb:x&k=0").status == 422


def test_a_missing_package_over_http(project: SemanticProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)  # as if it were not installed
    with run_server(project.gateway, project.repository) as bus:
        for target in ("/engram/query?q=login", "/engram/query_by_embedding?embedding_ref=emb:x"):
            answer = bus.call("GET", target)
            assert (answer.status, answer.code) == (503, "EMBEDDINGS_UNAVAILABLE")


def test_off_refuses_whatever_is_asked(project: SemanticProject) -> None:
    (passwords,) = project.put(PASSWORDS)
    project.open(semantic="0")
    for ref in (f"emb:{passwords}", "emb:01KDVP9R00FQREJGN000000001", "nonsense"):
        assert project.client.try_call("query_by_embedding", embedding_ref=ref)[0] == "EMBEDDINGS_OFF"


def test_hidden_engrams_are_absent(project: SemanticProject) -> None:
    ada = project.client.add_agent("ada")
    (hidden,) = project.put(PASSWORDS, caller=ada, scope="run")
    project.similar(hidden, ada)  # its vector is stored now
    project.client.call("open_run", goal="another")
    eve = project.client.add_agent("eve")
    unknown = project.client.try_call("query_by_embedding", eve, embedding_ref="emb:01KDVP9R00FQREJGN000000001")
    assert project.client.try_call("query_by_embedding", eve, embedding_ref=f"emb:{hidden}") == unknown
    (tokens,) = [engram.id for engram in project.client.query("authentication", eve).engrams if engram.claim == TOKENS]
    assert PASSWORDS not in project.similar(tokens, eve)


def test_a_forgotten_engram_is_absent(project: SemanticProject) -> None:
    passwords, keys = project.put(PASSWORDS, "Keys are rotated monthly.")
    project.similar(passwords)
    project.client.call("forget_engram", id=passwords)
    assert PASSWORDS not in project.similar(keys)
    assert project.client.try_call("query_by_embedding", embedding_ref=f"emb:{passwords}")[0] == "ENGRAM_NOT_FOUND"


def test_what_is_not_compared_yet_is_told(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantic_recall, "MAX_COMPUTED", 4)
    project = make_project()
    first = project.put(*CLAIMS, *(f"Shelf {number} holds box {number * 7}." for number in range(5)))[0]
    assert [len(project.similar(first)), *_warnings(project, first)] == [4, ("COMPARED_PARTLY", 9, 8)]
    assert len(project.similar(first)) == 9
    assert _warnings(project, first) == []


def _warnings(project: SemanticProject, engram_id: str) -> list[tuple[str, object, object]]:
    warnings: list[EngramBusError] = []
    operation = OPERATIONS["query_by_embedding"]
    request = to_request({"embedding_ref": f"emb:{engram_id}"}, operation.request)
    project.gateway.call(operation, request, LOCAL_ADMIN, warnings.append)
    return [(warning.code, warning.limit, warning.used) for warning in warnings]
