"""What comes of a child's answer and of a parent's broadcast."""  # EB-18

from __future__ import annotations

import pytest

from engrambus import Accepted, Bus, Hooks, Refused, Rejected, Sent
from engrambus.core import estimate_tokens
from engrambus.errors import TokenInvalid, Unreachable
from engrambus.evidence.pointers import compact_ref
from tests.orchestrator_hooks.conftest import Team
from tests.projects import commit_files

PASTED = "for name in names:\\n    if name not in seen:\\n        seen.add(name)\\n        yield name\\n"


def report(*claims: str, at: str, summary: str = "Done.", more: str = "") -> str:
    """A child's message."""
    engrams = "".join(f'  - {{ kind: fact, claim: "{claim}", pointers: ["{at}"] }}\n' for claim in claims)
    return f'ROLE: programmer\nTASK_STATUS: done\nENGRAMS:\n{engrams}{more}OUTPUT: "{summary}"\n'


def test_a_valid_answer_within_its_budget_is_accepted(team: Team) -> None:
    wish = f'DEREF_REQUESTS:\n  - {{ pointer: "{team.ref()}", reason: "To see the end." }}\n'
    text = report("The parser trusts its input.", "The parser is small.", at=team.ref(), more=wish)
    outcome = team.hooks.on_child_response("ada", text)
    assert isinstance(outcome, Accepted)
    assert (outcome.to, outcome.turn, outcome.resends) == ("lead", 2, None)
    assert len(outcome.engrams) == 2
    engram = team.bus.get_engram(outcome.engrams[0])
    assert engram.claim == "The parser trusts its input."
    assert engram.provenance.created_by.endswith("/ada")
    assert engram.provenance.source == "agent"
    assert [request.request_id for request in team.bus.list_requests().requests] == list(outcome.requests)
    assert outcome.message_id in [mail.item for mail in team.bus.inbox().mail]


def test_pasted_code_is_rejected_with_a_template_whose_resend_is_linked(team: Team) -> None:
    outcome = team.hooks.on_child_response("ada", report("It is small.", at=team.ref(), summary=PASTED))
    assert isinstance(outcome, Rejected)
    assert "characters of code" in outcome.reason
    assert outcome.exceeded[0]["what"] == "inline_code_chars"
    assert outcome.exceeded[0]["limit"] == 0
    assert compact_ref(team.ref(), 12) in outcome.resend
    assert "yield" not in outcome.resend
    repeated = team.hooks.on_child_response("ada", outcome.resend.replace('"..."', '"It filters names."'))
    assert isinstance(repeated, Accepted)
    assert repeated.resends is not None
    assert isinstance(next_one := team.hooks.on_child_response("ada", report(at=team.ref())), Accepted)
    assert next_one.resends is None


def test_a_grant_lets_a_child_send_code_of_its_file(team: Team) -> None:
    sha = commit_files(team.repository.path, {"src/names.py": PASTED.replace("\\n", "\n")})
    grant = team.bus.issue_grant("ada", f"repo:src/names.py@{sha}", inline_code_chars=200)
    text = report("It is small.", at=team.ref(), summary=PASTED)
    assert isinstance(team.hooks.on_child_response("ada", text, budget_token=grant.budget_token), Accepted)


def test_budgets_of_a_broadcast_bind_the_next_answer(team: Team) -> None:
    sent = team.hooks.on_parent_broadcast("lead", "ROLE: architect\nBUDGETS: { max_engrams: 1 }\n")
    assert isinstance(sent, Sent)
    outcome = team.hooks.on_child_response("ben", report("One.", "Two.", at=team.ref()))
    assert isinstance(outcome, Rejected)
    assert [item["what"] for item in outcome.exceeded] == ["engrams"]


