"""Figures as people read them: one line for each agent, one for each role, one for the team."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from engrambus.edges.cli.screen import counted, dim, pairs, safe, table
from engrambus.gateway.tallies import Tally

if TYPE_CHECKING:
    from engrambus.gateway.ports import Counts
    from engrambus.operations.stats import Figures, StatsAnswer

_HEADINGS = ["WHO", "TURNS", "INLINE", "/TURN", "READS", "/TURN", "PULLED", "SENT", "BACK", "GRANTS", "PUT"]


def _stats(answer: StatsAnswer) -> Iterator[str]:
    """The lines of `engrambus stats`."""
    team = answer.team
    yield from pairs(
        [
            ("project", answer.project),
            ("run", answer.run_id if answer.over == "run" else "all of them"),
            ("as of", answer.as_of),
            ("engrams", f"{answer.held.engrams:,}" + _listed(answer.held.kinds)),
            ("put", f"{team.engrams:,}" + _listed(team.kinds)),
            ("contradictions", f"{team.contradictions:,}, {team.contradiction_rate:.0%} of what was put"),
            ("resent", f"{team.resends:,}, {team.resend_rate:.0%} of what was accepted"),
            ("not copied", f"{team.tokens_not_copied:,} tokens"),
            *(_holdings(answer.counts) if answer.counts else ()),
        ]
    )
    rows = [(row.agent_id, row.figures) for row in answer.agents]
    rows += [(f"{row.role}s", row.figures) for row in answer.roles]
    if rows:
        yield ""
        yield from _columns([*rows, ("the team", team)])
    busy = [point for point in answer.history.points if point.team != Tally()]
    if busy:
        yield ""
        unit = {"PT1M": "minute", "PT1H": "hour", "P1D": "day"}[answer.history.bucket]
        yield dim(f"by {unit}, where anything happened")
        yield from table(
            ["FROM", "INLINE", "READS", "PULLED", "SENT", "BACK", "ENGRAMS"],
            [[point.start[:16] + "Z", *_numbers(point.team)] for point in busy],
        )


def _columns(rows: list[tuple[str, Figures]]) -> Iterator[str]:
    yield from table(
        _HEADINGS,
        [
            [
                who,
                f"{each.turns:,}",
                f"{each.inline_tokens:,}",
                f"{each.inline_tokens_per_turn:,.0f}",
                f"{each.derefs:,}",
                f"{each.derefs_per_turn:.1f}",
                f"{each.deref_tokens:,}",
                f"{each.messages + each.broadcasts:,}",
                f"{each.rejections:,}",
                f"{each.grants_left:,}",
                f"{each.engrams:,}",
            ]
            for who, each in rows
        ],
    )


def _numbers(tally: Tally) -> list[str]:
    sent = tally.messages + tally.broadcasts
    counted = (tally.inline_tokens, tally.derefs, tally.deref_tokens, sent, tally.rejections, tally.engrams)
    return [f"{number:,}" for number in counted]


def _listed(kinds: dict[str, int]) -> str:
    return ": " + ", ".join(f"{safe(kind)} {count:,}" for kind, count in kinds.items()) if kinds else ""


def _holdings(counts: Counts) -> Iterator[tuple[str, str]]:
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


SHOW: dict[str, Callable[[Any], Iterable[str]]] = {"stats": _stats}
