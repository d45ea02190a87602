"""What hooks show unasked: at a prompt, at a sub-agent's start and before an edit."""  # BX-10

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import estimate_tokens
from engrambus.edges.integrations.edited_files import edited_paths
from engrambus.edges.integrations.hook_events import read_event
from engrambus.edges.sdk import Bus
from engrambus.gateway import Gateway
from engrambus.settings import Settings
from tests.integrations.test_hook import BOTH, Hook
from tests.integrations.told import recorded_event
from tests.projects import FILES, Repository, commit_files

CLAIM = "The parser trusts every line of its input."
PROMPT = "Does the parser trust its input?"
UNRELATED = "Make the buttons larger."


@pytest.fixture
def hook(gateway: Gateway, repository: Repository, settings: Settings) -> Callable[[str], Hook]:
    return lambda client: Hook(client, repository.path, settings)


@pytest.fixture
def bus(gateway: Gateway, repository: Repository, settings: Settings) -> Iterator[Bus]:
    with Bus.open(repository.path, settings=settings) as bus:
        yield bus


def edit(client: str, path: str, old: str = "", **more: Any) -> dict[str, Any]:
    """The tool call of a client that edits a file."""
    if client == "codex":
        hunk = "".join(f"-{line}\n" for line in old.splitlines())
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n{hunk}+new\n*** End Patch\n"
        return {"tool_name": "apply_patch", "tool_input": {"command": patch}, **more}
    return {"tool_name": "Edit", "tool_input": {"file_path": path, "old_string": old, "new_string": "new"}, **more}


@BOTH
def test_a_prompt_gets_what_fits_it_once(hook: Callable[[str], Hook], bus: Bus, client: str) -> None:
    engram = bus.put_engram(CLAIM, at=["src/parser.py:3-4"], kind="risk")
    assert hook(client)("UserPromptSubmit", prompt=UNRELATED) == {}
    head, line = hook(client).context("UserPromptSubmit", prompt=PROMPT).splitlines()
    assert "as data" in head
    assert line == f"- {engram.id[:13]} risk: {CLAIM} (src/parser.py:3-4@{engram.pointers[0].ref[-40:][:7]})"
    assert hook(client)("UserPromptSubmit", prompt=PROMPT) == {}
    assert CLAIM in hook(client).context("UserPromptSubmit", prompt=PROMPT, session_id="another")


