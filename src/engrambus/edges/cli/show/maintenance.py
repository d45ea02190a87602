"""Lines for people: figures, policy, checks and freed disk space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from engrambus.edges.cli.screen import counted, dim, json_line, pairs, safe, table
from engrambus.gateway.tallies import Tally
from engrambus.policy import as_yaml

if TYPE_CHECKING:
    from engrambus.gateway.ports import Counts, Finding
    from engrambus.operations.admin import PolicyAnswer, PolicyShown
    from engrambus.operations.gc import GarbageAnswer
    from engrambus.operations.stats import AgentFigures, Figures, StatsAnswer
    from engrambus.operations.verification import VerifyAnswer

_REASONS = {
    "artifact": "artifacts past their retention",
    "printed": "output past its retention",
    "room": "the oldest, to free space",
    "left": "left by killed workers",
}
_PROTECTIONS = {
    "running": "output and artifacts of unfinished tasks",
    "scratch": "what running steps are writing",
    "pinned": "what engrams point at",
    "fresh": "what was stored by a caller or read in the last hour",
    "unnamed": "what no receipt names yet",
    "kept": "output and artifacts within their days",
}
_WHAT_TO_CHANGE = {
    "running": "Unfinished tasks release theirs when they end: `engrambus board`, `engrambus cancel ID`.",
    "scratch": "Running steps release theirs when they end.",
    "pinned": "Engrams release theirs when they expire or are removed: `engrambus forget ID`.",
    "fresh": "What was stored or read in the last hour may go an hour after its last use.",
}
_HEADINGS = ["WHO", "TURNS", "INLINE", "/TURN", "READS", "/TURN", "PULLED", "SENT", "BACK", "GRANTS", "PUT"]


def stats(answer: StatsAnswer) -> Iterator[str]:
    team = answer.team
    yield from pairs(
        [
            ("project", answer.project),
            ("run", answer.run_id if answer.over == "run" else "all of them"),
            ("as of", answer.as_of),
            ("engrams", f"{answer.held.engrams:,}" + _by_kind(answer.held.kinds)),
            ("put", f"{team.engrams:,}" + _by_kind(team.kinds)),
            ("contradictions", f"{team.contradictions:,}, {team.contradiction_rate:.0%} of what was put"),
            ("resent", f"{team.resends:,}, {team.resend_rate:.0%} of what was accepted"),
            ("rejected", f"{counted(team.rejections, 'message')}; {team.rejected_tokens:,} tokens of refused texts"),
            ("denied", f"{team.denials:,}{_by_kind(team.denial_codes)}"),
            ("not copied", _not_copied(team)),
            ("reserved", f"{counted(answer.reservations, 'reservation')}: engrambus reservation list")
            if answer.reservations
            else ("reserved", "nothing"),
            *(_store_size(answer.counts) if answer.counts else ()),
        ]
    )
    rows = [(row.agent_id, row.figures) for row in answer.agents]
    rows += [(f"{row.role}s", row.figures) for row in answer.roles]
    if rows:
        yield ""
        yield from _columns([*rows, ("the team", team)])
    yield from _turns(answer.agents)
    yield from _trends(answer.agents)
    busy = [point for point in answer.history.points if point.team != Tally()]
    if busy:
        yield ""
        unit = {"PT1M": "minute", "PT1H": "hour", "P1D": "day"}[answer.history.bucket]
        yield dim(f"by {unit}, where anything happened")
        yield from table(
            ["FROM", "INLINE", "READS", "PULLED", "SENT", "BACK", "ENGRAMS"],
            [[point.start[:16] + "Z", *_numbers(point.team)] for point in busy],
        )


def _not_copied(team: Figures) -> str:
    if not team.pointed_tokens:
        return "nothing compared yet: no message has brought an agent a pointer"
    return (
        f"{team.tokens_not_copied:,} of the {team.pointed_tokens:,} tokens that messages pointed agents at; "
        f"they read {team.pointed_read_tokens:,} of them"
    )


def _trends(agents: Sequence[AgentFigures]) -> Iterator[str]:
    """Print how often messages were rejected in the first and in the second half of what each agent sent."""
    rows = [(row.agent_id, row.trend) for row in agents if row.trend is not None]
    if not rows:
        return
    yield ""
    yield dim("messages sent back, and accepted ones that were sent again: first half, second half")
    yield from table(
        ["AGENT", "SENT", "BACK", "", "AGAIN", "", "TREND"],
        [
            [
                name,
                f"{trend.sent:,}",
                f"{trend.earlier_rejection_rate:.0%}",
                f"{trend.later_rejection_rate:.0%}",
                f"{trend.earlier_resend_rate:.0%}",
                f"{trend.later_resend_rate:.0%}",
                trend.direction,
            ]
            for name, trend in rows
        ],
    )


def _turns(agents: Sequence[AgentFigures]) -> Iterator[str]:
    """Print what each agent has used of its present turn and of its ceiling."""
    rows = [(row.agent_id, row.turn, row.limits) for row in agents if row.limits is not None]
    if not rows:
        return
    yield ""
    yield dim("in the present turn of each agent, and in the run")
    yield from table(
        ["AGENT", "TURN", "READS", "TOKENS", "PUT", "RUN"],
        [
            [
                name + (f" (x{limits.session_turns})" if limits.session_turns > 1 else ""),
                f"{used.number:,}",
                f"{used.repo}/{limits.repo}",
                f"{used.tokens:,}/{limits.tokens:,}",
                f"{used.put_tokens:,}/{limits.put_tokens:,}",
                f"{used.run_tokens:,}/{limits.run_tokens:,}",
            ]
            for name, used, limits in rows
        ],
    )


def _columns(rows: list[tuple[str, Figures]]) -> Iterator[str]:
    yield from table(
        _HEADINGS,
        [
            [
                name,
                f"{figures.turns:,}",
                f"{figures.inline_tokens:,}",
                f"{figures.inline_tokens_per_turn:,.0f}",
                f"{figures.derefs:,}",
                f"{figures.derefs_per_turn:.1f}",
                f"{figures.deref_tokens:,}",
                f"{figures.messages + figures.broadcasts:,}",
                f"{figures.rejections:,}",
                f"{figures.grants_left:,}",
                f"{figures.engrams:,}",
            ]
            for name, figures in rows
        ],
    )


def _numbers(tally: Tally) -> list[str]:
    sent = tally.messages + tally.broadcasts
    numbers = (tally.inline_tokens, tally.derefs, tally.deref_tokens, sent, tally.rejections, tally.engrams)
    return [f"{number:,}" for number in numbers]


def _by_kind(kinds: dict[str, int]) -> str:
    return ": " + ", ".join(f"{safe(kind)} {count:,}" for kind, count in kinds.items()) if kinds else ""


def _store_size(counts: Counts) -> Iterator[tuple[str, str]]:
    yield (
        "in all",
        ", ".join((counted(counts.engrams, "engram"), counted(counts.agents, "agent"), counted(counts.runs, "run"))),
    )
    yield "journal", f"{counted(counts.commits, 'commit')}, {_size(counts.journal_bytes)}"


def _size(count: int) -> str:
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def policy(answer: PolicyAnswer) -> Iterator[str]:
    yield "The policy is in force."
    if answer.policy:
        yield from pairs((name, json_line(msgspec.json.encode(value))) for name, value in sorted(answer.policy.items()))
    else:
        yield dim("It changes nothing in the defaults.")


def policy_in_force(answer: PolicyShown) -> Iterator[str]:
    """Show every setting, then the limits by role."""
    rows = [[row.key, _origin(row.set_at, row.set_by), as_yaml(row.value)] for row in answer.settings]
    yield from table(["KEY", "SET", "VALUE"], rows)
    yield ""
    yield from table(
        ["LIMIT", "MODE", "AMOUNT", "COUNTS"],
        [[row.limit, _modes(row.modes), row.amount, row.counts] for row in answer.limits],
    )
    yield ""
    since = (
        f"applied {answer.applied_at} by {safe(answer.applied_by or '')}" if answer.applied_at else "the default one"
    )
    yield f"The policy in force is {since}."
    match answer.file:
        case "edited":
            edited = ".catalog/policy.yaml was edited and is not applied; run `engrambus policy apply`."
            yield click.style(edited, fg="yellow")
        case "invalid":
            yield click.style(f".catalog/policy.yaml cannot be applied: {safe(answer.problem or '')}", fg="yellow")
        case "absent":
            yield dim("There is no .catalog/policy.yaml; the policy applied last stays in force.")
        case "applied":
            yield dim(".catalog/policy.yaml says the same.")


def _origin(set_at: str | None, set_by: str | None) -> str:
    """Return when and by whom a setting was made: `2026-11-16T10:12:31Z admin`."""
    return f"{set_at[:19]}Z {(set_by or '').rpartition('/')[2]}" if set_at else "default"


def _modes(modes: dict[str, str]) -> str:
    """Return the mode of a limit: `enforce`, or with the roles that differ from most."""
    counts = Counter(modes.values())
    usual = counts.most_common(1)[0][0]
    others = [f"{role} {mode}" for role, mode in modes.items() if mode != usual]
    return ", ".join([usual, *others])


def verification(answer: VerifyAnswer) -> Iterator[str]:
    if answer.sound and not answer.findings:
        checked = f": {answer.commits:,} commits check, and every copy of them agrees."
        yield click.style("sound", fg="green", bold=True) + checked
        return
    repaired = [finding for finding in answer.findings if finding.repaired]
    unrepaired = [finding for finding in answer.findings if not finding.repaired]
    if unrepaired:
        yield click.style("not sound", fg="red", bold=True)
        yield from _findings(unrepaired)
    if repaired:
        yield click.style("repaired", fg="green", bold=True) + ": made again from the journals and git"
        yield from _findings(repaired)
    if any(finding.is_copy and not finding.hint for finding in unrepaired):
        yield dim("`engrambus verify --repair` makes what is a copy again, from the journals and git.")
    yield from (dim(safe(hint)) for hint in dict.fromkeys(finding.hint for finding in unrepaired if finding.hint))


def _findings(findings: Sequence[Finding]) -> list[str]:
    return table(["WHAT", "WHERE"], [[finding.what, finding.where] for finding in findings])


def garbage_report(answer: GarbageAnswer) -> Iterator[str]:
    """Show what was deleted, or would be."""
    rows = [[_REASONS[row.why], f"{row.bodies:,}", _megabytes(row.bytes)] for row in answer.freed if row.bodies]
    if rows:
        yield from table(["WOULD BE DELETED" if answer.dry_run else "DELETED", "FILES", "SIZE"], rows)
    else:
        yield "There is nothing to delete."
    if answer.rewritten:
        written = "would be written again" if answer.dry_run else "are written again"
        yield f"{counted(answer.rewritten, 'receipt')} were not as files as in the journal and {written}."
    yield dim(f"{answer.receipts:,} receipts stay, {answer.pinned:,} bodies that engrams point at stay")
    then = "would take" if answer.dry_run else "takes"
    yield f"The catalog took {_megabytes(answer.total_bytes)} and {then} {_megabytes(answer.after_bytes)}."
    kept = [f"{_megabytes(row.bytes)} {_PROTECTIONS[row.why]}" for row in answer.kept if row.bytes]
    yield dim(f"Kept: {', '.join([*kept, f'{_megabytes(answer.other_bytes)} journals, indexes and receipts'])}.")
    if answer.rotated:
        yield "The journal of work continues in a new file; the old one is compressed."
    if not answer.enough:
        yield from _not_enough(answer)


def _not_enough(answer: GarbageAnswer) -> Iterator[str]:
    """Say which limit is not met, what protects the rest, and what to change."""
    limits = []
    if answer.after_bytes > answer.max_total_mb * 1_000_000:
        limits.append(f"the catalog is above its limit of {answer.max_total_mb:,} MB")
    if answer.free_bytes < answer.free_mb_floor * 1_000_000:
        free = f"{_megabytes(answer.free_bytes)} are free on the disk"
        limits.append(f"{free}, below the floor of {answer.free_mb_floor:,} MB")
    yield click.style(f"Not enough: {' and '.join(limits)}.", fg="yellow")
    by_size = sorted(answer.kept, key=lambda row: -row.bytes)
    yield from (f"  {_WHAT_TO_CHANGE[row.why]}" for row in by_size if row.bytes and row.why in _WHAT_TO_CHANGE)
    if answer.after_bytes > answer.max_total_mb * 1_000_000:
        yield "  Journals, indexes and receipts are never deleted. A higher limit: guardrails.gc.max_total_mb in"
        yield "  .catalog/policy.yaml, then `engrambus policy apply`."
    if answer.free_bytes < answer.free_mb_floor * 1_000_000:
        yield "  Free space that other files take, or set a lower floor: guardrails.gc.free_mb_floor."


def _megabytes(size: int) -> str:
    """Return a size as people write it."""
    return f"{size / 1_000_000:,.1f} MB"
