"""The review, part by part: what each agent reads, puts, asks for and decides."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engrambus import Bus, EngramBusError, Hooks, Kind
from engrambus.edges.cli.screen import counted
from engrambus.edges.sdk.hooks import Accepted, Rejected, Sent
from engrambus.errors import Internal

from .output import DemoOutput
from .survey import ReviewFinding, Span, Survey
from .token_count import TokenCount

GOAL = "A review in a minute: engrambus demo"
AGENTS = {"lead": "architect", "ada": "programmer", "ben": "programmer", "cleo": "programmer"}
CHILDREN = ("ada", "ben", "cleo")
BUDGETS = "{ max_engrams: 3, max_repo_spans: 2, max_inline_tokens: 400 }"
READ_TOKENS = 500
TTL = "P1D"


def run_review(bus: Bus, survey: Survey, sha: str, count: TokenCount, output: DemoOutput) -> None:
    """Let the team review the surveyed spans; `bus` acts as admin in a run of the demo's own."""
    bus.add_agent("lead", role="architect")
    for name in CHILDREN:
        bus.add_agent(name, role="programmer", parent="lead")
    review = _Review(bus, survey, sha, count, output)
    review.assign_work()
    review.paste_and_resend()
    review.request_more_reading()
    review.report_contradiction()
    review.decide()