@pytest.mark.parametrize(
    ("child", "text", "code"),
    [
        ("ada", "", "MESSAGE_EMPTY"),
        ("ada", " \n", "MESSAGE_EMPTY"),
        ("ada", "The key is AKIA" + "IOSFODNN7EXAMPLQ.", "SECRET_FOUND"),
        ("ada", "ROLE: programmer\nTASK_STATUS: done\n", "MESSAGE_SECTION_MISSING"),
        ("ada", "ROLE: architect\nTASK_STATUS: done\nOUTPUT: Done.\n", "MESSAGE_ROLE"),
        ("ada", report("No. More. Than. Three.", at="repo:x@" + "0" * 40), "CLAIM_TOO_MANY_SENTENCES"),
        ("ada", report("It is gone.", at="repo:gone.py@" + "0" * 40), "REVISION_NOT_FOUND"),
        ("ada", report(at="", summary="The key is AKIA" + "IOSFODNN7EXAMPLQ"), "SECRET_FOUND"),
        ("stranger", "ROLE: programmer\nTASK_STATUS: done\nOUTPUT: Done.\n", "NOT_YOUR_DESCENDANT"),
        ("nobody", "ROLE: programmer\nTASK_STATUS: done\nOUTPUT: Done.\n", "AGENT_NOT_FOUND"),
    ],
)
def test_other_refusals_are_outcomes_too(team: Team, child: str, text: str, code: str) -> None:
    outcome = team.hooks.on_child_response(child, text)
    assert isinstance(outcome, Refused)
    assert outcome.code == outcome.problem.code == code


def test_a_short_answer_in_prose_is_the_summary(team: Team) -> None:
    outcome = team.hooks.on_child_response("ada", "Sure, here is what I found!")
    assert isinstance(outcome, Accepted)
    assert (outcome.to, outcome.engrams, outcome.requests, outcome.pointer) == ("lead", (), (), None)
    (mail,) = team.bus.inbox().mail
    assert (mail.kind, mail.item, mail.sender) == ("message", outcome.message_id, "ada")
    assert mail.text == ('ROLE: programmer\nTASK_STATUS: done\nOUTPUT:\n  summary: "Sure, here is what I found!"\n')


LONG = "## Result\n\nThe bank is asked twice. The second call has no key. A customer can be paid twice.\n\n" + (
    "It was not easy to find out, since the gateway hides it well. " * 90
)


def test_prose_of_any_length_is_kept_whole_and_its_first_sentences_are_sent(team: Team) -> None:
    outcome = team.hooks.on_child_response("ada", LONG)
    assert isinstance(outcome, Accepted)
    assert outcome.pointer is not None
    (mail,) = team.bus.inbox().mail
    assert "Result: The bank is asked twice. The second call has no key. A customer can be paid twice." in mail.text
    assert outcome.pointer in mail.text
    assert estimate_tokens(mail.text) < 200
    assert team.bus.deref_pointer(outcome.pointer, max_tokens=1000).excerpt.startswith("## Result\n\nThe bank")


def test_prose_keeps_to_the_budget_that_its_parent_set(team: Team) -> None:
    team.hooks.on_parent_broadcast("lead", "ROLE: architect\nBUDGETS: { max_inline_tokens: 150 }\n")
    outcome = team.hooks.on_child_response("ada", "A sentence with some words that goes on for a while. " * 90)
    assert isinstance(outcome, Accepted)
    assert estimate_tokens(team.bus.inbox().mail[-1].text) <= 150
    team.hooks.on_parent_broadcast("lead", "ROLE: architect\nBUDGETS: { max_inline_tokens: 40 }\n")
    rejected = team.hooks.on_child_response("ada", "A sentence with some words that goes on for a while. " * 90)
    assert isinstance(rejected, Rejected)


def test_code_in_prose_is_pointed_at(team: Team) -> None:
    code = PASTED.replace("\\n", "\n")
    outcome = team.hooks.on_child_response("ada", f"I propose this:\n\n```\n{code}```\n")
    assert isinstance(outcome, Accepted)
    (pointer,) = outcome.pointers
    (mail,) = team.bus.inbox().mail
    assert pointer in mail.text
    assert "yield name" not in mail.text
    assert team.bus.deref_pointer(pointer).excerpt == code