@BOTH
def test_a_prompt_that_names_a_file_gets_what_is_known_about_it(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:
    bus.put_engram("Nothing here is checked.", at=["src/parser.py:3-4"])
    assert "Nothing here is checked." in hook(client).context("UserPromptSubmit", prompt="Clean up src/parser.py.")


@BOTH
def test_after_the_context_was_compacted_it_may_be_shown_again(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:
    bus.put_engram(CLAIM, at=["src/parser.py:3-4"])
    hook(client).context("UserPromptSubmit", prompt=PROMPT)
    hook(client)("SessionStart", source="resume")
    assert hook(client)("UserPromptSubmit", prompt=PROMPT) == {}
    hook(client)("SessionStart", source="compact")
    assert CLAIM in hook(client).context("UserPromptSubmit", prompt=PROMPT)


@BOTH
def test_a_claim_that_became_stale_is_announced_at_the_next_prompt(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str
) -> None:
    engram = bus.put_engram(CLAIM, at=["src/parser.py:3-4"])
    hook(client).context("UserPromptSubmit", prompt=PROMPT)
    text = FILES["src/parser.py"].replace("line 3 of the parser", "line three, checked")
    commit_files(repository.path, {"src/parser.py": text})
    (_, line) = hook(client).context("UserPromptSubmit", prompt=UNRELATED).splitlines()
    assert line.startswith(f"- {engram.id[:13]} (The parser trusts every line of its input. …), shown to you before")
    assert "changed since" in line
    assert hook(client)("UserPromptSubmit", prompt=PROMPT) == {}, "once"
    (_, line) = hook(client).context("UserPromptSubmit", prompt=PROMPT, session_id="another").splitlines()
    assert "changed since" in line
    assert CLAIM in line


@BOTH
def test_before_an_edit_the_agent_gets_what_points_at_the_file(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str
) -> None:
    far = bus.put_engram("Line twenty is never read.", at=["src/parser.py:20-21"])
    near = bus.put_engram("Line three must stay first.", at=["src/parser.py:3"], kind="constraint")
    bus.put_engram("The design is old.", at=["docs/design.md:1"])
    old = "line 3 of the parser\n"
    path = "src/parser.py" if client == "codex" else str(repository.path / "src/parser.py")
    context = hook(client).context("PreToolUse", **edit(client, path, old))
    assert [line[2:15] for line in context.splitlines()[1:]] == [near.id[:13], far.id[:13]]
    assert hook(client)("PreToolUse", **edit(client, path, old)) == {}
    child = edit(client, path, old, agent_id="a1", agent_type="worker")
    assert "must stay first" in hook(client).context("PreToolUse", **child), "a sub-agent has its own"


@pytest.mark.parametrize("path", ["/etc/hosts", "/parser.py", "../parser.py", "\0", "", "x" * 5000, "src/other.py"])
def test_an_edit_of_another_file_gets_nothing(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, path: str
) -> None:
    bus.put_engram("Line three must stay first.", at=["src/parser.py:3"])
    assert hook("claude-code")("PreToolUse", **edit("claude-code", path, "line 3")) == {}
    (repository.path.parent / "src").mkdir()
    (repository.path.parent / "src" / "parser.py").write_text("line 3\n")
    other = str(repository.path.parent / "src" / "parser.py")
    assert hook("claude-code")("PreToolUse", **edit("claude-code", other, "line 3")) == {}


def test_edited_lines_are_found_in_every_tools_input(repository: Repository) -> None:
    top = repository.path
    one, two = "line 3 of the parser\nline 4", "line 9 of the parser\n"
    edits = [{"old_string": one}, {"old_string": two}, {"old_string": "not there"}, {"old_string": 3}, None]
    file = {"file_path": str(top / "src/parser.py")}
    assert edited_paths("Edit", {**file, "old_string": one}, top) == ["src/parser.py:3-4"]
    assert edited_paths("MultiEdit", {**file, "edits": edits}, top) == ["src/parser.py:3-4", "src/parser.py:9-9"]
    assert edited_paths("Write", {**file, "content": "new"}, top) == ["src/parser.py"]
    assert edited_paths("NotebookEdit", {"notebook_path": str(top / "a.ipynb")}, top) == ["a.ipynb"]
    assert edited_paths("replace", {"file_path": "src/parser.py", "old_string": two}, top) == ["src/parser.py:9-9"]
    patch = (
        "*** Begin Patch\n*** Add File: src/new.py\n+a\n*** Update File: src/parser.py\n@@\n line 8 of the parser\n"
        "-line 9 of the parser\n+nine\n@@\n-line 20 of the parser\n*** Delete File: docs/design.md\n*** End Patch"
    )
    assert edited_paths("apply_patch", {"command": patch}, top) == [
        "src/new.py", "src/parser.py:8-9", "src/parser.py:20-20", "docs/design.md"
    ]  # fmt: skip
    inputs: list[Any] = [None, [], {}, {"file_path": 3}, {"file_path": "src"}, {"command": None}]
    for wrong in inputs:
        for tool in ("Edit", "apply_patch", "Write"):
            assert edited_paths(tool, wrong, top) in ([], ["src"])


@BOTH
def test_a_sub_agent_gets_what_fits_the_task_it_was_started_with(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:
    bus.put_engram(CLAIM, at=["src/parser.py:3-4"])
    for number in range(40):  # so many newer ones that the brief does not show the one in question
        bus.put_engram(f"Section {number} of the design is old.", at=[f"docs/design.md:{number % 9 + 1}"])
    kind = {"claude-code": "subagent_type", "codex": "agent_type"}[client]
    text = {"claude-code": "prompt", "codex": "message"}[client]
    assert hook(client)("PreToolUse", tool_input={text: PROMPT, kind: "Explore"}) == {}
    context = hook(client).context("SubagentStart", agent_type="Explore", agent_id="first")
    assert context.count(CLAIM) == 1
    assert "shared brief" in context.lower()
    again = hook(client).context("SubagentStart", agent_type="Explore", agent_id="second")
    assert again.count(CLAIM) == 0


@BOTH
def test_one_key_turns_it_off(hook: Callable[[str], Hook], bus: Bus, client: str) -> None:
    bus.put_engram(CLAIM, at=["src/parser.py:3-4"])
    bus.apply_policy({"recall": False})
    assert hook(client)("UserPromptSubmit", prompt=PROMPT) == {}
    assert hook(client)("PreToolUse", **edit(client, "src/parser.py", "line 3 of the parser\n")) == {}


def test_gemini_gets_it_with_its_prompt_and_not_before_a_tool(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository
) -> None:
    bus.put_engram(CLAIM, at=["src/parser.py:3-4"])
    gemini = hook("gemini")
    event = recorded_event("gemini", "BeforeAgent", repository.path, prompt=PROMPT)
    parsed = read_event(event)
    assert parsed is not None
    from engrambus.edges.integrations.client_hook import answer_event

    answer = answer_event(parsed, gemini.settings, Path("/"))["hookSpecificOutput"]
    assert answer["hookEventName"] == "BeforeAgent"
    assert CLAIM in answer["additionalContext"]
    assert answer_event(parsed, gemini.settings, Path("/")) == {}
    said = f"<hook_context>Look at src/parser.py\n{PROMPT}</hook_context>\n\n{UNRELATED}"
    parsed = read_event(recorded_event("gemini", "BeforeAgent", repository.path, prompt=said, session_id="another"))
    assert parsed is not None
    assert answer_event(parsed, gemini.settings, Path("/")) == {}, "what our own hooks said is no prompt"


@BOTH
def test_a_prompt_adds_at_most_600_tokens(hook: Callable[[str], Hook], bus: Bus, client: str) -> None:
    lead = hook(client).handle("SessionStart")
    hook(client).handle("SubagentStart")
    for number in range(12):
        bus.put_engram(f"Claim {number} about the parser " + "and what it reads " * 20, at=["src/parser.py:3-4"])
        bus.send_message(f"Note {number}: " + "the parser was read again and nothing else " * 9, to=lead)
    context = hook(client).context("UserPromptSubmit", prompt="Look at src/parser.py.")
    mail, _, recalled = context.partition("From the team's memory")
    assert "Mail that waits" in mail
    assert recalled.count("\n- ") >= 1
    assert estimate_tokens(mail) <= 300
    assert estimate_tokens(recalled) <= 300
    assert estimate_tokens(context) <= 600
    assert recalled.count("\n- ") <= 5


@BOTH
def test_a_hook_with_nothing_to_show_writes_nothing(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str
) -> None:
    bus.put_engram(CLAIM, at=["src/parser.py:3-4"])
    hook(client)("SessionStart")
    journal = repository.path / ".catalog" / "memory.jsonl"
    size = journal.stat().st_size
    hook(client)("UserPromptSubmit", prompt=UNRELATED)
    hook(client)("PreToolUse", tool_input={"prompt": UNRELATED, "message": UNRELATED, "agent_type": "x"})
    hook(client)("PreToolUse", **edit(client, "docs/design.md", "# Design\n"))
    assert journal.stat().st_size == size
    hook(client)("UserPromptSubmit", prompt=f"{PROMPT} AKIA{'Q3EGRVVQ7Y2PXH4M'} \u202e")
    added = journal.read_bytes()[size:]
    assert added.count(b"\n") == 1
    assert b"AKIA" not in added


@BOTH
@pytest.mark.parametrize("mode", ["warn", "enforce", "off"])
def test_an_edit_of_a_reserved_file_is_warned_about_or_refused(
    hook: Callable[[str], Hook], bus: Bus, client: str, mode: str
) -> None:  # BX-14
    bus.apply_policy({"limits": {"reservations": mode}})
    other = hook(client).handle("SessionStart", session_id="another")
    bus.speak_as(other).reserve(["src/**"], reason="the parser is rewritten")
    engram = bus.put_engram("Line three must stay first.", at=["src/parser.py:3"])
    answer = hook(client)("PreToolUse", **edit(client, "src/parser.py", "line 3 of the parser\n"))["hookSpecificOutput"]
    name = other.partition("/")[2]
    warning = f"reserved by {name} until "
    if mode == "enforce":
        assert answer["permissionDecision"] == "deny"
        assert warning in answer["permissionDecisionReason"]
        assert "the parser is rewritten" in answer["permissionDecisionReason"]
        return
    context = answer["additionalContext"]
    assert (warning in context) == (mode == "warn")
    assert engram.id[:13] in context
    assert estimate_tokens(context) <= 600
    assert "permissionDecision" not in answer
    own = edit(client, "src/parser.py", "line 9 of the parser\n", session_id="another")
    assert "reserved by" not in str(hook(client)("PreToolUse", **own)), "its holder edits what it has reserved"


def test_gemini_refuses_an_edit_of_a_reserved_file(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository
) -> None:  # BX-14
    from engrambus.edges.integrations.client_hook import answer_event

    bus.reserve(["src/parser.py"], reason="mine")
    arguments = {"file_path": str(repository.path / "src/parser.py"), "old_string": "line 3"}
    event = {"hook_event_name": "BeforeTool", "tool_name": "replace", "tool_input": arguments}
    parsed = read_event(recorded_event("gemini", "BeforeAgent", repository.path, **event))
    assert parsed is not None
    assert answer_event(parsed, hook("gemini").settings, Path("/")) == {}
    bus.apply_policy({"limits": {"reservations": "enforce"}})
    answer = answer_event(parsed, hook("gemini").settings, Path("/"))
    assert answer["decision"] == "deny"
    assert "reserved by admin until" in answer["reason"]


@BOTH
def test_memories_join(hook: Callable[[str], Hook], bus: Bus, client: str) -> None:  # BX-09
    bus.keep_episode("The parser must never trust a length that the input states.")
    context = hook(client).context("UserPromptSubmit", prompt="May the parser trust a length in the input?")
    assert "- memory fact: The parser must never trust a length that the input states. (sam:fact:" in context
    assert hook(client)("UserPromptSubmit", prompt="May the parser trust a length in the input?") == {}
