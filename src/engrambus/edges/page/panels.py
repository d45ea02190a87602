"""The panels of the page: what each one shows, where it is shown, and which events reload it.

A new panel is a function that loads its data, a template of the panel's name, and a row in `PANELS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from engrambus.core import parse_time
from engrambus.edges.page.messages import load_messages, mark_seen
from engrambus.edges.page.session import PageSession
from engrambus.errors import CatalogRefusal
from engrambus.knowledge.engrams import KINDS
from engrambus.operations.brief import BriefedEngram
from engrambus.operations.catalog import YoolRow
from engrambus.operations.stats import AgentFigures, sum_figures
from engrambus.policy import ADMIN, ROLES
from engrambus.space.catalog import RESERVED

FEED_PARAMS = ("q", "role", "agent", "scope", "kind", "stale", "before")
FEED_ROWS = 50
REVIEW_ROWS = 50
BOARD_ROWS = 50

BUCKETS = {"PT1M": ("the last hour", 60), "PT1H": ("the last two days", 48), "P1D": ("the last month", 30)}
"""Length of a point on the plots, the time all points cover, and their number."""

_BRIEF_ENGRAM = re.compile(
    r"(?:- )?\[(?P<pin>pinned )?(?:learned )?(?P<kind>[a-z]+)\] (?P<claim>.*) \((?P<ref>[^ ()]+)(?: \+(?P<extra>\d+))?"
    r"(?:, (?P<state>changed since|gone))?\)"
)
"""A line about an engram or a memory; versions of older releases begin with `- `."""
_BRIEF_TITLES = {"constraint": "Constraints", "policy": "Constraints", "risk": "Risks"}

Params = Mapping[str, str]
PanelData = dict[str, Any]


# Feed


def load_feed(session: PageSession, params: Params) -> PanelData:
    """Return one page of engrams, newest first, filtered by the parameters of the address."""
    filters = {name: params.get(name) for name in FEED_PARAMS if name != "before"}
    if filters["stale"]:
        filters["stale"] = "true"
    answer = session.call("feed", **filters, cursor=params.get("before"), k=FEED_ROWS)
    is_filtered = any(filters.values())
    return {
        "answer": answer,
        "filters": filters,
        "is_filtered": is_filtered,
        "is_empty": not answer.rows and not is_filtered and "before" not in params,
        "kinds": KINDS,
        "roles": ROLES,
        "scopes": ("run", "project", "org", "global"),
    }


# Requests and contributions that wait for a person


def load_requests(session: PageSession, params: Params) -> PanelData:
    """Return the open requests to read more than a turn allows, and to promote engrams beyond the project."""
    answer = session.call("list_requests")
    return {"rows": answer.requests, "now": answer.as_of, "promotions": session.call("list_promotions").promotions}


def load_review(session: PageSession, params: Params) -> PanelData:
    """Return the contributions and the contradictions that wait for a decision, newest first."""
    answer = session.call("list_contributions", k=REVIEW_ROWS)
    disputes = session.call("list_contradictions", k=REVIEW_ROWS)
    return {
        "rows": answer.contributions,
        "contradictions": disputes.contradictions,
        "now": answer.as_of,
        "has_more": answer.cursor is not None,
        "has_more_contradictions": disputes.cursor is not None,
    }


# Brief


class BriefLine(NamedTuple):
    """One line of a brief, parsed from its text, with what is known of its engram."""

    text: str
    """The whole line, or the claim of an engram."""
    sign: str = ""
    """`+` or `-` in a comparison of two versions."""
    title: str = ""
    """Heading of the part that the line begins, if it begins one."""
    kind: str = ""
    """Kind of the engram; empty for other lines."""
    ref: str = ""
    extra_pointers: int = 0
    """Number of pointers besides `ref`."""
    is_pinned: bool = False
    state: str = ""
    """What became of the lines behind a pinned engram: `changed since` or `gone`."""
    engram: BriefedEngram | None = None
    """Author and time, where the brief is the present one."""


def load_brief(session: PageSession, params: Params) -> PanelData:
    """Return the brief of a role or an agent in one version, and the changes since another if the address names one."""
    since, reader = params.get("since"), params.get("for")
    agents = [agent.agent_id for agent in session.call("list_agents").agents]
    # An address may name an agent of another run; then the brief that was made last is shown.
    named = {"role": reader} if reader in ROLES else {"for_agent": reader} if reader in agents else {}
    answer = session.call("list_briefs", **named, version=params.get("version"), since=since)
    versions = [row.version for row in answer.versions]
    # A brief that has changed since it was last read has no number yet: it counts as the next version.
    version = answer.version or (versions[0] + 1 if versions else 1)
    return {
        "answer": answer,
        "lines": list(parse_brief(answer.lines, answer.engrams)),
        "changed": None if answer.changed is None else [parse_line(line[2:], line[:1]) for line in answer.changed],
        "since": since,
        "earlier": [number for number in versions if number < version],
        "roles": ROLES,
        "agents": agents,
        "reader": named.get("for_agent", answer.role),
    }


def parse_brief(lines: Iterable[str], engrams: Iterable[BriefedEngram]) -> Iterator[BriefLine]:
    """Yield the parsed lines of a brief; the first of each part has its heading."""
    known = {engram.line: engram for engram in engrams}
    last_title = ""
    for number, text in enumerate(lines):
        line = parse_line(text)
        if line.kind:
            title = "Pinned" if line.is_pinned else _BRIEF_TITLES.get(line.kind, "Now")
            engram = known.get(number)
            line = line._replace(
                title=title if title != last_title else "", engram=engram, ref=engram.ref if engram else line.ref
            )
            last_title = title
        elif text.endswith(":"):  # a heading in a version of an older release
            continue
        yield line


def parse_line(text: str, sign: str = "") -> BriefLine:
    """Return one line of a brief in parts."""
    match = _BRIEF_ENGRAM.fullmatch(text)
    if match is None:
        return BriefLine(text, sign)
    return BriefLine(
        match["claim"],
        sign,
        kind=match["kind"],
        ref=match["ref"],
        extra_pointers=int(match["extra"] or 0),
        is_pinned=match["pin"] is not None,
        state=match["state"] or "",
    )


# Reservations


def load_reserved(session: PageSession, params: Params) -> PanelData:
    """Return what agents and people have reserved, in all runs."""
    return {"rows": session.call("list_reservations").reservations}


# Budgets


def load_budgets(session: PageSession, params: Params) -> PanelData:
    """Return the figures of all agents, without people's, and each agent's figures below those of its parent."""
    answer = session.call("stats", last=0)
    # decision 80: a person who looks at the page changes no figure of the team
    team = sum_figures([row.figures for row in answer.roles if row.role != ADMIN])
    return {
        "answer": answer,
        "team": team,
        "agents": order_by_parent(answer.agents),
        "team_budget": session.call("team_budget"),
    }


def order_by_parent(agents: Sequence[AgentFigures]) -> list[tuple[int, AgentFigures]]:
    """Return the agents, each with its depth, in an order where children follow their parent."""
    names = {agent.agent_id for agent in agents}
    children: dict[str | None, list[AgentFigures]] = {}
    for agent in agents:
        children.setdefault(agent.parent if agent.parent in names else None, []).append(agent)
    rows: list[tuple[int, AgentFigures]] = []

    def add_children(parent: str | None, depth: int) -> None:
        for agent in children.get(parent, ()):
            rows.append((depth, agent))
            add_children(agent.agent_id, depth + 1)

    add_children(None, 0)
    return rows


# Work


def load_work(session: PageSession, params: Params) -> PanelData:
    """Return the lanes, the tuples that run, have ended or were given up, and the declared yools."""
    return {
        "board": session.call_over_runs("work_board", limit=BOARD_ROWS),
        "yools": _declared_yools(session),
        "schedules": session.call_over_runs("list_schedules", limit=BOARD_ROWS).schedules,
    }


def _declared_yools(session: PageSession) -> list[YoolRow]:
    """Return the first yools that the project declares; none if its catalog cannot be read, which a build tells."""
    try:
        listed = session.call("catalog_list_by_lane").yools
    except CatalogRefusal:
        return []
    return [row for row in listed if row.yool_id.partition(".")[0] != RESERVED]


# Figures


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """One plot of several counts over time."""

    name: str
    title: str
    series: dict[str, str]
    """The label of each line, and the count it shows."""


PLOTS = (
    Plot(name="tokens", title="Tokens sent and read",
         series={"in messages": "inline_tokens", "read from pointers": "deref_tokens", "refused": "rejected_tokens"}),
    Plot(name="reads", title="Reads and requests to read more",
         series={"reads": "derefs", "requests": "requests", "grants": "grants"}),
    Plot(name="messages", title="Messages",
         series={"accepted": "messages", "rejected": "rejections", "sent again": "resends"}),
    Plot(name="denials", title="Denied calls and warnings",
         series={"denied": "denials", "warned about": "warnings"}),
    Plot(name="engrams", title="Engrams added",
         series={"engrams": "engrams", "contradictions": "contradictions"}),
)  # fmt: skip


def load_figures(session: PageSession, params: Params) -> PanelData:
    """Return each plot with its points."""
    bucket = params.get("bucket", "PT1M")
    answer = session.call("stats", bucket=bucket, last=BUCKETS.get(bucket, ("", 0))[1])
    points = answer.history.points
    plots = []
    for plot in PLOTS:
        values = {label: [getattr(point.team, field) for point in points] for label, field in plot.series.items()}
        rows = [(point.start, row) for point, row in zip(points, zip(*values.values(), strict=True), strict=True)]
        plots.append(
            {
                "plot": plot,
                "data": {"seconds": [parse_time(point.start) // 1_000_000 for point in points], "series": values},
                "rows": [(start, row) for start, row in reversed(rows) if any(row)],
            }
        )
    return {"answer": answer, "plots": plots, "bucket": bucket, "buckets": BUCKETS}


# The table


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the page."""

    name: str
    """Its address, `/page/<name>`, and its template, `<name>.html`."""
    title: str
    """Its name in the menu and in the title of the tab."""
    in_menu: bool | Literal["narrow"] = True
    """`narrow` if only where the start page has no room for it."""
    load: Callable[[PageSession, Params], PanelData]
    """Returns the variables of its template."""
    params: tuple[str, ...] = ()
    """The parameters of the address that belong to this panel."""
    start: Literal["head", "main", "rail", ""] = ""
    """Its area on the start page, if it is shown there."""
    on_shown: Callable[[PageSession], None] | None = None
    """Called when a script has loaded the panel alone: what it shows was seen then."""
    live: tuple[str, ...] = ()
    """The events that reload it: event types, or prefixes of types that end with a dot."""


