"""UC3: a team reviews a commit: what it changes, which tests it can break, what it makes stale, and the gate's verdict.

`python -m examples.use_cases.review [REPOSITORY] [--commit SHA] [--run-tests]` works in a clone and changes nothing.
No model is called: the agents are scripted, and their claims follow from simple rules. The commit, the lines, the
budgets, the refusals, the state of the evidence, the verdict and the counts are real.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from engrambus import Bus, EngramBusError, Settings, init_project

from .arguments import chosen_history, script_parser, small_history
from .commits import Commit, History, clone
from .functions import Function, broad_catch, changed_functions, find_functions
from .impacted_tests import CallGraph, ImpactedTest
from .output import Output
from .team import SCOPE, TTL, Member, Team, changed_lines, claim
from .tokens_moved import TokensMoved, print_tokens

GOAL = "A review of one commit: what it changes, breaks and makes stale"
MEMBERS = (
    Member("lead", "architect"),
    Member("ada", "programmer", "lead"),
    Member("ben", "programmer", "lead"),
    Member("cleo", "programmer", "lead"),
)
REVIEWERS = ("ada", "ben")
"""Who reads the changed functions; cleo reads the tests."""
SPANS_A_TURN = 2
MAX_FUNCTIONS, MAX_FILES = 8, 4
MAX_READ_LINES = 30
"""Of a longer function only the changed lines are pointed at, with some lines around them."""
MAX_KNOWN, MAX_CLAIMS = 4, 3
COMMITS_LOOKED_AT = 300
TEST_SECONDS = 60


class Reviewed(NamedTuple):
    """A commit that can be reviewed, and what is known about it without any agent."""

    commit: Commit
    files: dict[str, str]
    """Source files at the commit."""
    functions: list[Function]
    """The functions it changes."""
    before: dict[tuple[str, str], Function]
    """The functions of the changed files at the parent, by path and name at the commit."""
    known: list[tuple[Function, str]]
    """Some of these, each with a claim that is true of it."""
    graph: CallGraph
    tests: dict[Function, list[ImpactedTest]]


class Result(NamedTuple):
    """What the review came to."""

    commit: str
    tokens: TokensMoved
    changed: int
    reached: int
    """Changed functions of which an agent read a changed line."""
    tests: list[str]
    """The tests that can be broken, as pytest names them."""
    states: dict[str, int]
    """The claims from before the commit, by the state of their evidence at the commit."""
    findings: int
    """What the gate found."""
    passed: bool
    refusals: list[str]


def choose_commit(history: History) -> Reviewed | None:
    """Return the newest commit that changes a few functions, of which a test calls one; else without that test."""
    first: Reviewed | None = None
    for reviewed in reviewable(history):
        if any(not test.through for tests in reviewed.tests.values() for test in tests):
            return reviewed
        first = first or reviewed
    return first


def reviewable(history: History) -> Iterator[Reviewed]:
    """Yield the commits that change a few functions in a few files, the newest first."""
    for commit in history.commits(limit=COMMITS_LOOKED_AT):
        if not 1 <= len(commit.sources) <= MAX_FILES:
            continue
        paths = [change.path for change in commit.sources]
        changed = changed_functions(commit, history.texts(commit.sha, paths))
        if 2 <= len(changed) <= MAX_FUNCTIONS and any(len(changed_lines(commit, item)) > 1 for item in changed):
            reviewed = look_at(history, commit)
            if reviewed.known:
                yield reviewed


def look_at(history: History, commit: Commit) -> Reviewed:
    """Read what a commit changes, which tests reach it, and what was true of its files before."""
    files, old_files = history.texts(commit.sha), history.texts(commit.parent)
    functions = changed_functions(commit, files)
    graph, old_graph = CallGraph(files), CallGraph(old_files)
    before: dict[tuple[str, str], Function] = {}
    known: list[tuple[Function, str]] = []
    for change in commit.sources:
        old = find_functions(change.old_path, old_files.get(change.old_path, ""))
        before |= {(change.path, function.name): function for function in old}
        touched = [item for item in functions if item.path == change.path and (item.path, item.name) in before]
        last = max((before[item.path, item.name].last for item in touched), default=0)
        below = [item for item in old if touched and item.first > last]
        candidates = [*(before[item.path, item.name] for item in touched), *below[:1]]
        known += [(item, text) for item in candidates[:3] if (text := what_is_true(item, old_graph))]
    tests = {function: graph.tests(function) for function in functions}
    return Reviewed(commit, files, functions, before, known[:MAX_KNOWN], graph, tests)


def what_is_true(function: Function, graph: CallGraph) -> str:
    """Return a claim about a function that the source shows, without its place; empty if there is none."""
    callers = graph.callers(function, certain=True)
    if callers:
        names = ", ".join(caller.name for caller in callers[:2]) + (" and others" if len(callers) > 2 else "")
        return f"{function.name}({', '.join(function.arguments[:6])}) is called by {names}."
    return f"{function.name} takes {', '.join(function.arguments[:6])}." if function.arguments else ""


def review(bus: Bus, reviewed: Reviewed, history: History, output: Output, *, tests_in: Path | None = None) -> Result:
    """Let a team review a commit in the run of `bus`; with `tests_in`, run the tests in that checkout."""
    commit, functions = reviewed.commit, reviewed.functions
    team = Team(bus, MEMBERS, output)
    files = f"{len(commit.sources)} file{'s' * (len(commit.sources) > 1)}"
    output.note(f"The commit is {commit.sha[:12]}: {commit.subject}")

    output.heading("Before the commit: what the team knows")
    ids = [_remember(team, reviewed, function, text) for function, text in reviewed.known]

    output.heading("The commit: pointers to what it changes, and no content")
    half = (len(functions) + 1) // 2
    shares = dict(zip(REVIEWERS, (functions[:half], functions[half:]), strict=True))
    targets = [
        {"ref": _span_to_read(function, reviewed).at(commit.sha), "for": name}
        for name in REVIEWERS
        for function in shares[name]
    ]
    team.tell(
        "lead",
        {
            "SHARED_BRIEF_MICRO": [f"We review {commit.sha[:12]}: it changes {len(functions)} functions in {files}."],
            "TARGET_POINTER_PACK": targets,
            "BUDGETS": {"max_engrams": MAX_CLAIMS, "max_repo_spans": SPANS_A_TURN, "max_inline_tokens": 600},
            "INSTRUCTIONS": ["Ada, Ben: read the changed functions. Cleo: which tests can the commit break?"],
        },
        f"{len(targets)} pointers, each for who reads it",
    )

    for name, share in shares.items():
        output.heading(f"{name.capitalize()} reads {len(share)} of the {len(functions)} changed functions, and reports")
        _review_functions(team, name, share, reviewed, pastes=name == REVIEWERS[0])

    output.heading("Cleo follows the calls: which tests can the commit break?")
    tests = _report_tests(team, reviewed, tests_in)

    output.heading("What the commit did to what the team knew")
    states = _follow(team, reviewed, ids)

    output.heading("The gate, and the lead's review")
    findings, passed = _decide(team, reviewed)

    reached = team.reached(commit, functions)
    tokens = TokensMoved.compare(team.count, history, commit, functions, reviewed.files)
    print_tokens(output, tokens)
    output.note(f"  Agents read changed lines of {len(reached)} of the {len(functions)} changed functions.")
    return Result(commit.sha, tokens, len(functions), len(reached), tests, states, findings, passed, team.refusals)


def _remember(team: Team, reviewed: Reviewed, function: Function, text: str) -> str:
    """Put a claim about a function as it was before the commit; the first one binds the team."""
    kind: Any = "constraint" if function == reviewed.known[0][0] else "fact"
    pointer = function.at(reviewed.commit.parent)
    try:
        engram = team.speak_as("lead").put_engram(text, kind=kind, pointers=[pointer], scope=SCOPE, ttl=TTL)
    except EngramBusError as problem:
        team.refused("lead", problem)
        return ""
    team.say("lead", f"{kind}: {text} ({function.place})", team.count.add("claims put", text + pointer))
    return engram.id


def _patch(path: str, commit: Commit) -> str:
    return f"diff:{path}@{commit.parent}..{commit.sha}"


def _paths(functions: Sequence[Function]) -> list[str]:
    return list(dict.fromkeys(function.path for function in functions))


def _review_functions(team: Team, name: str, share: Sequence[Function], reviewed: Reviewed, *, pastes: bool) -> None:
    """Read the changed lines of some functions, and report the risks with pointers to exactly these lines."""
    commit = reviewed.commit
    excerpt = ""
    for function in share:
        span = _span_to_read(function, reviewed)
        answer = team.read_with_grant(name, span.at(commit.sha), span.place, f"The commit changes {function.name}.")
        excerpt = excerpt or (answer.excerpt if answer else "")
    risks = [claim("risk", text, span.at(commit.sha)) for text, span in _risks(share, reviewed)][: MAX_CLAIMS - 1]
    names = ", ".join(function.name for function in share[:4])
    change = claim("diff", f"{commit.sha[:12]} changes {names}.", *(_patch(path, commit) for path in _paths(share)))
    report: dict[str, Any] = {"ENGRAMS": [*risks, change]}
    if pastes and excerpt:
        template = team.report(name, report | {"OUTPUT": {"summary": "The lines are:\n" + excerpt}})
        if template:
            team.output.quote(template.splitlines())
            team.say(name, "leaves the code out, and sends the pointers")
            team.send(name, template.replace('"..."', '"Read; the pointers lead to the lines."'))
            return
    team.report(name, report | {"OUTPUT": {"summary": f"Read {len(share)} functions; {len(risks)} risks."}})


def _span_to_read(function: Function, reviewed: Reviewed) -> Function:
    if function.last - function.first < MAX_READ_LINES:
        return function
    changed = sorted(changed_lines(reviewed.commit, function)) or [function.first]
    first = max(function.first, changed[0] - 3)
    return function._replace(first=first, last=min(function.last, changed[-1] + 3, first + MAX_READ_LINES))


def _risks(share: Sequence[Function], reviewed: Reviewed) -> list[tuple[str, Function]]:
    """Return what simple rules find in changed functions, with the lines that show it."""
    found: list[tuple[str, Function]] = []
    for function in share:
        line = broad_catch(function, reviewed.files)
        if line is not None:
            handler = function._replace(first=line, last=min(line + 2, function.last))
            found.append((f"{function.name} catches every error, so a bug looks like an expected failure.", handler))
        before = reviewed.before.get((function.path, function.name), function)
        if function.arguments != before.arguments:
            callers = reviewed.graph.callers(function, certain=True)
            names = f" {callers[0].name} calls it." if callers else ""
            head = function._replace(last=function.first)
            found.append((f"The arguments of {function.name} are others now.{names}", head))
        if function.path.endswith(".py") and not reviewed.tests[function]:
            lines = _span_to_read(function, reviewed)
            found.append((f"No test was found that reaches {function.name}, which this commit changes.", lines))
    return found


def _report_tests(team: Team, reviewed: Reviewed, tests_in: Path | None) -> list[str]:
    """Report the tests that reach the changed functions; with a checkout, run them and point at their outcome."""
    commit = reviewed.commit
    by_node = {test.node: test for tests in reviewed.tests.values() for test in tests}
    if not by_node:
        team.report("cleo", {"OUTPUT": {"summary": "No Python test reaches what the commit changes."}})
        return []
    direct = {test.node for tests in reviewed.tests.values() for test in tests if not test.through}
    through = len(by_node) - len(direct)
    team.say(
        "cleo", f"finds {len(by_node)} tests: {len(direct)} call what is changed, {through} may reach it through others"
    )
    nearest = sorted(by_node.values(), key=lambda test: (test.node not in direct, len(test.through), test))[:3]
    for test in nearest[:SPANS_A_TURN]:
        team.read("cleo", test.at(commit.sha), test.node)
    outcome, receipts = _run_tests(team, tests_in, sorted(by_node)) if tests_in else ("not run", [])
    text = f"{len(by_node)} tests reach what {commit.sha[:12]} changes; {outcome}."
    pointers = [test.at(commit.sha) for test in nearest] + receipts
    team.report("cleo", {"ENGRAMS": [claim("test", text, *pointers)], "OUTPUT": {"summary": f"Tests: {outcome}."}})
    return sorted(by_node)


def _run_tests(team: Team, checkout: Path, nodes: list[str]) -> tuple[str, list[str]]:
    """Run tests with pytest, record the report as a receipt, and return the outcome with pointers to some results."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "junit.xml"
        options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *options, *nodes]
        try:
            subprocess.run(command, cwd=checkout, capture_output=True, timeout=TEST_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"not finished in {TEST_SECONDS} seconds", []
        if not report.exists():
            return "pytest could not run them", []
        xml = report.read_text("utf-8")
    recorded = team.bus.record_tests(xml)
    failed = recorded.failed + recorded.errors
    outcome = f"{recorded.passed} passed and {failed} failed"
    team.say("cleo", f"runs them: {outcome}; receipt {recorded.receipt_id.removeprefix('sha256:')[:12]}")
    whole = [node for node in nodes if f'name="{node.rpartition("::")[2]}"' in xml]  # those without parameters
    failing = [case.ref for case in recorded.first_failed]
    return outcome, (failing or [f"test:{node}@{recorded.receipt_id}" for node in whole])[:2]


def _follow(team: Team, reviewed: Reviewed, ids: list[str]) -> dict[str, int]:
    """Look up what became of the lines behind each earlier claim at the commit."""
    states: dict[str, int] = {}
    for path in dict.fromkeys(function.path for function, _ in reviewed.known):
        report = team.speak_as("lead").check_evidence(against=reviewed.commit.sha, path=path, all=True)
        for engram in report.engrams:
            about = report.about[engram.id].evidence if engram.id in report.about else None
            if engram.id not in ids:
                continue
            state = (about.state if about else None) or "same"
            now = f", now {about.now}" if about and about.now else ""
            share = f", {about.share:.0%} left" if about and about.share is not None else ""
            states[state] = states.get(state, 0) + 1
            line = f"{state}{share}{now}: {engram.claim}"
            team.say("lead", line, team.count.add("checks", line), style="" if state in ("same", "moved") else "yellow")
    return states


def _decide(team: Team, reviewed: Reviewed) -> tuple[int, bool]:
    """Ask the gate, renew what still holds at its lines now, ask again, and send the review."""
    commit, lead = reviewed.commit, team.speak_as("lead")
    gate = lead.check_gate(commit.parent, head=commit.sha)
    for finding in gate.findings:
        line = f"{finding.rule.replace('-', ' ')}, {finding.path}:{finding.first}: {finding.claim}"
        team.say("lead", line, team.count.add("checks", line), style="red")
    for finding in [finding for finding in gate.findings if finding.rule == "stale-decision"][:1]:
        _renew(team, reviewed, finding)
    after = lead.check_gate(commit.parent, head=commit.sha)
    for finding in after.findings[:1]:
        team.read("lead", _patch(finding.path, commit), f"the patch of {finding.path}")
    verdict = "passed" if after.passed else f"failed: {after.open} open"
    team.say("lead", f"verdict of the gate: {verdict}", style="green" if after.passed else "red")
    issues = [finding.claim for finding in after.findings[:3]]
    sections: dict[str, Any] = {
        "SHARED_BRIEF_MICRO": [f"Review of {commit.sha[:12]}: {verdict}.", *issues],
        "TARGET_POINTER_PACK": list(dict.fromkeys(_patch(finding.path, commit) for finding in after.findings[:2])),
        "INSTRUCTIONS": ["Settle each issue, or say in one claim why it may stay."],
    }
    sections = {name: content for name, content in sections.items() if content}
    team.tell("lead", sections, f"the review, {len(issues)} issue{'s' * (len(issues) != 1)} with patch pointers")
    return len(gate.findings), after.passed


def _renew(team: Team, reviewed: Reviewed, finding: Any) -> None:
    """Read the lines that hold a claim now; confirm it if it is still true, else replace it by what is true."""
    commit, lead = reviewed.commit, team.speak_as("lead")
    now = finding.evidence.now if finding.evidence else None
    if not now:
        return
    place = f"{now}@{commit.sha}"
    team.read("lead", place, now)
    name = finding.claim.partition("(")[0].partition(" ")[0]
    function = next((item for item in reviewed.functions if item.name == name), None)
    text = what_is_true(function, reviewed.graph) if function else finding.claim
    try:
        if text in ("", finding.claim):
            lead.confirm_engram(finding.engram, at=[place])
            team.say("lead", f"confirms it: it is still true, at {now}", style="green")
        else:
            lead.put_engram(text, kind="constraint", at=[place], scope=SCOPE, ttl=TTL, replaces=finding.engram)
            team.say("lead", f"replaces it: {text}", team.count.add("claims put", text + place), style="green")
    except EngramBusError as problem:  # a later commit has changed these lines again
        team.refused("lead", problem)


def main(arguments: Sequence[str] | None = None) -> Result:
    """Review a commit of a repository in a clone, or of a small repository made for it."""
    parser = script_parser("A scripted team reviews a commit.", commit="the commit; one of the newest by default")
    parser.add_argument("--run-tests", action="store_true", help="run the impacted tests with pytest: it runs its code")
    chosen = parser.parse_args(arguments)
    output = Output()
    output.note("A scripted team reviews: no model runs. Commit, lines, budgets, refusals and counts are real.")
    with tempfile.TemporaryDirectory(prefix="engrambus-review-") as scratch:
        history = chosen_history(parser, chosen, output)
        picked = next(history.commits(limit=1), None) if chosen.commit else None
        reviewed = None if chosen.small else look_at(history, picked) if picked else choose_commit(history)
        if reviewed is None:
            history = small_history(scratch, output)
            reviewed = choose_commit(history)
        assert reviewed is not None  # noqa: S101  # the small repository has such a commit
        checkout = clone(history.folder, reviewed.commit.sha, Path(scratch))
        settings = Settings.from_environment({"HOME": scratch})
        init_project(checkout, settings)
        with Bus.open(checkout, settings=settings, on_warning=output.warn) as bus:
            bus.open_run(GOAL)
            return review(bus, reviewed, history, output, tests_in=checkout if chosen.run_tests else None)


if __name__ == "__main__":
    main()
