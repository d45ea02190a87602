"""`engrambus memory read`: the controller's input as options, or whole from a file."""

from __future__ import annotations

from typing import Any

import click

from engrambus.edges.cli.command import Command
from engrambus.edges.cli.session import Session
from engrambus.edges.cli.table import Entry

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
    """`engrambus memory read`"""
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
    from engrambus.core import read_json
    from engrambus.edges.cli.ask import ask_and_show
    from engrambus.edges.cli.bulk import read_text_file
    from engrambus.operations import OPERATIONS

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
    ask_and_show(session, OPERATIONS["memory_read"], asked)


def _nested(said: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    for name, value in said.items():
        place = _PLACES.get(name)
        (asked if place is None else asked.setdefault(place, {}))[name] = value
    return {**asked, "budget": asked.get("budget", {})}  # so that what is missing of it is named
