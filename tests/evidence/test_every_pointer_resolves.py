"""Every operation that takes a pointer refuses one that leads nowhere, and stores nothing."""  # EB-02 EB-04

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engrambus.errors import EngramBusError
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.gateway.pointer_fields import find_pointer_fields
from engrambus.operations import OPERATIONS
from engrambus.testing.client import same_changes
from tests.cli.runner import Shell
from tests.http.running_server import run_server
from tests.projects import Repository, make_gateway, make_repository, make_settings

NOWHERE = {
    "repo:src/parser.py@" + "0" * 40: "REVISION_NOT_FOUND",
    "repo:src/nowhere.py@{sha}": "FILE_NOT_FOUND",
    "repo:src/parser.py#L30-L31@{sha}": "SPAN_NOT_FOUND",
    "repo:src@{sha}": "NOT_A_FILE",
    "repo:elsewhere//src/parser.py@{sha}": "REPOSITORY_NOT_FOUND",
    "artifact:nowhere.md@{sha}": "ARTIFACT_NOT_FOUND",
    "artifact:docs/design.md#sec=Nowhere@{sha}": "SECTION_NOT_FOUND",
    "artifact:docs/design.md@v9": "REVISION_NOT_FOUND",
    "artifact:sha256:" + "0" * 64: "BODY_NOT_FOUND",
    "diff:src/nowhere.py@{sha}..{sha}": "FILE_NOT_FOUND",
    "sam:decision:never-made@7": "EPISODE_NOT_FOUND",
    "test:t.py::x@sha256:" + "c" * 64: "RECEIPT_NOT_FOUND",
    "url:https://example.org/@sha256:" + "c" * 64: "URLS_OFF",
}
"""Refs that lead nowhere in the project of these tests, and their codes."""

REPORT = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT: {summary: All is well.}\n"
BROADCAST = "ROLE: architect\nINSTRUCTIONS: [Read it.]\n"