class _Review:
    def __init__(self, bus: Bus, survey: Survey, sha: str, count: TokenCount, output: DemoOutput) -> None:
        self._bus, self._hooks = bus, Hooks(bus)
        self._survey, self._sha = survey, sha
        self._count, self._output = count, output

    def assign_work(self) -> None:
        """The lead broadcasts the work and pointers to it."""
        survey = self._survey
        self._output.heading("The lead assigns the work")
        spans = [survey.function.span, survey.error_handling.span, survey.todo.span]
        text = "\n".join(
            [
                "ROLE: architect",
                'SHARED_BRIEF_MICRO: "We review this commit. Report findings as claims that point at the lines."',
                f"BUDGETS: {BUDGETS}",
                f"TARGET_POINTER_PACK: {self._refs(spans)}",
                'INSTRUCTIONS: [ "Ada: structure. Ben: errors. Cleo: open TODOs and contradictions." ]',
                "",
            ]
        )
        self._broadcast(text, f"{len(spans)} pointers, no content")

    def paste_and_resend(self) -> None:
        """Ada pastes code into her message, is refused, and sends a pointer instead."""
        function = self._survey.function
        size = function.span.last - function.span.first + 1
        self._output.heading("Ada reads a function and pastes it into her message")
        excerpt = self._read("ada", function.span)
        claim = f"{function.name} is {size} lines long: split it before anyone changes it."
        text = self._message([ReviewFinding("risk", claim, function.span)], "The lines are:", excerpt)
        template = self._send("ada", text)
        if template is None:
            raise Internal("The message with the pasted lines was accepted.")
        self._output.step("ada", "puts a pointer where the lines were, and sends it again")
        self._send("ada", template.replace('"..."', '"It is one long function; the pointer shows it."'))

    def request_more_reading(self) -> None:
        """Ben needs a third dereference, and his turn allows two."""
        survey, function = self._survey, self._survey.function
        self._output.heading("Ben needs to read more than his turn allows")
        self._read("ben", survey.error_handling.span)
        self._read("ben", function.branching)
        if not self._read("ben", survey.untested.span):
            self._request("ben", survey.untested.span, "Is this covered by a test?")
            self._read("ben", survey.untested.span)
        claim = f"{function.name} handles {function.branches} cases one after the other: it can stay whole."
        findings = [survey.error_handling, ReviewFinding("fact", claim, function.branching)]
        self._send("ben", self._message(findings, "One finding, and one thing to leave alone."))

    def report_contradiction(self) -> None:
        """Cleo queries what the others found and reports that two of them disagree."""
        survey, function = self._survey, self._survey.function
        self._output.heading("Cleo asks what the others know, and finds a contradiction")
        answer = self._bus.speak_as("cleo").query_engrams(q=function.name, k=4, scope="run")
        tokens = self._count.add_message("queries and briefs", _json(answer), ["cleo"])
        self._output.step(
            "cleo", f"asks about {function.name}, and gets {counted(len(answer.engrams), 'engram')}", tokens
        )
        for engram in answer.engrams:
            author = engram.provenance.created_by.rpartition("/")[2]
            self._output.step("", f"{author}, {engram.kind}: {engram.claim}", style="dim")
        claim = f"Ada wants {function.name} split, Ben wants it left alone. Decide before it is edited."
        text = self._message(
            [survey.todo, survey.untested],
            "One contradiction, two gaps.",
            contradiction=("risk", claim, [function.span, function.branching]),
        )
        self._output.step("cleo", f"points at both: {claim}", style="yellow")
        self._send("cleo", text)

    def decide(self) -> None:
        """The lead reads the brief, decides, and informs the team."""
        function = self._survey.function
        self._output.heading("The lead reads the brief, decides, and informs the team")
        lead = self._bus.speak_as("lead")
        brief = lead.brief()
        self._output.step(
            "lead", "reads the brief", self._count.add_message("queries and briefs", _json(brief), ["lead"])
        )
        self._output.quote(brief.lines)
        decision = lead.put_engram(
            f"{function.name} is split when it is next changed, and not before.",
            kind="decision",
            at=[f"{function.span.path}:{function.span.first}-{function.span.last}@{self._sha}"],
            scope="run",
            ttl=TTL,
        )
        self._output.step("lead", f"decides: {decision.claim}")
        self._broadcast(
            'ROLE: architect\nINSTRUCTIONS: [ "Ben fixes his finding; Cleo writes the missing test." ]\n',
            "with the brief attached",
        )

    def _broadcast(self, text: str, description: str) -> None:
        outcome = self._hooks.on_parent_broadcast("lead", text)
        if not isinstance(outcome, Sent):
            raise Internal(f"The lead's message was not sent: {outcome}.")
        received = self._bus.speak_as(outcome.to[0]).inbox(k=100).mail[-1].text
        tokens = self._count.add_message("lead → children", received, outcome.to)
        self._output.step("lead", f"→ {', '.join(outcome.to)}: {description}", tokens)

    def _send(self, child: str, text: str) -> str | None:
        """Send a child's message; return the resend template if it exceeded its budget."""
        match self._hooks.on_child_response(child, text):
            case Accepted(engrams=engrams, resends=resends):
                tokens = self._count.add_message("children → lead", text, ["lead"])
                suffix = ", replacing the refused message" if resends else ""
                action = f"→ lead: accepted, {counted(len(engrams), 'engram')}{suffix}"
                self._output.step(child, action, tokens, style="green")
                return None
            case Rejected(reason=reason, resend=resend):
                tokens = self._count.add_overhead("refused", text + reason + resend)
                self._output.step(child, f"→ lead: BUDGET_EXCEEDED. {reason}", tokens, style="red")
                self._output.quote(resend.splitlines())
                return resend
            case refused:
                raise refused.problem

    def _read(self, child: str, span: Span) -> str:
        """Return a span's text, or an empty string if the turn's budget does not allow it."""
        try:
            answer = self._bus.speak_as(child).deref_pointer(span.ref(self._sha), max_tokens=READ_TOKENS)
        except EngramBusError as problem:
            self._output.step(child, f"may not read {span}: {problem.code}. {problem.detail}", style="red")
            return ""
        cut = ", cut to fit" if answer.truncated else ""
        self._output.step(child, f"reads {span}{cut}", self._count.add_overhead("dereferences", _json(answer)))
        return answer.excerpt

    def _request(self, child: str, span: Span, reason: str) -> None:
        request = self._bus.speak_as(child).request_deref(span.ref(self._sha), reason=reason)
        self._output.step(child, f"asks {request.asked}: {reason}")
        lead = self._bus.speak_as("lead")
        for waiting in lead.list_requests().requests:
            lead.approve_request(waiting.request_id, cap_tokens=READ_TOKENS)
            self._output.step("lead", f"grants {waiting.agent} {READ_TOKENS} tokens there, once", style="green")

    def _message(
        self,
        findings: Sequence[ReviewFinding],
        summary: str,
        pasted: str = "",
        *,
        contradiction: tuple[Kind, str, list[Span]] | None = None,
    ) -> str:
        """Return a child's message in YAML."""
        claims = [(finding.kind, finding.claim, [finding.span]) for finding in findings]
        lines = ["ROLE: programmer", "TASK_STATUS: done", "ENGRAMS:"]
        for kind, claim, spans in [*claims, *([contradiction] if contradiction else [])]:
            lines += [f"  - kind: {kind}", f'    claim: "{claim}"', f"    pointers: {self._refs(spans)}"]
            lines += ["    scope: run", f"    ttl: {TTL}"]
        if pasted:
            lines += ["OUTPUT:", "  summary: |", f"    {summary}"]
            lines += [f"      {line}" for line in pasted.expandtabs().splitlines()]
        else:
            lines.append(f'OUTPUT: "{summary}"')
        return "\n".join(lines) + "\n"

    def _refs(self, spans: Sequence[Span]) -> str:
        return "[ " + ", ".join(f'"{span.ref(self._sha)}"' for span in spans) + " ]"


def _json(answer: msgspec.Struct) -> str:
    return msgspec.json.encode(answer).decode()