def test_prose_that_is_handed_in_closes_the_turn(team: Team) -> None:
    for line in (1, 2, 3):
        team.bus.speak_as("ada").deref_pointer(team.ref(lines=f"L{line}-L{line}"))
    outcome = team.hooks.on_child_response("ada", "I have read three lines.")
    assert isinstance(outcome, Accepted)
    assert outcome.turn == 2


def test_an_answer_after_the_run_has_ended_is_refused(team: Team) -> None:
    run = team.admin.list_agents().run_id
    team.admin.end_run(run)
    outcome = team.hooks.on_child_response("ada", report("Too late.", at=team.ref()))
    assert isinstance(outcome, Refused)
    assert outcome.code == "RUN_ENDED"


def test_a_broadcast_says_who_got_it(team: Team) -> None:
    text = 'ROLE: architect\nSHARED_BRIEF_MICRO: ["Mine."]\nINSTRUCTIONS: ["Read."]\n'
    everyone = team.hooks.on_parent_broadcast("lead", text)
    assert isinstance(everyone, Sent)
    assert everyone.to == ("ada", "ben")
    one = team.hooks.on_parent_broadcast("lead", text, to=["ben"])
    assert isinstance(one, Sent)
    assert one.to == ("ben",)
    assert len(team.bus.speak_as("ada").inbox().mail) == 1
    mail = team.bus.speak_as("ben").inbox().mail[-1]
    assert mail.item == one.broadcast_id
    assert "Mine." in mail.text


def test_a_broadcast_without_a_brief_carries_the_teams(team: Team) -> None:
    team.hooks.on_child_response("ada", report("The parser trusts its input.", at=team.ref()))
    assert isinstance(team.hooks.on_parent_broadcast("lead", 'ROLE: architect\nINSTRUCTIONS: ["Go on."]\n'), Sent)
    text = team.bus.speak_as("ben").inbox().mail[-1].text
    assert "The parser trusts its input." in text
    assert "Left this turn" not in text


def test_a_broadcast_carries_pointers_and_the_limits_in_force(team: Team) -> None:
    team.hooks.on_child_response("ada", report("The parser trusts its input.", at=team.ref()))
    assert isinstance(team.hooks.on_parent_broadcast("lead", 'ROLE: architect\nINSTRUCTIONS: ["Go on."]\n'), Sent)
    text = team.bus.speak_as("ben").inbox().mail[-1].text
    assert f'TARGET_POINTER_PACK:\n  - {{ type: "repo", ref: "{team.ref()}"' in text
    limits = "max_engrams: 12 max_repo_spans: 3 max_artifact_sections: 2 max_sam_items: 2"
    assert text.partition("BUDGETS:\n")[2].split()[:8] == limits.split()
    assert "max_inline_tokens: 800" in text
    team.admin.apply_policy({"inline": {"max_engrams": 20}})
    assert team.bus.speak_as("ben").team_budget().inline.max_engrams == 20, "a limit that is shown is not set"


def test_each_child_gets_the_pointers_of_its_own_brief(team: Team) -> None:
    """A file that only ada has read leads her to what is known about it."""
    sha = commit_files(team.repository.path, {"src/ledger.py": "one\ntwo\nthree\n"})
    team.bus.speak_as("ada").deref_pointer(f"repo:src/ledger.py#L1-L1@{sha}")
    for number in range(1, 30):
        team.bus.put_engram(f"Parser line {number} is as quiet as it can be.", at=[f"src/parser.py:{number}"])
        if number == 1:
            team.bus.put_engram("The ledger posts once.", at=["src/ledger.py:2-3"])
    team.hooks.on_parent_broadcast("lead", 'ROLE: architect\nINSTRUCTIONS: ["Go on."]\n')
    packs = {
        name: team.bus.speak_as(name).inbox().mail[-1].text.partition("TARGET_POINTER_PACK:")[2]
        for name in ("ada", "ben")
    }
    assert "src/ledger.py" in packs["ada"]
    assert "src/ledger.py" not in packs["ben"]


