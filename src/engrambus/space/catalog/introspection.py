"""The catalog's own yools: a step of a tuple can ask what there is in the project it runs in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engrambus.errors import CatalogFile
from engrambus.space.catalog.catalog import Catalog
from engrambus.space.catalog.file import CAPABILITIES, read_catalog
from engrambus.space.catalog.names import check_lane
from engrambus.space.catalog.registry import Yool, catalog_yool


def lookup(name: str) -> dict[str, Any]:
    """What the catalog says of a yool."""
    return _current().lookup(name).printed()


def list_by_lane(lane: str) -> list[dict[str, Any]]:
    """The yools of a lane."""
    return [entry.printed() for entry in _current().by_lane(check_lane(lane))]


def diff(old: str) -> dict[str, list[str]]:
    """What the catalog has that an older file of one has not, what it lost, and what differs."""
    here = Path.cwd()
    path = (here / old).resolve()
    if not path.is_relative_to(here):
        raise CatalogFile("The file lies outside the folder.", field="old", used=old[:200])
    if not path.exists():
        raise CatalogFile("There is no such file.", field="old", used=old[:200])
    changes = with_introspection(read_catalog(path)).diff(_current())
    return {
        "added": [entry.full_name for entry in changes.added],
        "removed": [entry.full_name for entry in changes.removed],
        "changed": [now.full_name for _, now in changes.changed],
    }


# They are never answered from the cache: where a project's file lies is not always beneath the folder steps run in.
INTROSPECTION: tuple[Yool, ...] = (
    catalog_yool("catalog.diff", diff),
    catalog_yool("catalog.list_by_lane", list_by_lane),
    catalog_yool("catalog.lookup", lookup),
)


def with_introspection(catalog: Catalog) -> Catalog:
    """A catalog and the yools that tell about it."""
    for yool in INTROSPECTION:
        catalog = catalog.add(yool.entry)
    return catalog


def without_introspection(catalog: Catalog) -> Catalog:
    """What the project declares of a catalog: what its file holds."""
    for yool in INTROSPECTION:
        catalog = catalog.remove(yool.entry.full_name)
    return catalog


def _current() -> Catalog:
    from engrambus.policy import find_project

    path = find_project(Path.cwd()).catalog / CAPABILITIES
    return with_introspection(read_catalog(path) if path.exists() else Catalog())
