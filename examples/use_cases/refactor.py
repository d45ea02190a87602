"""UC1: a team refactors a module: what is known about the old places follows the code to where it is afterwards.

`python -m examples.use_cases.refactor [REPOSITORY] [--commit SHA]` works in a clone and changes nothing. It looks for a
commit that moved files, checks its parent out, lets agents record what they know, and then makes the commit happen.
No model is called: the agents are scripted, and their claims follow from simple rules. The commit, the lines, the
budgets, the refusals, the state of the evidence and the counts are real.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from engrambus import Bus, Engram, EngramBusError, Pointer, Settings, init_project

from .arguments import chosen_history, script_parser, small_history
from .commits import Commit, FileChange, History, clone, git
from .functions import Function, changed_functions, find_functions
from .impacted_tests import CallGraph
from .output import Output
from .review import what_is_true
from .team import SCOPE, TTL, Member, Team, claim
from .tokens_moved import TokensMoved, print_tokens

GOAL = "A refactoring: what is known follows the code"
MEMBERS = (
    Member("ann", "architect"),
    Member("dan", "director", "ann"),
    Member("mia", "manager", "dan"),
    Member("ada", "programmer", "mia"),
    Member("ben", "programmer", "mia"),
)
NEWCOMER = Member("cleo", "programmer", "mia")
"""Joins after the commit, and knows only her brief."""
COMMITS_LOOKED_AT = 3000
MAX_FILES = 12
MIN_KNOWN, MAX_KNOWN = 3, 8
SPANS_A_TURN = 3


class Refactoring(NamedTuple):
    """A commit that moves files, and what agents know before it."""

    commit: Commit
    files: dict[str, str]
    """Source files at the commit."""
    known: list[tuple[Function, str]]
    """Functions of the moved files at the parent, each with a claim that is true of it."""
    functions_now: dict[str, list[Function]]
    """The functions of each moved file at the commit, by the file's old path."""

    def now_of(self, text: str) -> Function | None:
        """Return the function that has the name and the file of the one a claim is about; None if there is none."""
        function = next((function for function, known in self.known if known == text), None)
        now = self.functions_now[function.path] if function else []
        return next((item for item in now if function and item.name == function.name), None)


class Result(NamedTuple):
    """What became of what the team knew."""

    commit: str
    tokens: TokensMoved
    states: dict[str, int]
    """The claims from before the commit, by the state of their evidence after it."""
    led: int
    """Claims about functions whose names are still in their files, and for which the bus named lines at the commit."""
    right: int
    """Those whose lines lie in the function of that name, as the source at the commit shows."""
    changed: int
    reached: int
    refusals: list[str]


def choose_commit(history: History) -> Refactoring | None:
    """Return the newest commit that moves source files and edits functions in them; None if there is none."""
    return next(movable(history), None)


def movable(history: History) -> Iterator[Refactoring]:
    """Yield the commits that move source files and edit functions in them, the newest first."""
    for commit in history.commits("--diff-filter=R", "-M", limit=COMMITS_LOOKED_AT):
        moved = _moved(commit)
        if moved and len(commit.sources) <= MAX_FILES:
            refactoring = look_at(history, commit)
            changed = changed_functions(commit._replace(files=tuple(moved)), refactoring.files)
            if changed and len(refactoring.known) >= MIN_KNOWN:
                yield refactoring


def look_at(history: History, commit: Commit) -> Refactoring:
    """Read the functions of the files that a commit moves, before and after."""
    files, old_files = history.texts(commit.sha), history.texts(commit.parent)
    graph = CallGraph(old_files)
    old = [
        item
        for change in _moved(commit)
        for item in find_functions(change.old_path, old_files.get(change.old_path, ""))
    ]
    longest = sorted(old, key=lambda item: item.first - item.last)[: 2 * MAX_KNOWN]
    known = sorted((function, text) for function in longest if (text := what_is_true(function, graph)))[:MAX_KNOWN]
    now = {change.old_path: find_functions(change.path, files.get(change.path, "")) for change in _moved(commit)}
    return Refactoring(commit, files, known, now)


def _moved(commit: Commit) -> list[FileChange]:
    return [change for change in commit.sources if change.old_path and change.old_path != change.path]


