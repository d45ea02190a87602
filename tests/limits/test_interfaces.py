"""Every limit, tried on every interface: enforced it stops the call, as a warning it lets it pass and says so.

docs/limits.md lists what is tried here.  # EB-06 EB-07 EB-08 EB-09 EB-21
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import reference_docs

from engrambus.errors import DerefDenied
from engrambus.gateway import LOCAL_ADMIN, Credential, to_request
from engrambus.operations import OPERATIONS
from engrambus.policy.limits import LIMITS, LimitName
from tests.limits.attempts import ATTEMPTS, INTERFACES, Attempt, Step, put
from tests.limits.interfaces import Outcome, Project, calls_over
from tests.projects import make_gateway, make_repository, make_settings


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A manager and a programmer in a new project. Other processes take part, so the clock is the machine's."""
    repository = make_repository(tmp_path / "repo")
    settings = make_settings(tmp_path / "home")
    gateway = make_gateway(repository.path, settings)
    project = Project(gateway, repository, settings, {})
    project.tokens["mia"] = call(project, LOCAL_ADMIN, "add_agent", name="mia", role="manager").token
    project.tokens["paul"] = call(project, as_agent(project, "mia"), "add_agent", name="paul", role="programmer").token
    yield project
    gateway.close()


def call(project: Project, caller: Credential, operation: str, /, **fields: Any) -> Any:
    declared = OPERATIONS[operation]
    return project.gateway.call(declared, to_request(fields, declared.request), caller)


def as_agent(project: Project, name: str) -> Credential:
    return Credential(token=project.tokens[name])


def filled(step: Step, project: Project) -> Step:
    """The step with the commit of this project."""
    sha = project.repository.sha
    fields = {
        name: value.replace("{sha}", sha) if isinstance(value, str) else value for name, value in step.fields.items()
    }
    return step._replace(fields=fields)


def tried() -> list[tuple[LimitName, str]]:
    return [(limit, interface) for limit, attempt in ATTEMPTS.items() for interface in attempt.interfaces]


@pytest.mark.parametrize(("limit", "interface"), tried())
def test_a_limit_holds(limit: LimitName, interface: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = ATTEMPTS[limit]
    call(project, LOCAL_ADMIN, "apply_policy", policy=attempt.policy)
    for step in attempt.before:
        ready = filled(step, project)
        with suppress(DerefDenied):  # reads are repeated until the tokens are used up
            call(project, as_agent(project, step.agent), step.operation, **ready.fields)
    last = filled(attempt.last, project)
    with calls_over(interface, project, monkeypatch) as send:

        def make(step: Step) -> Outcome:
            outcome = send(step)  # a put that is repeated also says what it confirmed
            return outcome._replace(warnings=[code for code in outcome.warnings if code != "CLAIM_CONFIRMED"])

        enforced = make(last)
        if attempt.is_refused:
            assert enforced == Outcome(attempt.code, [])
        else:
            assert enforced == Outcome(None, [attempt.code])
        call(project, LOCAL_ADMIN, "apply_policy", policy={**attempt.policy, "limits": {limit: {"manager": "warn"}}})
        assert (make(last).refusal is None) == _is_by_manager(attempt)  # the mode holds for the role that it names
        call(project, LOCAL_ADMIN, "apply_policy", policy={**attempt.policy, "limits": {limit: "warn"}})
        warned = make(last)
        assert warned.refusal is None
        assert len(warned.warnings) == 1
        call(project, LOCAL_ADMIN, "apply_policy", policy={**attempt.policy, "limits": {limit: "off"}})
        assert make(last) == Outcome(None, [])


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_repeated_claim_says_what_it_confirmed(  # EB-21
    interface: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with calls_over(interface, project, monkeypatch) as send:
        assert send(put("The parser trusts its input.")) == Outcome(None, [])
        assert send(put("The `parser` trusts the input")) == Outcome(None, ["CLAIM_CONFIRMED"])


def _is_by_manager(attempt: Attempt) -> bool:
    return attempt.last.agent == "mia" or not attempt.is_refused


def test_every_limit_is_tried() -> None:
    assert list(ATTEMPTS) == list(LIMITS)
    assert {interface for attempt in ATTEMPTS.values() for interface in attempt.interfaces} == set(INTERFACES)
    for attempt in ATTEMPTS.values():
        assert attempt.interfaces == INTERFACES or OPERATIONS[attempt.last.operation].tool is None


def test_the_documentation_lists_what_is_tried() -> None:
    assert reference_docs.LIMITS.read_text("utf-8") == reference_docs.limits_reference()


def test_the_documentation_lists_every_policy_key() -> None:
    assert reference_docs.POLICY.read_text("utf-8") == reference_docs.policy_reference()
