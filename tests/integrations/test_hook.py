"""`engrambus hook` as clients call it: recorded events in, the smallest answer both of them take out."""  # BX-05

from __future__ import annotations

import fcntl
import json
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus.app import init_project, open_project
from engrambus.core import digest, estimate_tokens
from engrambus.edges.integrations.client_hook import answer_event
from engrambus.edges.integrations.hook_events import read_event
from engrambus.edges.sdk import Bus
from engrambus.edges.sdk.bus import LimitWarning
from engrambus.gateway import Gateway
from engrambus.settings import Settings
from tests.cli.runner import COMMAND, Shell
from tests.http.running_server import run_server
from tests.integrations.told import PAYLOADS, recorded_event
from tests.projects import Repository

LONG = "The refund is sent again whenever the bank does not answer in time, as far as I can see. " * 60
CODE = "def refund(order):\n    if order.paid:\n        raise ValueError(order)\n    return bank.send(order)\n"
SECRET = "AKIA" + "Q3EGRVVQ7Y2PXH4M"
BOTH = pytest.mark.parametrize("client", ["claude-code", "codex"])
ALLOWED = {
    "SessionStart": {"hookSpecificOutput", "systemMessage"},
    "SubagentStart": {"hookSpecificOutput"},
    "PreToolUse": {"hookSpecificOutput"},
    "PostToolUse": {"hookSpecificOutput"},
    "UserPromptSubmit": {"hookSpecificOutput"},
    "SubagentStop": {"decision", "reason", "systemMessage"},
    "Stop": set(),
}
"""What both clients take in answer to an event; Codex refuses any other member."""


class Hook:
    """A client's hooks in one folder."""

    def __init__(self, client: str, folder: Path, settings: Settings) -> None:
        self.client, self.folder, self.settings = client, folder, settings

    def __call__(self, event: str, **more: Any) -> dict[str, Any]:
        parsed = read_event(recorded_event(self.client, event, self.folder, **more))
        assert parsed is not None
        result = answer_event(parsed, self.settings, Path("/"))
        assert set(result) <= ALLOWED.get(event, set()), result
        return result

    def context(self, event: str, **more: Any) -> str:
        result = self(event, **more)["hookSpecificOutput"]
        assert set(result) == {"hookEventName", "additionalContext"}
        assert result["hookEventName"] == event
        assert estimate_tokens(result["additionalContext"]) <= 2500
        assert len(result["additionalContext"]) <= 10_000
        return str(result["additionalContext"])

    def agent_name(self, event: str, **more: Any) -> str:
        return self.context(event, **more).partition("Your name there is ")[2].partition(";")[0]

    def handle(self, event: str, **more: Any) -> str:
        """The agent's full name; the context says the bare one."""
        name = self.agent_name(event, **more)
        with closing(open_project(self.folder, self.settings)) as gateway, gateway.store.read() as view:
            (agent,) = view.agents_named(name)
            return agent.full_name


@pytest.fixture
def hook(gateway: Gateway, repository: Repository, settings: Settings) -> Callable[[str], Hook]:
    return lambda client: Hook(client, repository.path, settings)


@pytest.fixture
def bus(gateway: Gateway, repository: Repository, settings: Settings) -> Iterator[Bus]:
    with Bus.open(repository.path, settings=settings) as bus:
        yield bus


