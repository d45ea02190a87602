"""The panels of the page. A later plane adds its own: a loader, a template, a row in this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from engrambus.edges.page import brief, budgets, feed, figures, requests, review, work
from engrambus.edges.page.desk import Desk

Load = Callable[[Desk, Mapping[str, str]], dict[str, Any]]


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the page."""

    name: str
    """Its address, `/page/<name>`, and its template."""
    title: str
    """What the page's menu calls it; without one, it is not there."""
    load: Load
    """What its template shows, from operations and the parameters of the address."""
    params: tuple[str, ...] = ()
    """The parameters of the address that are its own."""
    start: Literal["head", "main", "rail", ""] = ""
    """Where it stands on the start page, if it does."""
    live: tuple[str, ...] = ()
    """The events that make it load anew; a type, or what a type begins with."""


SPENDING = ("less.deref.", "less.message.", "less.budget.", "less.grant.", "less.turn.", "less.agent.")

PANELS: dict[str, Panel] = {
    panel.name: panel
    for panel in (
        Panel(name="team", title="", load=budgets.load, start="head", live=SPENDING),
        Panel(
            name="feed",
            title="Feed",
            load=feed.load,
            params=feed.PARAMS,
            start="main",
            live=(
                "less.engram.put",
                "less.engram.promote",
                "less.engram.forget",
                "less.engram.pin",
                "less.engram.unpin",
            ),
        ),
        Panel(
            name="requests",
            title="Requests",
            load=requests.load,
            start="rail",
            live=("less.deref.request", "less.deref.answer", "less.message.accept"),
        ),
        Panel(
            name="review", title="Review", load=review.load, start="rail", live=("cortex.contribute", "cortex.review")
        ),
        Panel(
            name="brief",
            title="Brief",
            load=brief.load,
            params=brief.PARAMS,
            start="rail",
            live=(
                "less.brief.make",
                "less.engram.put",
                "less.engram.promote",
                "less.engram.forget",
                "less.engram.pin",
                "less.engram.unpin",
            ),
        ),
        Panel(
            name="budgets",
            title="Budgets",
            load=budgets.load,
            start="rail",
            live=SPENDING,
        ),
        Panel(name="work", title="Work", load=work.load, live=("work.changed",)),
        Panel(
            name="figures",
            title="Figures",
            load=figures.load,
            params=figures.PARAMS,
            live=("less.engram.put", "less.deref.", "less.message.", "less.budget."),
        ),
    )
}
