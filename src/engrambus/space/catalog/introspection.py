"""The project's current catalog, and the yools of the domain `catalog` with which steps can query it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engrambus.errors import CatalogFile
from engrambus.space.catalog.capabilities_file import CAPABILITIES, read_catalog
from engrambus.space.catalog.catalog import Catalog
from engrambus.space.catalog.names import read_lane
from engrambus.space.catalog.registry import Yool, catalog_yool


class CatalogReader:
    """Reads a project's `capabilities.json`, again only when the file has changed.

    Without a file, the catalog has only the yools of this module.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / CAPABILITIES if folder is not None else None
        self._cached: tuple[tuple[int, int, int] | None, Catalog] | None = None

    def current(self) -> Catalog:
        """Return the catalog as of now."""
        stamp = self._stamp()
        cached = self._cached
        if cached is None or cached[0] != stamp:
            catalog = Catalog() if stamp is None or self._path is None else read_catalog(self._path)
            cached = self._cached = (stamp, with_introspection(catalog))
        return cached[1]

    def _stamp(self) -> tuple[int, int, int] | None:
        """Return what changes with the file's content; None without a file."""
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        # The inode too: a file that is replaced twice within one tick of the clock differs in nothing else.
        return status.st_mtime_ns, status.st_size, status.st_ino


def lookup(name: str) -> dict[str, Any]:
    """Look up a yool by its name."""
    return _current().lookup(name).to_fields()


def list_by_lane(lane: str) -> list[dict[str, Any]]:
    """List the yools of a lane."""
    return [entry.to_fields() for entry in _current().by_lane(read_lane(lane))]


def diff(old: str) -> dict[str, list[str]]:
    """List the yools that were added, removed or changed since an older catalog file."""
    folder = Path.cwd()
    path = (folder / old).resolve()
    if not path.is_relative_to(folder):  # a step must not read files outside the folder it runs in
        raise CatalogFile("The file lies outside the folder.", field="old", used=old[:200])
    if not path.exists():
        raise CatalogFile("There is no such file.", field="old", used=old[:200])
    changes = with_introspection(read_catalog(path)).diff(_current())
    return {
        "added": [entry.full_name for entry in changes.added],
        "removed": [entry.full_name for entry in changes.removed],
        "changed": [new.full_name for _, new in changes.changed],
    }


INTROSPECTION: tuple[Yool, ...] = (
    catalog_yool("catalog.diff", diff),
    catalog_yool("catalog.list_by_lane", list_by_lane),
    catalog_yool("catalog.lookup", lookup),
)
"""The yools with which steps can query the catalog."""


def with_introspection(catalog: Catalog) -> Catalog:
    """Return a catalog with the yools of this module added."""
    for yool in INTROSPECTION:
        catalog = catalog.add(yool.entry)
    return catalog


def without_introspection(catalog: Catalog) -> Catalog:
    """Return what the project itself declares, as it is written in `capabilities.json`."""
    for yool in INTROSPECTION:
        catalog = catalog.remove(yool.entry.full_name)
    return catalog


def _current() -> Catalog:
    from engrambus.policy import find_project

    path = find_project(Path.cwd()).catalog / CAPABILITIES
    return with_introspection(read_catalog(path) if path.exists() else Catalog())