@BOTH
def test_a_session_has_a_run_its_agent_a_handle_and_both_the_brief(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:
    bus.put_engram("Refunds over 500 need a second approval.", at=["src/parser.py:3-4"], kind="constraint")
    original = bus.list_agents().run_id
    context = hook(client).context("SessionStart")
    assert "Refunds over 500 need a second approval." in context
    assert "role there is architect" in context
    run, _, name = hook(client).handle("SessionStart", source="resume").partition("/")
    agents = bus.speak_as(f"{run}/{name}").list_agents()
    assert (agents.run_id, [row.agent_id for row in agents.agents]) == (run, [name])
    assert run != original == bus.list_agents().run_id, "others keep their current run"


@BOTH
def test_a_child_is_registered_below_its_parent_and_can_speak(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:
    main = hook(client).handle("SessionStart")
    handle = hook(client).handle("SubagentStart")
    assert hook(client).handle("SubagentStart") == handle, "one that is resumed is the same agent"
    rows = {row.agent_id: row for row in bus.speak_as(handle).list_agents().agents}
    child = rows[handle.partition("/")[2]]
    assert (child.role, child.parent) == ("programmer", main.partition("/")[2])
    engram = bus.speak_as(handle).put_engram("The parser is linear.", at=["src/parser.py:1"])
    assert engram.provenance.created_by == handle
    assert "The parser is linear." in hook(client).context("SubagentStart", agent_id="another")


@BOTH
def test_an_answer_within_its_budget_is_allowed(hook: Callable[[str], Hook], bus: Bus, client: str) -> None:
    hook(client)("SubagentStart")
    assert hook(client)("SubagentStop") == {}


@BOTH
def test_new_code_in_an_answer_is_stored_and_not_sent_back(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:  # EB-07
    handle = hook(client).handle("SubagentStart")
    answer = hook(client)("SubagentStop", last_assistant_message=f"I propose this:\n\n```python\n{CODE}```\n")
    name, pointer = handle.partition("/")[2], f"artifact:{digest(CODE.encode())}#L1-L4"
    told = f"Engram Bus: the code in the answer of {name} is at {pointer} for the others to read."
    assert answer == {"systemMessage": told}
    assert bus.speak_as(handle).deref_pointer(f"artifact:{digest(CODE.encode())}#L1-L4").excerpt == CODE


def test_where_stored_code_is_takes_few_tokens(hook: Callable[[str], Hook], bus: Bus) -> None:
    claude = hook("claude-code")
    claude("SubagentStart")
    blocks = "\n\n".join(f"Step {n}:\n\n```python\n{CODE.replace('refund', f'refund_{n}')}```" for n in range(5))
    told = claude("SubagentStop", last_assistant_message=f"Five steps.\n\n{blocks}\n")["systemMessage"]
    assert told.count("artifact:sha256:") == 3
    assert " and 2 more " in told
    assert estimate_tokens(told) <= 300


@BOTH
def test_an_answer_over_its_budget_is_sent_back_once_with_a_draft(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:
    handle = hook(client).handle("SubagentStart")
    result = hook(client)("SubagentStop", last_assistant_message=LONG)
    assert result["decision"] == "block"
    assert "BUDGET_EXCEEDED: The message is larger than its budget: tokens" in result["reason"]
    assert "TASK_STATUS" in result["reason"]
    assert "refund" not in result["reason"], "nothing of what was refused goes round again"
    resend = result["reason"].partition("filled in:\n")[2].replace("...", "The bank is asked again.")
    assert hook(client)("SubagentStop", last_assistant_message=resend, stop_hook_active=True) == {}
    (mail,) = bus.speak_as(hook(client).handle("SessionStart")).inbox().mail
    assert (mail.sender, mail.kind) == (handle.partition("/")[2], "answer")
    assert hook(client)("SubagentStop", last_assistant_message=LONG, stop_hook_active=True) == {}, "never twice"


@BOTH
def test_what_a_sub_agent_answers_is_kept(hook: Callable[[str], Hook], bus: Bus, client: str) -> None:
    lead, child = hook(client).handle("SessionStart"), hook(client).handle("SubagentStart")
    text = "The bank is asked twice. The second call has no key. Nobody noticed. It is in the gateway."
    assert hook(client)("SubagentStop", last_assistant_message=text) == {}
    (mail,) = bus.speak_as(lead).inbox().mail
    assert (mail.kind, mail.sender) == ("answer", child.partition("/")[2])
    assert 'summary: "The bank is asked twice. The second call has no key. Nobody noticed."' in mail.text
    kept = f"{text}\n"
    pointer = f"artifact:{digest(kept.encode())}#L1-L1"
    assert pointer in mail.text
    assert bus.speak_as(lead).deref_pointer(pointer).excerpt == kept


def test_an_answer_that_stays_too_long_is_kept_all_the_same(hook: Callable[[str], Hook], bus: Bus) -> None:
    claude = hook("claude-code")
    lead = claude.handle("SessionStart")
    assert claude("SubagentStop", last_assistant_message=LONG)["decision"] == "block"
    assert bus.speak_as(lead).inbox().mail == []
    assert claude("SubagentStop", last_assistant_message=LONG, stop_hook_active=True) == {}
    (mail,) = bus.speak_as(lead).inbox().mail
    kept = LONG.strip() + "\n"
    assert f"artifact:{digest(kept.encode())}" in mail.text


def test_a_sub_agent_that_says_nothing_sends_nothing(hook: Callable[[str], Hook], bus: Bus) -> None:
    claude = hook("claude-code")
    lead = claude.handle("SessionStart")
    assert claude("SubagentStop", last_assistant_message="\n") == {}
    assert bus.speak_as(lead).inbox().mail == []


@BOTH
def test_a_valid_report_is_stored_and_an_invalid_one_explained(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str
) -> None:
    handle = hook(client).handle("SubagentStart")
    ref = f"repo:src/parser.py#L1-L2@{repository.sha}"
    text = f"""ROLE: programmer
TASK_STATUS: done
ENGRAMS:
  - {{ kind: risk, claim: "The parser trusts its input.", pointers: ["{ref}"] }}
OUTPUT: One risk.
"""
    assert hook(client)("SubagentStop", last_assistant_message=text) == {}
    (matches,) = bus.query_engrams("parser trusts").engrams
    assert matches.provenance.created_by == handle
    for bad, code in (
        (text.replace("TASK_STATUS: done\n", ""), "MESSAGE_SECTION_MISSING"),
        (text.replace(repository.sha, "HEAD"), "POINTER_REVISION"),
        (text.replace("parser.py", "nowhere.py"), "FILE_NOT_FOUND"),
    ):
        result = hook(client)("SubagentStop", last_assistant_message=bad)
        assert result["decision"] == "block"
        assert code in result["reason"]
        assert hook(client)("SubagentStop", last_assistant_message=bad, stop_hook_active=True) == {}


@BOTH
def test_a_secret_is_stored_nowhere(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str, capfd: pytest.CaptureFixture[str]
) -> None:
    hook(client)("SubagentStart")
    result = hook(client)("SubagentStop", last_assistant_message=f"The key is {SECRET}.")
    assert result["decision"] == "block"
    assert "SECRET_FOUND" in result["reason"]
    for place in [json.dumps(result), *capfd.readouterr(), *_files(repository.path / ".catalog")]:
        assert SECRET not in place


def _files(folder: Path) -> list[str]:
    return [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]


@BOTH
@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop", "SubagentStop"])
def test_a_boundary_closes_the_turn(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str, event: str
) -> None:
    main, child = hook(client).handle("SessionStart"), hook(client).handle("SubagentStart")
    who = bus.speak_as(child if event == "SubagentStop" else main)
    for line in (1, 2, 3):
        who.deref_pointer(f"repo:src/parser.py#L{line}-L{line}@{repository.sha}")
    assert "Left this turn: 0 repo" in who.brief().lines[-1]
    assert hook(client)(event) == {}
    assert "Left this turn: 3 repo" in who.brief().lines[-1]


@BOTH
def test_a_spawn_is_denied_once_the_teams_budget_is_used_up(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str
) -> None:
    child = hook(client).handle("SubagentStart")
    assert hook(client)("PreToolUse") == {}
    bus.speak_as(child).deref_pointer(f"repo:src/parser.py#L1-L9@{repository.sha}")
    bus.apply_policy({"deref": {"tokens": 1200, "team_turns": 0}})
    result = hook(client)("PreToolUse")["hookSpecificOutput"]
    assert (result["hookEventName"], result["permissionDecision"]) == ("PreToolUse", "deny")
    assert "budget is used up" in result["permissionDecisionReason"]
    event = recorded_event(client, "PreToolUse", repository.path, tool_name="Bash")
    assert read_event(event) is None, "other tools are no business of ours"


REPORT = 'ROLE: programmer\nTASK_STATUS: done\nOUTPUT: "One risk in the parser."\n'
PARENT_BOUNDARIES = pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "SessionStart"])


@BOTH
@PARENT_BOUNDARIES
def test_what_waits_for_the_parent_is_shown_at_its_next_boundary_once(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str, event: str
) -> None:  # EB-16 EB-32
    lead, child = hook(client).handle("SessionStart"), hook(client).handle("SubagentStart")
    name = child.partition("/")[2]
    sent = bus.speak_as(child).send_message(REPORT)
    ref = f"repo:src/parser.py#L1-L30@{repository.sha}"
    asked = bus.speak_as(child).request_deref(ref, reason="To see the whole.", max_tokens=500)
    context = hook(client).context(event)
    lines = [line for line in context.splitlines() if line.startswith("- 01")]
    assert [line.split()[1:5] for line in lines] == [
        [sent.message_id[:13], "message", "from", f"{name},"],
        [asked.request_id[:13], "request", "from", f"{name},"],
    ]
    assert "done: One risk in the parser." in lines[0]
    assert "To see the whole." in lines[1]
    assert "Mail that waits for you on Engram Bus; less_inbox shows the whole of one by its id:" in context
    beginning = lines[0].split()[1]
    assert bus.speak_as(lead).read_mail(beginning).item == sent.message_id
    assert sent.message_id[:13] not in json.dumps(hook(client)(event)), "shown once"


@BOTH
def test_what_waits_takes_at_most_300_tokens_and_the_rest_is_counted(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:  # EB-16
    hook(client)("SessionStart")
    child = hook(client).handle("SubagentStart")
    count = 12
    for number in range(count):
        words = f"Finding {number}: {'the gateway asks the bank again and again ' * 6}"
        bus.speak_as(child).send_message(REPORT.replace("One risk in the parser.", words))
    shown = 0
    while shown < count:
        context = hook(client).context("UserPromptSubmit")
        assert estimate_tokens(context) <= 300
        lines = [line for line in context.splitlines() if line.startswith("- ")]
        assert [f"Finding {number}:" in line for number, line in enumerate(lines, shown)] == [True] * len(lines)
        shown += len(lines)
        assert context.endswith(f"+{count - shown} more in less_inbox.") == (shown < count)
    assert hook(client)("UserPromptSubmit") == {}


def test_mail_whose_line_is_too_long_is_counted(hook: Callable[[str], Hook], bus: Bus) -> None:
    claude = hook("claude-code")
    lead, child = claude.handle("SessionStart"), claude.handle("SubagentStart")
    bus.speak_as(child).send_message(REPORT.replace("One risk in the parser.", "\U0001f6a8\U00010900" * 75))
    assert claude.context("UserPromptSubmit") == "1 pieces of mail wait for you on Engram Bus, in less_inbox."
    assert bus.speak_as(lead).inbox(short=True).waiting == 1


@BOTH
def test_a_sub_agent_starts_with_what_waits_for_it(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str
) -> None:  # EB-16
    lead, child = hook(client).handle("SessionStart"), hook(client).handle("SubagentStart")
    pack = f'TARGET_POINTER_PACK: ["repo:src/parser.py#L1-L2@{repository.sha}"]'
    text = f'ROLE: architect\n{pack}\nINSTRUCTIONS: ["Look at the head only."]\n'
    bus.speak_as(lead).broadcast(text)
    grant = bus.speak_as(lead).issue_grant(child.partition("/")[2], "src/parser.py:1-9", cap_tokens=300)
    context = hook(client).context("SubagentStart")
    assert " broadcast from " in context
    assert "Look at the head only." in context
    assert f"- {grant.grant_id[:13]} grant from " in context
    assert "Mail that waits" not in hook(client).context("SubagentStart")


@BOTH
def test_a_stop_is_never_held_up_by_mail(hook: Callable[[str], Hook], bus: Bus, client: str) -> None:
    lead, child = hook(client).handle("SessionStart"), hook(client).handle("SubagentStart")
    bus.speak_as(child).send_message(REPORT)
    assert hook(client)("Stop") == {}
    assert bus.speak_as(lead).inbox(short=True).waiting == 1, "it is shown with the next prompt"
    assert hook(client)("SubagentStop") == {}
    assert "One risk in the parser." in hook(client).context("UserPromptSubmit")


@BOTH
def test_an_answer_that_the_client_hands_over_is_not_announced(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:
    hook(client)("SessionStart")
    hook(client)("SubagentStop", last_assistant_message="Only the gateway retries.")
    hook(client)("SubagentStop", last_assistant_message=REPORT)
    assert hook(client)("PostToolUse") == {}
    assert hook(client)("UserPromptSubmit") == {}


def test_peers_find_each_others_notes_at_their_next_prompt(hook: Callable[[str], Hook], bus: Bus) -> None:
    claude, codex = hook("claude-code"), hook("codex")
    one, two = claude.handle("SessionStart"), codex.handle("SessionStart")
    bus.speak_as(one).send_message("I change the parser now.", to=two)
    assert f" note from {one.partition('/')[2]}, just now: I change the parser now." in codex.context(
        "UserPromptSubmit"
    )


def test_other_tools_are_no_boundary(repository: Repository) -> None:
    for client in ("claude-code", "codex"):
        assert read_event(recorded_event(client, "PostToolUse", repository.path, tool_name="Bash")) is None


def test_a_sub_agents_prompt_closes_only_its_own_turn(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository
) -> None:
    """Codex reports a sub-agent's prompt as it does a person's, with the sub-agent named."""
    codex = hook("codex")
    main, child = codex.handle("SessionStart"), codex.handle("SubagentStart")
    for who in (main, child):
        for line in (1, 2, 3):
            bus.speak_as(who).deref_pointer(f"repo:src/parser.py#L{line}-L{line}@{repository.sha}")
    bus.speak_as(child).request_deref(f"repo:src/parser.py#L1-L9@{repository.sha}", reason="More.", max_tokens=500)
    event = read_event(recorded_event("codex", "SubagentPromptSubmit", repository.path))
    assert event is not None
    assert answer_event(event, codex.settings, Path("/")) == {}, (
        "what waits for the parent is not the child's to answer"
    )
    assert "Left this turn: 3 repo" in bus.speak_as(child).brief().lines[-1]
    assert "Left this turn: 0 repo" in bus.speak_as(main).brief().lines[-1]


@BOTH
def test_two_sessions_at_once_do_not_mix(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str
) -> None:
    one, two = hook(client), hook(client)
    first = one.handle("SubagentStart", session_id="one")
    second = two.handle("SubagentStart", session_id="two")
    assert first.partition("/")[0] != second.partition("/")[0]
    bus.speak_as(first).put_engram("Only the first run knows this.", at=["src/parser.py:1"], scope="run")
    assert "Only the first" not in two.context("SubagentStart", session_id="two", agent_id="b")
    assert "Only the first" in one.context("SubagentStart", session_id="one", agent_id="b")
    for line in (1, 2, 3):
        bus.speak_as(second).deref_pointer(f"repo:src/parser.py#L{line}-L{line}@{repository.sha}")
    one("SubagentStop", session_id="one")
    assert "Left this turn: 0 repo" in bus.speak_as(second).brief().lines[-1]


def test_a_brief_however_long_stays_within_what_clients_take(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository
) -> None:
    bus.apply_policy({"engrams_per_minute": 1000})
    for number in range(60):
        kind = ("constraint", "risk", "todo", "fact")[number % 4]
        claim = f"Rule {number} {'äöü ' * 60}".strip()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LimitWarning)  # rules with other numbers may contradict each other
            bus.put_engram(claim, at=[f"src/parser.py:{number % 9 + 1}"], kind=kind)  # type: ignore[arg-type]
    assert "Rule" in hook("claude-code").context("SubagentStart")


def test_where_no_hook_sets_the_caller_a_session_only_gets_the_brief(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository
) -> None:
    bus.put_engram("Refunds over 500 need a second approval.", at=["src/parser.py:3-4"], kind="constraint")
    context = hook("gemini").context("SessionStart")
    assert "Refunds over 500 need a second approval." in context
    assert "Your name" not in context, "its calls are those of the server's lead"
    runs = len(bus.list_runs().runs)
    for client, event in (("gemini", "BeforeAgent"), ("gemini", "AfterAgent"), ("cursor", "stop")):
        assert hook(client)(event) == {}
    assert len(bus.list_runs().runs) == runs


def test_without_a_project_a_hook_answers_nothing(tmp_path: Path, settings: Settings) -> None:
    hook = Hook("claude-code", tmp_path, settings)
    for event in ALLOWED:
        assert hook(event) == {}


def test_a_failure_allows_a_stop_and_denies_a_spawn(
    repository: Repository, settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    init_project(repository.path, settings)
    journal = repository.path / ".catalog" / "memory.jsonl"
    journal.write_bytes(b"not a journal\n" + journal.read_bytes())
    hook = Hook("claude-code", repository.path, settings)
    for event in ("SessionStart", "SubagentStart", "SubagentStop", "Stop", "UserPromptSubmit", "PostToolUse"):
        assert hook(event) == {}
    result = hook("PreToolUse")["hookSpecificOutput"]
    assert result["permissionDecision"] == "deny"
    assert "engrambus hook: " in capfd.readouterr().err


def test_through_a_gateway_the_tokens_agent_is_the_lead(gateway: Gateway, repository: Repository, bus: Bus) -> None:
    lead = bus.add_agent("lead", role="architect")
    with run_server(gateway, repository) as served:
        settings = Settings.from_environment(
            {"HOME": "/nowhere", "ENGRAMBUS_URL": f"http://127.0.0.1:{served.port}", "ENGRAMBUS_TOKEN": lead.token}
        )
        hook = Hook("codex", Path("/nowhere"), settings)
        name = hook.agent_name("SubagentStart")
        assert hook("SubagentStop", last_assistant_message=LONG)["decision"] == "block"
        assert "architect" in hook.context("SessionStart")
    rows = {row.agent_id: row.parent for row in bus.list_agents().agents}
    assert rows == {"lead": None, name: "lead"}
    hook = Hook("codex", Path("/nowhere"), settings)
    assert hook("SubagentStop", last_assistant_message=LONG) == {}, "nobody answers any more"
    assert hook("PreToolUse")["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    "recorded", sorted(PAYLOADS.rglob("*.json")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_the_executable_answers_every_recorded_event_with_one_object(shell: Shell, recorded: Path) -> None:
    result = shell.process("hook", stdin=recorded_event(recorded.parent.name, recorded.stem, shell.path))
    assert (result.code, result.err) == (0, "")
    assert isinstance(result.json, dict)


@pytest.mark.parametrize("given", [b"", b"{", b"[]", b'{"hook_event_name": "Stop"}', b'{"cwd": 1}', b"\xff"])
def test_input_that_is_no_event_is_reported_without_a_decision(shell: Shell, given: bytes) -> None:
    result = shell.process("hook", stdin=given)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("engrambus hook: ")
    assert result.err.count("\n") == 1


def test_several_sub_agents_may_start_at_once(shell: Shell) -> None:
    names = [f"agent-{number}" for number in range(6)]
    started = [
        subprocess.Popen([COMMAND, "hook"], cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in names
    ]
    for process, name in zip(started, names, strict=True):
        assert process.stdin is not None
        process.stdin.write(recorded_event("claude-code", "SubagentStart", shell.path, agent_id=name))
        process.stdin.close()
    handles = set()
    for process in started:
        assert process.stdout is not None
        with process.stdout as out:
            handles.add(out.read().partition(b"Your name there is ")[2].partition(b";")[0].decode())
        assert process.wait(60) == 0
    rows = shell.ok("agent", "list", "--json", "--as", next(iter(handles))).json
    assert {row["agent_id"] for row in rows["agents"] if row.get("parent")} == handles
    assert len(handles) == len(names)


def test_unknown_events_are_allowed(shell: Shell) -> None:
    result = shell.process("hook", stdin=b'{"hook_event_name": "TeammateIdle", "session_id": "x"}')
    assert (result.code, result.json) == (0, {})


@pytest.mark.parametrize(
    "given",
    [
        b'{"hook_event_name": "PreToolUse", "tool_name": "Agent"}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "Task", "session_id": 7}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "spawn_agent", "session_id": "s", "cwd": ["/"]}',
    ],
)
def test_an_invalid_spawn_event_is_denied(shell: Shell, given: bytes) -> None:
    result = shell.process("hook", stdin=given)
    assert result.code == 0
    assert result.json["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert result.err.startswith("engrambus hook: FIELD_")


def test_invalid_settings_allow_a_stop_and_deny_a_spawn(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAMBUS_URL", "ftp://nowhere")
    monkeypatch.setenv("ENGRAMBUS_TOKEN", "x")
    stopped = shell.process("hook", stdin=recorded_event("claude-code", "SubagentStop", shell.path))
    assert (stopped.json, stopped.err.count("\n")) == ({}, 1)
    spawned = shell.process("hook", stdin=recorded_event("claude-code", "PreToolUse", shell.path))
    assert spawned.json["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_an_answer_with_half_a_surrogate_pair_is_still_checked(shell: Shell) -> None:
    given = recorded_event("claude-code", "SubagentStop", shell.path, last_assistant_message=LONG + "\ud83d")
    assert b"\\ud83d" in given
    assert shell.process("hook", stdin=given).json["decision"] == "block"


def test_a_locked_store_allows_a_stop_and_denies_a_spawn(shell: Shell) -> None:
    events = ("SubagentStop", "PreToolUse")
    with (shell.path / ".catalog" / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pipe = subprocess.PIPE
        started = [subprocess.Popen([COMMAND, "hook"], cwd="/", stdin=pipe, stdout=pipe, stderr=pipe) for _ in events]
        stop, spawn = (
            process.communicate(recorded_event("claude-code", event, shell.path), timeout=60)
            for process, event in zip(started, events, strict=True)
        )
    late = b"engrambus hook: no answer within 4 seconds\n"
    assert stop == (b"{}\n", late)
    assert spawn[1] == late
    assert json.loads(spawn[0])["hookSpecificOutput"]["permissionDecision"] == "deny"