ENGRAM_EVENTS = (
    "less.engram.put",
    "less.engram.confirm",
    "less.engram.adopt",
    "less.engram.trust",
    "less.engram.promote",
    "less.engram.forget",
    "less.engram.replace",
    "less.engram.pin",
    "less.engram.unpin",
)
SPENDING_EVENTS = ("less.deref.", "less.message.", "less.budget.", "less.grant.", "less.turn.", "less.agent.")

PANELS: dict[str, Panel] = {
    panel.name: panel
    for panel in (
        Panel(name="team", title="Team", load=load_budgets, start="head", live=SPENDING_EVENTS, in_menu=False),
        Panel(
            name="feed",
            title="Feed",
            load=load_feed,
            params=FEED_PARAMS,
            start="main",
            live=ENGRAM_EVENTS,
            in_menu=False,
        ),
        Panel(
            name="requests",
            title="Requests",
            load=load_requests,
            start="rail",
            live=(
                "less.deref.request",
                "less.deref.answer",
                "less.message.accept",
                "less.promotion.request",
                "less.promotion.answer",
            ),
        ),
        Panel(
            name="review",
            title="Review",
            load=load_review,
            start="rail",
            live=("cortex.contribute", "cortex.review", "less.contradiction."),
        ),
        Panel(
            name="messages",
            title="Messages",
            load=load_messages,
            params=("older",),
            start="rail",
            on_shown=mark_seen,
            live=("less.message.", "less.deref.request"),
        ),
        Panel(
            name="reserved",
            title="Reserved files",
            load=load_reserved,
            start="rail",
            live=("less.reservation.", "less.agent.remove"),
            in_menu="narrow",
        ),
        Panel(
            name="brief",
            title="Brief",
            load=load_brief,
            params=("for", "version", "since"),
            start="rail",
            live=("less.brief.make", *ENGRAM_EVENTS),
        ),
        Panel(name="budgets", title="Budgets", load=load_budgets, start="rail", live=SPENDING_EVENTS),
        Panel(name="work", title="Work", load=load_work, live=("work.changed",)),
        Panel(
            name="figures",
            title="Figures",
            load=load_figures,
            params=("bucket",),
            live=("less.engram.put", "less.deref.", "less.message.", "less.budget."),
        ),
    )
}
