"""The catalog as its file holds it now: read again when the file has changed, and only then."""

from __future__ import annotations

from pathlib import Path

from engrambus.space.catalog.catalog import Catalog
from engrambus.space.catalog.file import CAPABILITIES, read_catalog
from engrambus.space.catalog.introspection import with_introspection


class CatalogReader:
    """Reads a project's `capabilities.json`; without one, only the catalog's own yools are there."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / CAPABILITIES if folder is not None else None
        self._held: tuple[tuple[int, int, int] | None, Catalog] | None = None

    def current(self) -> Catalog:
        """The catalog now."""
        stamp = self._stamp()
        held = self._held
        if held is None or held[0] != stamp:
            read = Catalog() if stamp is None or self._path is None else read_catalog(self._path)
            held = self._held = (stamp, with_introspection(read))
        return held[1]

    def _stamp(self) -> tuple[int, int, int] | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
