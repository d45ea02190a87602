"""What a snapshot includes because it is about something, found by meaning."""  # SC-09

from __future__ import annotations

import pytest

from engrambus.core import SystemClock
from engrambus.errors import EmbeddingsOff
from engrambus.testing.clock import ManualClock
from tests.semantic.conftest import SemanticProject


def origins(project: SemanticProject, **scope: object) -> dict[str, str]:
    """Return the origin of every item of a snapshot by its content."""
    items = project.client.call("inherit", scope=scope).items
    return {item.content: item.provenance.origin for item in items}


def test_what_is_about_a_text_is_included_with_its_origin(project: SemanticProject) -> None:
    project.clock = ManualClock(SystemClock().now())
    project.open(semantic="1")
    for text in ("Passwords are stored with Argon2.", "Deploys happen on Tuesdays."):
        project.client.call("keep_episode", text=text, importance=0.1)
    project.clock.advance(seconds=2 * 86_400)
    nothing_else = {"recency_window": "P1D"}
    found = origins(project, about="login credentials", **nothing_else)
    assert found == {
        "Authentication tokens expire after one hour.": "embedding",
        "Passwords are stored with Argon2.": "embedding",
    }
    snapshot = project.client.call("inherit", scope={"about": "login credentials", **nothing_else})
    project.open(semantic="")  # it is fetched again without the model
    again = project.client.call("show_snapshot", id=snapshot.snapshot_id)
    assert again.items == snapshot.items


def test_another_origin_goes_before(project: SemanticProject) -> None:
    project.client.call("keep_episode", text="Passwords are stored with Argon2.", pinned=True)
    found = origins(project, about="login credentials", include_atoms=True)
    assert found["Passwords are stored with Argon2."] == "working_memory"
    assert found["Authentication tokens expire after one hour."] == "atom"
    assert "embedding" not in found.values()


def test_nothing_is_included_that_is_about_something_else(project: SemanticProject) -> None:
    assert origins(project, about="kangaroos in Australia") == {}


def test_it_is_refused_where_search_by_meaning_is_off(project: SemanticProject) -> None:
    project.open(semantic="")
    with pytest.raises(EmbeddingsOff) as refused:
        project.client.call("inherit", scope={"about": "login credentials"})
    assert refused.value.field == "scope.about"
    assert "ENGRAMBUS_SEMANTIC" in str(refused.value.hint)
