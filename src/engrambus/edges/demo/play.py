"""What the team does, scene by scene. No model is called: what the agents say is scripted; all else is real."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engrambus.edges.cli.screen import counted
from engrambus.edges.demo.bill import Bill
from engrambus.edges.demo.stage import Stage
from engrambus.edges.demo.survey import Finding, Place, Survey
from engrambus.edges.hooks import Accepted, Hooks, Rejected, Sent
from engrambus.edges.sdk import Bus
from engrambus.errors import EngramBusError, Internal
from engrambus.knowledge.engrams import Kind

GOAL = "A review in a minute: engrambus demo"
AGENTS = {"lead": "architect", "ada": "programmer", "ben": "programmer", "cleo": "programmer"}
CHILDREN = ("ada", "ben", "cleo")
BUDGETS = "{ max_engrams: 3, max_repo_spans: 2, max_inline_tokens: 400 }"
READ_TOKENS = 500
TTL = "P1D"
"""What is said here is of no use for longer."""


def _text(answer: msgspec.Struct) -> str:
    """An answer as it travels."""
    return msgspec.json.encode(answer).decode()


def play(bus: Bus, survey: Survey, sha: str, bill: Bill, stage: Stage) -> None:
    """Let the team review what was found; the bus is the admin's, in a run of the play's own."""
    bus.add_agent("lead", role="architect")
    for name in CHILDREN:
        bus.add_agent(name, role="programmer", parent="lead")
    team = _Team(bus, survey, sha, bill, stage)
    team.hand_out()
    team.say_too_much()
    team.ask_for_more()
    team.find_the_contradiction()
    team.close()


class _Team:
    def __init__(self, bus: Bus, survey: Survey, sha: str, bill: Bill, stage: Stage) -> None:
        self._bus, self._hooks = bus, Hooks(bus)
        self._survey, self._sha = survey, sha
        self._bill, self._stage = bill, stage

    def hand_out(self) -> None:
        """The lead says what to do, and where to look."""
        found = self._survey
        self._stage.scene("The lead hands out the work")
        pack = [found.block.place, found.caught.place, found.left_open.place]
        text = "\n".join(
            [
                "ROLE: architect",
                'SHARED_BRIEF_MICRO: "We review this commit. Say what you find as claims, and point at the lines."',
                f"BUDGETS: {BUDGETS}",
                f"TARGET_POINTER_PACK: {self._refs(pack)}",
                'INSTRUCTIONS: [ "Ada: structure. Ben: errors. Cleo: what was left open, and what does not fit." ]',
                "",
            ]
        )
        self._tell(text, f"{len(pack)} pointers, no content")

    def say_too_much(self) -> None:
        """Ada pastes what she read, is sent back, and points instead."""
        block = self._survey.block
        size = block.place.last - block.place.first + 1
        self._stage.scene("Ada reads, and pastes what she read")
        pasted = self._read("ada", block.place)
        claim = f"{block.name} is {size} lines long: split it before anyone changes it."
        text = self._report([Finding("risk", claim, block.place)], "The lines are:", pasted)
        template = self._answer("ada", text)
        if template is None:
            raise Internal("The message with the pasted lines was taken.")
        self._stage.act("ada", "puts a pointer where the lines were, and sends it again")
        self._answer("ada", template.replace('"..."', '"It is one long function; the pointer shows it."'))

    def ask_for_more(self) -> None:
        """Ben needs a third place, and his turn allows two."""
        found, block = self._survey, self._survey.block
        self._stage.scene("Ben needs to read more than his turn allows")
        self._read("ben", found.caught.place)
        self._read("ben", block.branching)
        if not self._read("ben", found.untested.place):
            self._ask("ben", found.untested.place, "Is this covered by a test?")
            self._read("ben", found.untested.place)
        claim = f"{block.name} handles {block.branches} cases one after the other: it can stay whole."
        said = [found.caught, Finding("fact", claim, block.branching)]
        self._answer("ben", self._report(said, "One finding, and one thing to leave alone."))

    def find_the_contradiction(self) -> None:
        """Cleo asks what the others know, and finds that two of them disagree."""
        found, block = self._survey, self._survey.block
        self._stage.scene("Cleo asks what the others know, and finds a contradiction")
        answer = self._bus.speak_as("cleo").query_engrams(q=block.name, k=4, scope="run")
        cost = self._bill.said("queries and briefs", _text(answer), ["cleo"])
        self._stage.act("cleo", f"asks about {block.name}, and gets {counted(len(answer.engrams), 'engram')}", cost)
        for engram in answer.engrams:
            author = engram.provenance.created_by.rpartition("/")[2]
            self._stage.act("", f"{author}, {engram.kind}: {engram.claim}", style="dim")
        claim = f"Ada wants {block.name} split, Ben wants it left alone. Decide before it is edited."
        text = self._report(
            [found.left_open, found.untested],
            "One contradiction, two gaps.",
            extra=("risk", claim, [block.place, block.branching]),
        )
        self._stage.act("cleo", f"points at both: {claim}", style="yellow")
        self._answer("cleo", text)

    def close(self) -> None:
        """The lead reads the brief, decides, and tells everybody."""
        block = self._survey.block
        self._stage.scene("The lead reads the brief, decides, and tells everybody")
        lead = self._bus.speak_as("lead")
        brief = lead.brief()
        self._stage.act("lead", "reads the brief", self._bill.said("queries and briefs", _text(brief), ["lead"]))
        self._stage.quote(brief.lines)
        decision = lead.put_engram(
            f"{block.name} is split when it is next changed, and not before.",
            kind="decision",
            at=[f"{block.place.path}:{block.place.first}-{block.place.last}@{self._sha}"],
            scope="run",
            ttl=TTL,
        )
        self._stage.act("lead", f"decides: {decision.claim}")
        self._tell(
            'ROLE: architect\nINSTRUCTIONS: [ "Ben fixes what he found; Cleo writes the missing test." ]\n',
            "with the brief attached",
        )

    def _tell(self, text: str, told: str) -> None:
        outcome = self._hooks.on_parent_broadcast("lead", text)
        if not isinstance(outcome, Sent):
            raise Internal(f"The lead's message was not sent: {outcome}.")
        mail = self._bus.speak_as(outcome.to[0]).inbox(k=100).mail[-1].text
        cost = self._bill.said("lead → children", mail, outcome.to)
        self._stage.act("lead", f"→ {', '.join(outcome.to)}: {told}", cost)

    def _answer(self, child: str, text: str) -> str | None:
        """Send a child's message; gives back what to send instead when it was too large."""
        match self._hooks.on_child_response(child, text):
            case Accepted(engrams=engrams, resends=resends):
                cost = self._bill.said("children → lead", text, ["lead"])
                again = ", in place of the one sent back" if resends else ""
                self._stage.act(
                    child, f"→ lead: accepted, {counted(len(engrams), 'engram')}{again}", cost, style="green"
                )
                return None
            case Rejected(reason=reason, resend=resend):
                cost = self._bill.pulled("sent back", text + reason + resend)
                self._stage.act(child, f"→ lead: BUDGET_EXCEEDED. {reason}", cost, style="red")
                self._stage.quote(resend.splitlines())
                return resend
            case refused:
                raise refused.problem

    def _read(self, child: str, place: Place) -> str:
        """What stands at a place, or nothing when the turn does not allow it."""
        try:
            answer = self._bus.speak_as(child).deref_pointer(place.ref(self._sha), max_tokens=READ_TOKENS)
        except EngramBusError as problem:
            self._stage.act(child, f"may not read {place}: {problem.code}. {problem.detail}", style="red")
            return ""
        cut = ", cut to fit" if answer.truncated else ""
        self._stage.act(child, f"reads {place}{cut}", self._bill.pulled("dereferences", _text(answer)))
        return answer.excerpt

    def _ask(self, child: str, place: Place, reason: str) -> None:
        asked = self._bus.speak_as(child).request_deref(place.ref(self._sha), reason=reason)
        self._stage.act(child, f"asks {asked.asked}: {reason}")
        lead = self._bus.speak_as("lead")
        for request in lead.list_requests().requests:
            lead.approve_request(request.request_id, cap_tokens=READ_TOKENS)
            self._stage.act("lead", f"grants {request.agent} {READ_TOKENS} tokens there, once", style="green")

    def _report(
        self,
        findings: Sequence[Finding],
        summary: str,
        pasted: str = "",
        *,
        extra: tuple[Kind, str, list[Place]] | None = None,
    ) -> str:
        """A child's message."""
        said = [(each.kind, each.claim, [each.place]) for each in findings] + ([extra] if extra else [])
        lines = ["ROLE: programmer", "TASK_STATUS: done", "ENGRAMS:"]
        for kind, claim, places in said:
            lines += [f"  - kind: {kind}", f'    claim: "{claim}"', f"    pointers: {self._refs(places)}"]
            lines += ["    scope: run", f"    ttl: {TTL}"]
        if pasted:
            lines += ["OUTPUT:", "  summary: |", f"    {summary}"]
            lines += [f"      {line}" for line in pasted.expandtabs().splitlines()]
        else:
            lines.append(f'OUTPUT: "{summary}"')
        return "\n".join(lines) + "\n"

    def _refs(self, places: Sequence[Place]) -> str:
        return "[ " + ", ".join(f'"{place.ref(self._sha)}"' for place in places) + " ]"