def test_limits_that_the_parent_writes_are_set_and_the_others_shown(team: Team) -> None:
    text = "ROLE: architect\nBUDGETS: { max_repo_spans: 1 }\nINSTRUCTIONS: [ Go on. ]\n"
    team.hooks.on_parent_broadcast("lead", text, to=["role:programmer"])
    mail = team.bus.speak_as("ben").inbox().mail[-1].text
    assert "max_repo_spans: 1" in mail
    assert "max_deref_tokens: 1200" in mail
    assert "1 repo" in team.bus.speak_as("ben").brief().lines[-1]


def test_pointers_that_the_parent_writes_are_left_alone(team: Team) -> None:
    team.hooks.on_child_response("ada", report("The parser trusts its input.", at=team.ref()))
    own = team.ref(lines="L1-L2")
    text = f'ROLE: architect\nTARGET_POINTER_PACK: ["{own}"]\nINSTRUCTIONS: ["Go on."]\n'
    team.hooks.on_parent_broadcast("lead", text)
    pack = team.bus.speak_as("ben").inbox().mail[-1].text.partition("TARGET_POINTER_PACK:")[2]
    assert own in pack
    assert team.ref() not in pack


def test_a_broadcast_with_short_pointers_carries_the_brief_too(team: Team) -> None:
    team.hooks.on_child_response("ada", report("The parser trusts its input.", at=team.ref()))
    text = '{"role": "architect", "TARGET_POINTER_PACK": ["src/parser.py:10-20"]}'
    assert isinstance(team.hooks.on_parent_broadcast("lead", text), Sent)
    mail = team.bus.speak_as("ben").inbox().mail[-1].text
    assert "The parser trusts its input." in mail
    assert f'ref: "{team.ref()}"' in mail


def test_a_brief_that_would_not_fit_is_left_out(team: Team) -> None:
    team.hooks.on_child_response("ada", report("The parser trusts its input.", at=team.ref()))
    lines = "".join(f'  - "{"word " * 60}{number}"\n' for number in range(10))
    assert isinstance(team.hooks.on_parent_broadcast("lead", f"ROLE: architect\nINSTRUCTIONS:\n{lines}"), Sent)
    assert "trusts" not in team.bus.speak_as("ben").inbox().mail[-1].text


def test_a_broadcast_is_rejected_and_refused_like_an_answer(team: Team) -> None:
    long = 'ROLE: architect\nINSTRUCTIONS: ["' + "word " * 900 + '"]\n'
    rejected = team.hooks.on_parent_broadcast("lead", long)
    assert isinstance(rejected, Rejected)
    assert rejected.exceeded[0]["what"] == "inline_tokens"
    assert isinstance(team.hooks.on_parent_broadcast("lead", rejected.resend.replace("...", "Go.")), Sent)
    text = 'ROLE: architect\nINSTRUCTIONS: ["Go."]\n'
    for parent, to, code in (
        ("lead", ["stranger"], "NOT_YOUR_DESCENDANT"),
        ("ada", [], "ROLE_FORBIDDEN"),
        ("nobody", [], "AGENT_NOT_FOUND"),
    ):
        refused = team.hooks.on_parent_broadcast(parent, text, to=to)
        assert isinstance(refused, Refused)
        assert refused.code == code
    assert isinstance(team.hooks.on_parent_broadcast("lead", "no message"), Refused)


def test_no_token_and_no_gateway_are_raised(team: Team) -> None:
    with pytest.raises(Unreachable):
        Hooks(Bus.connect("http://127.0.0.1:9", token="engrambus1.YQ.Yg")).on_child_response("ada", "ROLE: programmer")
    with team.open("engrambus1.no.token") as bus, pytest.raises(TokenInvalid):
        Hooks(bus).on_parent_broadcast("lead", 'ROLE: architect\nINSTRUCTIONS: ["Go."]\n')
