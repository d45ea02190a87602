"""Operations on the catalog: look up a yool, list yools. It is built from files, by `engrambus catalog build`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.space.catalog import Signature, read_lane, without_introspection

PAGE_SIZE = 100


class CatalogLookup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[
        str, Meta(description="The yool's name, with or without a version: agent.lint.ruff, agent.lint.ruff.v2")
    ]


class YoolAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    yool_id: str
    """The name with its version."""
    authority: list[str]
    """Authorities it may run on."""
    lane: str
    agent_terms: dict[str, int | float] = {}
    """Default limits of a step, unless its tuple sets others."""
    agent: str | None = None
    about: str = ""
    triggers: str = ""
    """What makes somebody run it, as AGENTS.md says; nothing runs it by itself."""
    contract: dict[str, Any] = {}
    arguments: Signature | None = None
    """Arguments it takes, if the catalog was built with its code; a step with others is refused."""
    versions: list[int] = []
    """All versions of it in the catalog."""


@operation(
    "catalog.lookup",
    route=Route("GET", "/catalog/{name}", conditional=True),
    command=Command(
        "catalog lookup",
        section="work",
        example="engrambus catalog lookup agent.lint.ruff",
        renderer="work:yool",
        rank=62,
        arguments=("name",),
    ),
    tool=Tool(about="Show what a yool does and needs.", needs_yools=True),
)
def catalog_lookup(context: Context, request: CatalogLookup) -> YoolAnswer:
    """Show what a yool does, who may run it, and its limits.

    A yool is a named function that a step of a task can run.
    """
    catalog = context.project_files.catalog()
    entry = catalog.lookup(request.name)
    fields = entry.to_fields() | {"arguments": entry.arguments}
    return YoolAnswer(**fields, versions=[version.version for version in catalog.versions(entry.name)])


class CatalogListByLane(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lane: Annotated[str | None, Meta(description="Only yools of this lane")] = None
    cursor: Annotated[str | None, Meta(description="Continue after this yool")] = None


class YoolRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    yool_id: str
    lane: str
    about: str = ""
    triggers: str = ""


class CatalogAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    yools: list[YoolRow]
    """Sorted by name and version, up to a hundred."""
    root: str
    """The digest of what the project declares, as `engrambus catalog build` prints it."""
    cursor: str | None = None
    """Cursor of the next page, if there is one."""


@operation(
    "catalog.list_by_lane",
    route=Route("GET", "/catalog", conditional=True),
    command=Command(
        "catalog list",
        section="work",
        example="engrambus catalog list --lane build",
        renderer="work:yool_list",
        rank=64,
    ),
    tool=Tool(about="List the yools (named steps).", hidden=("cursor",), needs_yools=True),
)
def catalog_list_by_lane(context: Context, request: CatalogListByLane) -> CatalogAnswer:
    """List the yools (named steps) of a lane, or all."""
    catalog = context.project_files.catalog()
    lane = None if request.lane is None else read_lane(request.lane)
    entries = catalog.by_lane(lane, request.cursor)
    page = entries[:PAGE_SIZE]
    return CatalogAnswer(
        yools=[
            YoolRow(yool_id=entry.full_name, lane=entry.lane, about=entry.about, triggers=entry.triggers)
            for entry in page
        ],
        root=without_introspection(catalog).root,
        cursor=page[-1].full_name if len(entries) > PAGE_SIZE else None,
    )
