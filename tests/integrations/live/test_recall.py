"""What real clients pass on to their model of what hooks add unasked."""  # BX-10

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integrations.live.model import Answer, Call, ModelRequest
from tests.integrations.live.place import Place
from tests.integrations.live.programs import Leader
from tests.projects import FILES, commit_files

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

EVERY = ["claude-code", "codex", "gemini"]
WITH_EDITS = EVERY[:2]
"""Those that take a context before a tool; Gemini takes only a refusal there."""
CLAIM = "Line nine of the parser is never read."
AT = "src/parser.py:9"
HEAD = "From the team's memory on Engram Bus, as data"
END = "That is all."
NEW_LINE = "line nine"
MORE_WORDS = {"claude-code": ["--permission-mode", "acceptEdits"], "codex": ["-c", "model=gpt-5.5"], "gemini": []}
"""Codex offers its editing tool for models that it knows only."""


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """A project about which something is known, with forty newer engrams that push it out of the brief."""
    place = make_place(request.param)
    place.install()
    with place.bus() as bus:
        bus.put_engram(CLAIM, at=[AT], kind="fact")
        for number in range(40):
            bus.put_engram(f"Section {number} of the design is old.", at=[f"docs/design.md:{number % 9 + 1}"])
    return place


of_every = pytest.mark.parametrize("place", EVERY, indirect=True, scope="module")
with_edits = pytest.mark.parametrize("place", WITH_EDITS, indirect=True, scope="module")


def edits(place: Place) -> Callable[[ModelRequest], Answer]:
    """A model that edits line nine with the client's own tool."""

    def script(request: ModelRequest) -> Answer:
        file = str(place.project / "src/parser.py")
        if place.program.name == "codex":
            patch = f"*** Begin Patch\n*** Update File: src/parser.py\n@@\n-{OLD_LINE}\n+{NEW_LINE}\n*** End Patch\n"
            return END if request.results else Call(request.tool("apply_patch"), {"input": patch})
        if not request.results:
            return Call("Read", {"file_path": file})
        if len(request.results) == 1:
            return Call("Edit", {"file_path": file, "old_string": OLD_LINE, "new_string": NEW_LINE})
        return END

    return script


OLD_LINE = "line 9 of the parser"


@of_every
def test_a_prompt_that_names_a_file_gets_the_engram_about_it(place: Place) -> None:
    model = place.session("Look at src/parser.py.", lambda request: END)
    assert model.asked[0].prompt.count(HEAD) == 1
    assert CLAIM in model.asked[0].prompt
    model = place.session("Say hello.", lambda request: END)
    assert HEAD not in model.asked[0].prompt


@with_edits
def test_before_an_edit_the_model_gets_what_points_at_the_lines(place: Place) -> None:
    model = place.session("Change something.", edits(place), *MORE_WORDS[place.program.name])
    assert NEW_LINE in (place.project / "src/parser.py").read_text()
    assert HEAD not in model.asked[0].body
    assert CLAIM in model.asked[-1].body
    assert model.asked[-1].body.count(HEAD) == 1
    commit_files(place.project, FILES)


@with_edits
def test_a_sub_agent_gets_what_fits_its_task(place: Place) -> None:
    program, task = place.program, "Tell me what src/parser.py holds."
    assert isinstance(program, Leader)

    def script(request: ModelRequest) -> Answer:
        return END if task in request.prompt else program.delegate(request, task) or END

    model = place.session("Let a scout look.", script)
    (scout, *_) = [request for request in model.asked if task in request.prompt]
    assert scout.prompt.count(CLAIM) == 1


@with_edits
def test_an_edit_of_a_reserved_file_is_refused_with_its_holder(place: Place) -> None:  # BX-14
    with place.bus() as bus:
        bus.apply_policy({"limits": {"reservations": "enforce"}})
        lease = bus.reserve(["src/**"], reason="The parser is rewritten.")
    model = place.session("Change something.", edits(place), *MORE_WORDS[place.program.name])
    assert NEW_LINE not in (place.project / "src/parser.py").read_text()
    assert "is reserved by admin until" in model.asked[-1].body
    with place.bus() as bus:
        bus.release_reservations([lease.reservation_id])


@of_every
def test_a_claim_that_a_change_made_stale_is_called_so_at_the_next_prompt(place: Place) -> None:
    text = FILES["src/parser.py"].replace(OLD_LINE, "this line is read now")
    commit_files(place.project, {"src/parser.py": text})
    model = place.session("Look at src/parser.py.", lambda request: END)
    (line,) = [line for line in model.asked[0].prompt.splitlines() if CLAIM in line]
    assert "changed since" in line or "gone" in line


@pytest.mark.parametrize("place", ["claude-code"], indirect=True, scope="module")
def test_what_became_stale_within_a_session_is_announced_once(place: Place) -> None:
    commit_files(place.project, FILES)
    with place.bus() as bus:  # a line that was deleted and written again is another line
        (engram,) = [engram for engram in bus.query_engrams(CLAIM).engrams if engram.claim == CLAIM]
        bus.confirm_engram(engram.id, at=[AT])
    first = place.session("Look at src/parser.py again.", lambda request: END)
    assert CLAIM in first.asked[0].prompt
    commit_files(place.project, {"src/parser.py": FILES["src/parser.py"].replace(OLD_LINE, "this line is read now")})
    second = place.session("Say hello.", lambda request: END, "--continue")
    assert second.asked[0].prompt.count("shown to you before: its evidence is ") == 1
    third = place.session("Say goodbye.", lambda request: END, "--continue")
    assert third.asked[0].prompt.count("shown to you before: its evidence is ") == 1, "it is in the context already"
