"""Lines for people: text that pointers lead to, links, and checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.screen import command_words, counted, dim, pairs, safe, safe_line
from engrambus.evidence.pointers import BodyAddress, RepoAddress, describe_state, parse_ref

if TYPE_CHECKING:
    from engrambus.evidence.pointers import DerefAnswer
    from engrambus.operations.artifacts import ArtifactAnswer
    from engrambus.operations.pointers import AnchorAnswer, LinkAnswer, ValidateDerefAnswer
    from engrambus.operations.receipts import TestReportAnswer


def deref(answer: DerefAnswer) -> Iterator[str]:
    part = answer.excerpt_pointer
    address = parse_ref(part.ref if part is not None else answer.pointer.ref)
    # A carriage return would move the cursor; --json has the text as it is.
    lines = [line.removesuffix("\r") for line in answer.excerpt.split("\n")]
    if lines[-1] == "":
        lines.pop()
    # Lines get their numbers in the file, so that they can be pointed at; a section of a document has none.
    span = address.lines if isinstance(address, RepoAddress | BodyAddress) else None
    if span or (isinstance(address, RepoAddress) and not answer.tail):
        first, last = span or (1, 0)
        first = last + 1 - len(lines) if answer.tail else first
        column = len(str(first + len(lines)))
        for number, line in enumerate(lines, first):
            yield dim(f"{number:>{column}}  ") + safe_line(line)
    else:
        yield from map(safe_line, lines)
    yield dim("─" * 8)
    yield safe(answer.pointer.ref)
    yield dim(safe(answer.content_digest) + ("  of the whole text" if answer.truncated else ""))
    if part is not None and part.digest is not None:
        yield safe(part.ref)
        yield dim(safe(part.digest) + "  of the lines above")
    if words := describe_state(answer.evidence):
        yield click.style(f"These lines are as they were at that commit: {safe(words)}.", fg="yellow")
    if answer.escaped:
        shown = (
            f"{counted(answer.escaped, 'invisible character')} shown as escapes; the digest is of the file as it is."
        )
        yield click.style(shown, fg="yellow")
    if answer.truncated:
        end = "" if answer.tail else ", and --tail shows the end"
        yield click.style(f"Cut to fit --max-tokens; a larger number shows more{end}.", fg="yellow")


def anchor(answer: AnchorAnswer) -> Iterator[str]:
    if answer.pointer is not None:
        yield safe(answer.pointer.ref)
    elif answer.candidates:
        yield "The text occurs in several places; choose one with --path."
        yield from (safe(pointer.ref) for pointer in answer.candidates)
    else:
        yield "Not found in that commit."
        yield dim("To search lines that are not committed yet, add --snapshot.")


def anchor_on_disk(answer: AnchorAnswer) -> Iterator[str]:
    """Show where a text was found that was searched in the files on disk."""
    if answer.pointer is not None or answer.candidates:
        yield from anchor(answer)
    else:
        yield "Not found in the files that git tracks, committed or not."
        yield dim("To search a file that git does not track yet, name it with --path.")


def links(answer: LinkAnswer) -> Iterator[str]:
    rows = [("pointer", answer.ref), ("editor", answer.editor), ("github", answer.github), ("archive", answer.swhid)]
    rows += [("web", answer.web), ("state", describe_state(answer.evidence) or None)]
    yield from pairs((name, value) for name, value in rows if value is not None)
    if answer.why_none:
        yield dim(safe(command_words(answer.why_none)))


def deref_check(answer: ValidateDerefAnswer) -> Iterator[str]:
    if not answer.ok:
        yield "It would be refused."
    elif answer.granted:
        yield f"It would be allowed by a grant: {counted(answer.tokens_left, 'token')} left."
    elif answer.reads_left is None:
        yield "It would be allowed: a person reads without a turn."
    else:
        left = f"{counted(answer.reads_left, 'read')} and {counted(answer.tokens_left, 'token')} left"
        yield f"It would be allowed by turn {answer.turn}: {left}."
    yield from show_problems(answer.problems)


def show_problems(problems: list[dict[str, Any]]) -> Iterator[str]:
    """Show errors that a call would end with: what is wrong, where, and what to do."""
    for problem in problems:
        yield f"{safe(str(problem['code']))}: {safe_line(str(problem.get('detail') or problem['title']))}"
        facts = [f"{name}: {safe(str(problem[name]))}" for name in ("field", "line") if problem.get(name) is not None]
        if facts:
            yield dim("  " + "   ".join(facts))
        if problem.get("hint"):
            yield click.style(f"  {safe(command_words(str(problem['hint'])))}", fg="cyan")


def stored_artifact(answer: ArtifactAnswer) -> Iterator[str]:
    yield click.style(safe(answer.pointer), bold=True)
    yield dim(f"{answer.tokens} tokens; point at it instead of writing it out")


def test_report(answer: TestReportAnswer) -> Iterator[str]:
    counts = {"passed": answer.passed, "failed": answer.failed, "errors": answer.errors, "skipped": answer.skipped}
    outcomes = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    yield f"{click.style(safe(answer.receipt_id), bold=True)}  {outcomes or 'no tests'}"
    for case in answer.first_failed:
        yield f"  {click.style(case.outcome, fg='red')}  {safe(case.ref)}"
        if case.message:
            yield dim(f"    {safe(case.message)}")
