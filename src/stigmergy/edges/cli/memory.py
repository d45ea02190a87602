"""`stig memory read`: the controller's input as options, or whole from a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from stigmergy.edges.cli.command import Command
from stigmergy.edges.cli.screen import dim, safe, safe_line
from stigmergy.edges.cli.session import Session
from stigmergy.edges.cli.table import Entry

if TYPE_CHECKING:
    from stigmergy.knowledge.memory import ContextPackage

_PLACES = {
    "max_excerpt_tokens": "budget",
    "per_item_max_excerpt_tokens": "budget",
    "max_items": "budget",
    "enable_recency_weight": "scoring",
    "recency_half_life_days": "scoring",
    "enable_tag_overlap": "scoring",
    "query_terms": "scoring",
    "deny_classifications": "trust_filter",
    "trust_snapshot_path": "trust_filter",
}
"""Where in the input an option belongs."""


def read(entry: Entry) -> Command:
    """`stig memory read`"""
    return Command("read", entry, _options(), _read)


def _options() -> list[click.Parameter]:
    return [
        click.Option(["--query"], help="What to look for."),
        click.Option(["--store", "store_paths"], multiple=True, metavar="FILE", help="A JSONL file (repeatable)."),
        click.Option(["--max-excerpt-tokens"], type=int, help="Tokens of all excerpts together."),
        click.Option(["--per-item-max-excerpt-tokens"], type=int, help="Tokens of one excerpt."),
        click.Option(["--max-items"], type=int, help="How many excerpts at the most [default: 50]"),
        click.Option(["--term", "query_terms"], multiple=True, help="A term, instead of the query's (repeatable)."),
        click.Option(["--now-utc"], help="The moment recency is measured from: 2026-01-31T12:00:00Z"),
        click.Option(["--recency", "enable_recency_weight"], is_flag=True, help="Newer records score higher."),
        click.Option(["--half-life-days", "recency_half_life_days"], type=int, help="[default: 30]"),
        click.Option(["--no-tags", "no_tags"], is_flag=True, help="Tags count for nothing."),
        click.Option(["--trust-snapshot", "trust_snapshot_path"], metavar="FILE", help="Leave out what it denies."),
        click.Option(["--deny", "deny_classifications"], multiple=True, help="A class to leave out (repeatable)."),
        click.Option(["--dropped"], type=click.Choice(["full", "counts"]), help="[default: full]"),
        click.Option(["--input", "file"], metavar="FILE", help="The whole input as JSON; - reads stdin."),
    ]


def _read(session: Session, given: dict[str, Any]) -> None:
    from stigmergy.core import read_json
    from stigmergy.edges.cli.bulk import read_text_file
    from stigmergy.edges.cli.hooks import ask
    from stigmergy.operations import OPERATIONS

    said = {name: value for name, value in given.items() if value is not None and value is not False and value != ()}
    file = said.pop("file", None)
    if file is not None:
        if said:
            raise click.UsageError("--input brings the whole input; give nothing beside it.")
        asked = read_json(read_text_file(file, "--input").encode())
    else:
        if said.pop("no_tags", False):
            said["enable_tag_overlap"] = False
        asked = _nested(said)
    session.answer(ask(session, OPERATIONS["memory_read"], asked), show_package)


def _nested(said: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    for name, value in said.items():
        place = _PLACES.get(name)
        (asked if place is None else asked.setdefault(place, {}))[name] = value
    return {**asked, "budget": asked.get("budget", {})}  # so that what is missing of it is named


def show_package(package: ContextPackage) -> Iterator[str]:
    """The excerpts with their scores, and what became of the rest."""
    import msgspec

    for item in package.selection.selected:
        source = dim(f"{safe(item.memory_id)}  {safe(item.store_path)}  {item.excerpt_tokens} tokens")
        yield f"{click.style(f'{item.score:.2f}', bold=True)}  {source}"
        for line in item.excerpt.splitlines():
            yield f"    {safe_line(line)}"
    dropped = package.selection.dropped_counts
    if dropped is msgspec.UNSET:
        dropped = {}
        for each in package.selection.dropped or ():
            dropped[each.reason] = dropped.get(each.reason, 0) + 1
    rest = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in sorted(dropped.items()))
    budget = package.budget
    spent = f"{budget.used_excerpt_tokens:,} of {budget.max_excerpt_tokens:,} tokens"
    yield dim(f"{len(package.selection.selected)} selected, {spent}" + (f"; dropped: {rest}" if rest else ""))
    yield dim(f"package {package.package_hash}")
