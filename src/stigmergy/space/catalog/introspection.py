"""The catalog's own yools: a step of a tuple can ask what there is. They read the file of the folder they run in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stigmergy.errors import CatalogFile
from stigmergy.space.catalog.catalog import Catalog
from stigmergy.space.catalog.file import CAPABILITIES, read_catalog
from stigmergy.space.catalog.registry import Yool, catalog_yool

_FILE = f".catalog/{CAPABILITIES}"


def lookup(name: str) -> dict[str, Any]:
    """What the catalog says of a yool."""
    return _whole(_FILE).lookup(name).printed()


def list_by_lane(lane: str) -> list[dict[str, Any]]:
    """The yools of a lane."""
    return [entry.printed() for entry in _whole(_FILE).by_lane(lane)]


def diff(old: str) -> dict[str, list[str]]:
    """What the catalog has that an older file of one has not, what it lost, and what differs."""
    changes = _whole(old).diff(_whole(_FILE))
    return {
        "added": [entry.full_name for entry in changes.added],
        "removed": [entry.full_name for entry in changes.removed],
        "changed": [now.full_name for _, now in changes.changed],
    }


INTROSPECTION: tuple[Yool, ...] = (
    catalog_yool("catalog.diff", diff, inputs=("${old}", _FILE)),
    catalog_yool("catalog.list_by_lane", list_by_lane, inputs=(_FILE,)),
    catalog_yool("catalog.lookup", lookup, inputs=(_FILE,)),
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


def _whole(file: str) -> Catalog:
    here = Path.cwd()
    path = (here / file).resolve()
    if not path.is_relative_to(here):
        raise CatalogFile("The file lies outside the folder.", field="old", used=file[:200])
    return with_introspection(read_catalog(path) if path.exists() else Catalog())