class Project(NamedTuple):
    """A project with a lead and a programmer below it."""

    gateway: Gateway
    repository: Repository
    lead: Credential
    coder: Credential

    def call(self, operation: str, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> Any:
        declared = OPERATIONS[operation]
        return self.gateway.call(declared, to_request(fields, declared.request), caller)

    def journal(self) -> bytes:
        return (self.repository.path / ".catalog/memory.jsonl").read_bytes()


Attempt = Callable[[Project, str], Any]


def _put(project: Project, ref: str) -> Any:
    return project.call("put_engram", project.coder, claim="It holds.", pointers=[_pointer(ref)])


def _pointer(ref: str) -> dict[str, str]:
    return {"type": ref.partition(":")[0], "ref": ref}


def _report(section: str) -> Attempt:
    return lambda project, ref: project.call(
        "send_message", project.coder, text=f"{REPORT}{section}".replace("<ref>", json.dumps(ref))
    )


def _narrow(project: Project, ref: str) -> Any:
    whole = f"repo:*@{project.repository.sha}"
    token = project.call("issue_grant", child_id="ada", pointer=whole).budget_token
    return project.call("narrow_grant", project.lead, budget_token=token, child_id="paul", pointer=ref)


def _in_a_grant(project: Project, ref: str) -> Any:
    whole = f"repo:*@{project.repository.sha}"
    token = project.call("issue_grant", project.lead, child_id="paul", pointer=whole).budget_token
    grants = f"GRANTS: [{{budget_token: {token}, cap_tokens: 100, pointer: {json.dumps(ref)}}}]\n"
    return project.call("broadcast", project.lead, text=BROADCAST + grants)


def _validate(project: Project, ref: str) -> Any:
    answer = project.call("validate_deref", project.coder, pointer=ref)
    assert not answer.ok
    return _raise(answer.problems[0])


def _validate_message(project: Project, ref: str) -> Any:
    answer = project.call("validate_message", project.coder, text=f"{REPORT}POINTER_PACK: [{json.dumps(ref)}]\n")
    assert not answer.ok
    return _raise(answer.problems[0])


class _Told(EngramBusError):
    """A problem that an answer lists."""

    code = "TOLD"


def _raise(problem: dict[str, Any]) -> None:
    raise _Told(problem["code"], field=problem["field"])


ATTEMPTS: dict[str, dict[str, Attempt]] = {
    "put_engram": {
        "pointers[0].ref": _put,
        "at[0]": lambda project, ref: project.call("put_engram", project.coder, claim="It holds.", at=[ref]),
    },
    "put_found": {
        "pointers[0].ref": lambda project, ref: project.call(
            "put_found", claim="It holds.", pointers=[ref], source="sam"
        )
    },
    "put_engrams": {
        "engrams[1].pointers[0].ref": lambda project, ref: project.call(
            "put_engrams",
            project.coder,
            engrams=[
                {"claim": "The parser is here.", "at": ["src/parser.py:1"]},
                {"claim": "It holds.", "pointers": [ref]},
            ],
        )
    },
    "put_text": {
        "pointers[0].ref": lambda project, ref: project.call(
            "put_text", project.coder, text="It holds. " * 4, pointers=[ref]
        )
    },
    "keep_episode": {
        "pointers[0].ref": lambda project, ref: project.call(
            "keep_episode", project.lead, text="It holds.", pointers=[ref]
        )
    },
    "add_task": {
        "at[0]": lambda project, ref: project.call("add_task", project.coder, title="See whether it holds.", at=[ref])
    },
    "request_deref": {
        "pointer.ref": lambda project, ref: project.call("request_deref", project.coder, pointer=ref, reason="Needed.")
    },
    "issue_grant": {
        "pointer.ref": lambda project, ref: project.call("issue_grant", project.lead, child_id="paul", pointer=ref)
    },
    "narrow_grant": {"pointer.ref": _narrow},
    "deref_pointer": {"pointer.ref": lambda project, ref: project.call("deref_pointer", project.coder, pointer=ref)},
    "validate_deref": {"pointer.ref": _validate},
    "link_pointer": {"ref": lambda project, ref: project.call("link_pointer", ref=ref)},
    "contribute": {
        "evidence[0].value": lambda project, ref: project.call(
            "contribute", project.coder, content="It holds.", evidence=[{"kind": "path", "value": ref}]
        )
    },
    "send_message": {
        "ENGRAMS[0].pointers[0].ref": _report("ENGRAMS: [{claim: It holds., kind: fact, pointers: [<ref>]}]\n"),
        "POINTER_PACK[0].ref": _report("POINTER_PACK: [<ref>]\n"),
        "DEREF_REQUESTS[0].pointer.ref": _report("DEREF_REQUESTS: [{pointer: <ref>, reason: Needed.}]\n"),
    },
    "broadcast": {
        "TARGET_POINTER_PACK[0].ref": lambda project, ref: project.call(
            "broadcast", project.lead, text=f"{BROADCAST}TARGET_POINTER_PACK: [{json.dumps(ref)}]\n"
        ),
        "GRANTS[0].pointer.ref": _in_a_grant,
    },
    "validate_message": {"POINTER_PACK[0].ref": _validate_message},
}
"""For each operation that takes a pointer, the fields it takes one in and a call that sends it."""

TAKES_NO_POINTER = {
    "take_answer": "prose, or a message that is sent like any other",
    "send_peer_message": "plain words",
}
"""Operations with a text whose text is no message with pointers."""


TRIED_ELSEWHERE = {"confirm_engram": "needs a stored engram: test_confirm_lines.py"}


def test_every_operation_that_takes_a_pointer_is_tried() -> None:
    by_type = {name for name, declared in OPERATIONS.items() if find_pointer_fields(declared.request)}
    by_type -= TRIED_ELSEWHERE.keys()
    by_text = {name for name, declared in OPERATIONS.items() if declared.text_field} - TAKES_NO_POINTER.keys()
    assert by_type | by_text | {"contribute"} == ATTEMPTS.keys()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("nowhere")
    repository = make_repository(folder / "repository")
    with closing(make_gateway(repository.path, make_settings(folder / "home"))) as gateway:
        project = Project(gateway, repository, LOCAL_ADMIN, LOCAL_ADMIN)
        project.call("apply_policy", policy={"deref": {"repo": 1000, "artifact": 1000, "sam": 1000, "tokens": 100_000}})
        lead = Credential(token=project.call("add_agent", name="ada", role="architect").token)
        coder = Credential(token=project.call("add_agent", lead, name="paul", role="programmer").token)
        yield project._replace(lead=lead, coder=coder)


@pytest.mark.parametrize("ref", NOWHERE)
@pytest.mark.parametrize(
    ("operation", "field"), [(name, field) for name, fields in ATTEMPTS.items() for field in fields]
)
def test_a_pointer_that_leads_nowhere_is_refused_and_nothing_is_stored(
    project: Project, operation: str, field: str, ref: str
) -> None:
    attempt, code = ATTEMPTS[operation][field], NOWHERE[ref]
    if (operation, code) == ("link_pointer", "URLS_OFF"):  # only a browser opens the page
        assert attempt(project, ref).web == "https://example.org/"
        return
    journal = project.journal()
    with pytest.raises(EngramBusError) as refused:
        attempt(project, ref.replace("{sha}", project.repository.sha))
    told = refused.value
    assert (str(told) if isinstance(told, _Told) else told.code) == code
    assert (told.field or "").removesuffix(".ref") == field.removesuffix(".ref")
    kept = project.journal()
    if operation not in ("narrow_grant", "broadcast"):  # these attempts make a grant first
        assert same_changes(kept, journal)
    assert b"nowhere" not in kept[len(journal) :]
    assert project.call("query_engrams").engrams == []


@pytest.mark.parametrize(
    ("prefix", "code"),
    [
        ("repo:nowhere/*@{sha}", "FILE_NOT_FOUND"),
        ("repo:src/parser.py/*@{sha}", "FILE_NOT_FOUND"),
        ("repo:src/*@" + "0" * 40, "REVISION_NOT_FOUND"),
        ("repo:elsewhere//src/*@{sha}", "REPOSITORY_NOT_FOUND"),
        ("diff:nowhere/*@{sha}..{sha}", "FILE_NOT_FOUND"),
        ("diff:src/*@{sha}.." + "0" * 40, "REVISION_NOT_FOUND"),
    ],
)
def test_a_grant_for_a_folder_needs_the_folder(project: Project, prefix: str, code: str) -> None:
    journal = project.journal()
    with pytest.raises(EngramBusError) as refused:
        project.call(
            "issue_grant", project.lead, child_id="paul", pointer=prefix.replace("{sha}", project.repository.sha)
        )
    assert (refused.value.code, refused.value.field) == (code, "pointer.ref")
    assert same_changes(project.journal(), journal)
    for granted in ("repo:src/*@{sha}", "repo:*@{sha}", "diff:src/*@{sha}..{sha}"):
        ref = granted.replace("{sha}", project.repository.sha)
        assert project.call("issue_grant", project.lead, child_id="paul", pointer=ref).grant_id


def test_a_refusal_reads_the_same_on_every_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "repository")
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    ref = "sam:decision:never-made@7"
    gateway = make_gateway(repository.path, make_settings(tmp_path / "home"))
    with closing(gateway), run_server(gateway, repository) as served:
        answer = served.call("POST", "/engram", {"claim": "It holds.", "pointers": [_pointer(ref)]})
        assert answer.status == 404
        assert (answer.json["code"], answer.json["field"]) == ("EPISODE_NOT_FOUND", "pointers[0].ref")
        assert "sam.keep" in answer.json["hint"]
    problem = shell.run("put", "It holds.", "--pointer", ref, "--json").problem
    assert problem["code"] == "EPISODE_NOT_FOUND"
    assert problem["hint"]
    printed = shell.run("put", "It holds.", "--pointer", ref)
    assert printed.code == 1
    assert printed.err.startswith("error EPISODE_NOT_FOUND: There is no episode decision:never-made at '7'.")