def refactor(bus: Bus, refactoring: Refactoring, history: History, checkout: Path, output: Output) -> Result:
    """Let a team record what it knows at the parent, make the commit happen in `checkout`, and follow the evidence."""
    commit = refactoring.commit
    moved = commit._replace(files=tuple(_moved(commit)))
    changed = changed_functions(moved, refactoring.files)
    team = Team(bus, MEMBERS, output)
    output.note(f"The commit is {commit.sha[:12]}: {commit.subject}")
    output.note("Its parent is checked out; the team does not know yet what will move.")

    output.heading("Before: the work goes down the hierarchy, what is known goes up")
    _hand_down(team, refactoring)
    for name, share in (("ada", refactoring.known[::2]), ("ben", refactoring.known[1::2])):
        _record(team, name, share, commit)
    engrams = sorted(bus.query_engrams(k=50, scope="run", kind="fact").engrams, key=lambda engram: engram.claim)
    team.report("mia", {"OUTPUT": {"summary": f"{len(engrams)} claims are on the bus, each with its lines."}})
    team.report("dan", {"OUTPUT": {"summary": "The module is known; it may be moved."}})

    output.heading("The commit happens")
    git(checkout, "checkout", "--quiet", "--detach", commit.sha)
    for change in _moved(commit):
        output.note(f"  {change.old_path} is now {change.path}")

    output.heading("After: mia follows the evidence")
    states, places = _follow(team, engrams)

    output.heading("Ben sends what he remembers instead of a pointer")
    _paste_old_copy(team, refactoring, changed)

    output.heading("What moved is confirmed; what changed is read again first")
    _renew(team, refactoring, engrams, states, places)

    output.heading("Cleo joins, and starts from her brief")
    _brief_newcomer(team, refactoring, changed)

    led = [
        (places[engram.id], function)
        for engram in engrams
        if engram.id in places and (function := refactoring.now_of(engram.claim)) is not None
    ]
    right = sum(_lies_in(place, function) for place, function in led)
    tokens = TokensMoved.compare(team.count, history, moved, changed, refactoring.files)
    print_tokens(output, tokens)
    reached = team.reached(commit, changed)
    output.note(f"  {len(led)} of the {len(engrams)} claims are about functions whose names are still there and led to")
    output.note(f"  lines; {right} of these led into that function, as the source at the commit shows.")
    output.note(
        f"  Agents read changed lines of {len(reached)} of the {len(changed)} functions changed in moved files."
    )
    return Result(
        commit=commit.sha, tokens=tokens, states=dict(Counter(states.values())), led=len(led), right=right,
        changed=len(changed), reached=len(reached), refusals=team.refusals,
    )  # fmt: skip


def _hand_down(team: Team, refactoring: Refactoring) -> None:
    """Pass the work on from the architect to the programmers; each message has pointers and a budget, no content."""
    folders = sorted({change.old_path for change in _moved(refactoring.commit)})[:4]
    pack = [f"repo:{path}@{refactoring.commit.parent}" for path in folders]
    brief = [f"We are about to move {len(folders)} file{'s' * (len(folders) > 1)}; record what others must not lose."]
    for parent in ("ann", "dan", "mia"):
        budgets = {"max_engrams": 6, "max_repo_spans": SPANS_A_TURN, "max_inline_tokens": 800}
        sections = {"SHARED_BRIEF_MICRO": brief, "TARGET_POINTER_PACK": pack, "BUDGETS": budgets}
        team.tell(parent, sections, f"{len(pack)} pointer{'s' * (len(pack) > 1)}, {SPANS_A_TURN} reads a turn")


def _record(team: Team, name: str, share: Sequence[tuple[Function, str]], commit: Commit) -> None:
    """Read some functions at the parent, and report what is true of each, with its lines."""
    for function, _ in share:
        why = f"I record what is true of {function.name}."
        team.read_with_grant(name, function.at(commit.parent), function.place, why)
    claims = [claim("fact", text, function.at(commit.parent)) for function, text in share]
    team.report(name, {"ENGRAMS": claims, "OUTPUT": {"summary": f"{len(claims)} claims, each with its lines."}})


def _follow(team: Team, engrams: Sequence[Engram]) -> tuple[dict[str, str], dict[str, str]]:
    """Look up what became of the lines behind each claim; return its state and where its lines are now, by id."""
    report = team.speak_as("mia").check_evidence(kind="fact", all=True)
    states: dict[str, str] = {}
    places: dict[str, str] = {}
    for engram in engrams:
        about = report.about[engram.id].evidence if engram.id in report.about else None
        state = (about.state if about else None) or "same"
        states[engram.id] = state
        if about and about.now:
            places[engram.id] = about.now
        share = f", {about.share:.0%} left" if about and about.share is not None else ""
        where = f", now {places[engram.id]}" if engram.id in places else ""
        line = f"{state}{share}{where}: {engram.claim}"
        team.say("mia", line, team.count.add("checks", line), style="yellow" if state in ("changed", "gone") else "")
    return states, places


def _paste_old_copy(team: Team, refactoring: Refactoring, changed: Sequence[Function]) -> None:
    """Send the old lines instead of a pointer, then point at the new lines with the digest of the old ones."""
    commit = refactoring.commit
    pairs = [(function, now) for function, text in refactoring.known if (now := refactoring.now_of(text))]
    # one of the changed functions, if it has kept its name
    function, now = next((pair for pair in pairs if pair[1] in changed), pairs[0] if pairs else (None, None))
    if function is None or now is None:
        team.say("ben", "finds none of the functions he knew under its name")
        return
    old = team.read("ben", function.at(commit.parent), f"{function.place} as it was")
    if old is None:
        return
    team.report("ben", {"OUTPUT": {"summary": "As I remember it:\n" + old.excerpt}})
    pointer = Pointer(type="repo", ref=now.at(commit.sha), digest=old.content_digest)
    try:
        team.speak_as("ben").put_engram(f"I have read {function.name}.", pointers=[pointer], scope=SCOPE, ttl=TTL)
    except EngramBusError as problem:
        team.refused("ben", problem)
    else:
        team.say("ben", f"{now.place} has exactly the lines that he read", style="green")


