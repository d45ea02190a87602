"""`engrambus schedule add`: a schedule from options, or from a file with its task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Argument, Values, override
from engrambus.edges.cli.commands.work import ONE_STEP_OPTIONS, tuple_fields
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.gateway import Operation


@override(
    Argument("name", None, "Its name: lower-case letters, digits, dots, hyphens, underscores", required=True),
    Argument("file", None, "The task (tuple) as JSON or YAML; - reads stdin", required=False),
    click.Option(
        ["--cron", "cron"],
        metavar="FIELDS",
        help='When it is due: minute, hour, day of month, month, day of week, like "0 3 * * *".',
    ),
    click.Option(["--tz", "tz"], metavar="ZONE", help="Time zone of the cron fields [default: UTC]."),
    click.Option(["--every", "every"], metavar="DURATION", help="An interval instead: PT15M, PT6H, P1D."),
    click.Option(["--at", "at"], metavar="TIME", help="One time instead: 2026-12-01T09:00+01:00."),
    click.Option(
        ["--catch-up", "catch_up"],
        type=click.Choice(["one", "all", "none"]),
        help="Tasks for times that nobody was there for: one for the newest, all up to 100, or none [default: one].",
    ),
    click.Option(
        ["--overlap", "overlap"],
        type=click.Choice(["skip", "queue"]),
        help="While the previous task has not ended: skip the time, or queue another task [default: skip].",
    ),
    click.Option(["--lane", "lane"], help="The lane (queue) of its tasks."),
    *ONE_STEP_OPTIONS,
    click.Option(["--priority", "priority"], type=int, help="Tasks with a higher number run first."),
    with_fields=False,
)
def add(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Add a schedule whose task is read from a file, or made from options."""
    fields = tuple_fields(values, "the task (tuple)")
    timing = ("cron", "every", "at")
    if any(name in values for name in timing):  # options win over the file
        fields = {name: value for name, value in fields.items() if name not in (*timing, "tz")}
    names = ("name", *timing, "tz", "catch_up", "overlap", "lane", "priority")
    session.call_and_print(operation, fields | {name: values[name] for name in names if name in values})
