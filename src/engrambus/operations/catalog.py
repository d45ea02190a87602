"""Asking what can be done: yools by name and by lane. The catalog is built from files, at the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation

if TYPE_CHECKING:
    from engrambus.space.catalog import CatalogEntry

PAGE = 100


class CatalogLookup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="agent.lint.ruff, or agent.lint.ruff.v2")]


class YoolAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    yool_id: str
    """The name with its version."""
    authority: list[str]
    """On whose authority it may run."""
    lane: str
    agent_terms: dict[str, int | float] = {}
    """What a step may spend unless its tuple says otherwise."""
    agent: str | None = None
    about: str = ""
    contract: dict[str, Any] = {}
    versions: list[int] = []
    """Every version there is."""


@operation(
    "catalog.lookup",
    route=Route("GET", "/catalog/{name}"),
    command=Command(
        "catalog lookup",
        section="work",
        example="engrambus catalog lookup agent.lint.ruff",
        renderer="work:yool",
        rank=62,
        arguments=("name",),
    ),
    tool=Tool(),
)
def catalog_lookup(context: Context, request: CatalogLookup) -> YoolAnswer:
    """Show what a yool does, who may run it, and its limits.

    A yool is a named function that a step of a task can run.
    """
    catalog = context.project_files.catalog()
    entry = catalog.lookup(request.name)
    return YoolAnswer(**entry.to_fields(), versions=[each.version for each in catalog.versions(entry.name)])


class CatalogListByLane(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lane: Annotated[str | None, Meta(description="Only this lane's")] = None
    cursor: Annotated[str | None, Meta(description="Go on after this yool")] = None


class YoolRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    yool_id: str
    lane: str
    about: str = ""


class CatalogAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    yools: list[YoolRow]
    """By name and version, a hundred at a time."""
    root: str
    """The digest of what the project declares, as `engrambus catalog build` says it."""
    cursor: str | None = None
    """Where to go on, when there is more."""


@operation(
    "catalog.list_by_lane",
    route=Route("GET", "/catalog"),
    command=Command(
        "catalog list",
        section="work",
        example="engrambus catalog list --lane build",
        renderer="work:yool_list",
        rank=64,
    ),
    tool=Tool(hidden=("cursor",)),
)
def catalog_list_by_lane(context: Context, request: CatalogListByLane) -> CatalogAnswer:
    """List the yools (named steps) of a lane, or all."""
    from engrambus.space.catalog import read_lane, without_introspection

    catalog = context.project_files.catalog()
    lane = None if request.lane is None else read_lane(request.lane)
    entries = catalog.by_lane(lane, request.cursor)
    shown, more = entries[:PAGE], len(entries) > PAGE
    return CatalogAnswer(
        yools=[_row(entry) for entry in shown],
        root=without_introspection(catalog).root,
        cursor=shown[-1].full_name if more else None,
    )


def _row(entry: CatalogEntry) -> YoolRow:
    return YoolRow(yool_id=entry.full_name, lane=entry.lane, about=entry.about)