def _renew(
    team: Team, refactoring: Refactoring, engrams: Sequence[Engram], states: dict[str, str], places: dict[str, str]
) -> None:
    """Confirm what is still true of each function, or replace it; changed lines are read again before that."""
    commit, mia, graph = refactoring.commit, team.speak_as("mia"), CallGraph(refactoring.files)
    for engram in engrams:
        state, place = states[engram.id], places.get(engram.id)
        function = refactoring.now_of(engram.claim)
        if function is None or place is None or not _lies_in(place, function):
            team.say("mia", f"leaves it, since its lines are in no function of that name: {engram.claim}")
            continue
        if state == "changed":
            answer = team.read_with_grant("ada", f"{place}@{commit.sha}", place, "The claim about it is stale.")
            if answer is None:
                continue
        text = what_is_true(function, graph)
        try:
            if text in ("", engram.claim):
                # the pointer of a claim follows lines that only moved; changed lines must be named
                mia.confirm_engram(engram.id, at=[place] if state == "changed" else ())
                team.say("mia", f"confirms it at {place}: {engram.claim}", style="green")
            else:
                mia.put_engram(text, at=[function.place], scope=SCOPE, ttl=TTL, replaces=engram.id)
                team.say("mia", f"replaces it: {text}", team.count.add("claims put", text + place), style="green")
        except EngramBusError as problem:
            team.refused("mia", problem)
    after = Counter(mia.check_evidence(kind="fact", all=True).counts)
    words = ", ".join(f"{count} {state}" for state, count in after.items())
    team.say("mia", f"checks again: {words}", team.count.add("checks", words), style="green")


def _brief_newcomer(team: Team, refactoring: Refactoring, changed: Sequence[Function]) -> None:
    """Add an agent who knows nothing; her brief has the lines as they are now, and she reads some of them."""
    commit = refactoring.commit
    team.add(NEWCOMER)
    brief = team.speak_as(NEWCOMER.name).brief(max_tokens=600)
    team.say(NEWCOMER.name, "reads her brief", team.add_answer("briefs", "brief", brief))
    team.output.quote(brief.lines)
    for function in changed[:SPANS_A_TURN]:
        team.read(NEWCOMER.name, function.at(commit.sha), function.place)
    claims = [claim("diff", f"{change.old_path} is {change.path} now.", f"repo:{change.path}@{commit.sha}")
              for change in _moved(commit)[:2]]  # fmt: skip
    for path, line, text in _old_names(refactoring)[:2]:
        claims.append(claim("risk", f"{path} still names {text}.", f"repo:{path}#L{line}-L{line}@{commit.sha}"))
    risks = sum(item["kind"] == "risk" for item in claims)
    report = (
        f"I work at the new places. {risks} places still name an old one." if risks else "No file names an old place."
    )
    team.report(NEWCOMER.name, {"ENGRAMS": claims, "OUTPUT": {"summary": report}})


def _old_names(refactoring: Refactoring) -> list[tuple[str, int, str]]:
    """Return the lines at the commit that import a module by its old name: path, line, name."""
    found = []
    for change in _moved(refactoring.commit):
        module = change.old_path.removesuffix(".py").removeprefix("src/").replace("/", ".")
        pattern = re.compile(rf"^\s*(?:from|import)\s+{re.escape(module)}\b")
        for path, text in refactoring.files.items():
            lines = enumerate(text.splitlines() if module in text else (), start=1)
            found += [(path, number, module) for number, line in lines if pattern.match(line)]
    return found


def _lies_in(place: str, function: Function) -> bool:
    path, _, lines = place.rpartition(":")
    first, _, last = lines.partition("-")
    return path == function.path and function.first <= int(first) and int(last or first) <= function.last


def main(arguments: Sequence[str] | None = None) -> Result:
    """Replay a refactoring of a repository in a clone, or of a small repository made for it."""
    parser = script_parser("A scripted team refactors.", commit="the commit; the newest that moves files by default")
    chosen = parser.parse_args(arguments)
    output = Output()
    output.note("A scripted team refactors: no model runs. Commit, lines, budgets, refusals and counts are real.")
    with tempfile.TemporaryDirectory(prefix="engrambus-refactor-") as scratch:
        history = chosen_history(parser, chosen, output)
        picked = next(history.commits(limit=1), None) if chosen.commit else None
        refactoring = None if chosen.small else look_at(history, picked) if picked else choose_commit(history)
        if refactoring is None or not refactoring.known:
            history = small_history(scratch, output)
            refactoring = choose_commit(history)
        assert refactoring is not None  # noqa: S101  # the small repository has such a commit
        checkout = clone(history.folder, refactoring.commit.parent, Path(scratch))
        settings = Settings.from_environment({"HOME": scratch})
        init_project(checkout, settings)
        with Bus.open(checkout, settings=settings, on_warning=output.warn) as bus:
            bus.open_run(GOAL)
            return refactor(bus, refactoring, history, checkout, output)


if __name__ == "__main__":
    main()
