"""The catalog: an immutable map of every yool by name, each with its versions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from engrambus.core import canonical
from engrambus.errors import YoolNotFound, YoolTwice
from engrambus.space.catalog.entries import CatalogEntry
from engrambus.space.catalog.names import nearest_names, parse_name
from engrambus.space.catalog.trie import NodeSharing, Trie

Versions = tuple[CatalogEntry, ...]
"""Every version of one yool, the newest last."""


class CatalogDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between two catalogs."""

    added: tuple[CatalogEntry, ...] = ()
    removed: tuple[CatalogEntry, ...] = ()
    changed: tuple[tuple[CatalogEntry, CatalogEntry], ...] = ()
    """Pairs of the old and the new entry."""


class Catalog:
    """Yools by name. Adding and removing return another catalog, which shares everything that did not change."""

    # decision 21: keys are names without versions, so that "the newest version" is one lookup and not a search.

    def __init__(self, entries: Iterable[CatalogEntry] = ()) -> None:
        by_name: dict[str, dict[int, CatalogEntry]] = {}
        for entry in entries:
            versions = by_name.setdefault(entry.name, {})
            if versions.setdefault(entry.version, entry) is not entry:
                raise _duplicate(entry)
        self._set_trie(Trie(((name, _sorted(versions)) for name, versions in by_name.items()), content=_content))

    def _set_trie(self, trie: Trie[Versions]) -> None:
        self._trie = trie
        self._resolved: dict[str, CatalogEntry] = {}  # a lookup here is several times faster than a walk down the trie
        self._names: list[str] | None = None
        self._lanes: dict[str | None, list[CatalogEntry]] | None = None

    def lookup(self, name: str) -> CatalogEntry:
        """Return the yool of that name, the newest version unless one is named; refuse with the nearest names."""
        try:
            return self._resolved[name]
        except KeyError:
            entry = self.get(name)
        if entry is None:
            raise self._not_found(name)
        self._resolved[name] = entry
        return entry

    def get(self, name: str) -> CatalogEntry | None:
        """Return the yool of that name, the newest version unless one is named; None if there is none."""
        base, version = parse_name(name)
        versions = self._trie.get(base)
        if versions is None:
            return None
        if version is None:
            return versions[-1]
        return next((entry for entry in versions if entry.version == version), None)

    def versions(self, name: str) -> Versions:
        """Return every version of a yool, the newest last."""
        return self._trie.get(parse_name(name).base) or ()

    def by_lane(self, lane: str | None, after: str | None = None) -> Sequence[CatalogEntry]:
        """Return the yools of a lane, or all, sorted by name and version, from behind the name `after`."""
        if self._lanes is None:
            lanes: dict[str | None, list[CatalogEntry]] = {None: list(self)}
            for entry in lanes[None]:
                lanes.setdefault(entry.lane, []).append(entry)
            self._lanes = lanes
        entries = self._lanes.get(lane, ())
        if after is None:
            return entries
        base, version = parse_name(after, "cursor")
        return entries[bisect_right(entries, (base, version or 0), key=_order) :]

    def add(self, entry: CatalogEntry) -> Catalog:
        """Return the catalog with another yool or version; refuse one that is already in it."""
        versions = self._trie.get(entry.name)
        if versions is None:
            return self._with(self._trie.put(entry.name, (entry,)))
        by_version = {version.version: version for version in versions}
        if entry.version in by_version:
            raise _duplicate(entry)
        return self._with(self._trie.put(entry.name, _sorted({**by_version, entry.version: entry})))

    def remove(self, name: str) -> Catalog:
        """Return the catalog without one version of a yool: the one named, or the newest."""
        removed = self.get(name)
        if removed is None:
            raise self._not_found(name)
        remaining = tuple(entry for entry in self.versions(removed.name) if entry is not removed)
        return self._with(self._trie.put(removed.name, remaining) if remaining else self._trie.drop(removed.name))

    def diff(self, newer: Catalog) -> CatalogDiff:
        """Return what a newer catalog added, removed and changed; shared parts are skipped unread."""
        added: list[CatalogEntry] = []
        removed: list[CatalogEntry] = []
        changed: list[tuple[CatalogEntry, CatalogEntry]] = []
        for _, was, now in self._trie.diff(newer._trie):
            old = {entry.version: entry for entry in was or ()}
            new = {entry.version: entry for entry in now or ()}
            removed += (entry for version, entry in old.items() if version not in new)
            added += (entry for version, entry in new.items() if version not in old)
            changed += (
                (entry, new[version]) for version, entry in old.items() if version in new and new[version] != entry
            )
        return CatalogDiff(
            added=tuple(sorted(added, key=_order)),
            removed=tuple(sorted(removed, key=_order)),
            changed=tuple(sorted(changed, key=lambda pair: _order(pair[1]))),
        )

    def sharing(self, older: Catalog) -> NodeSharing:
        """Count the nodes of this catalog that are shared with an older one."""
        return self._trie.sharing(older._trie)

    @property
    def root(self) -> str:
        """Digest of the whole content; equal for equal content."""
        return self._trie.root

    @property
    def popcount(self) -> int:
        """Number of the thirty-two slots at the top that are in use."""
        return self._trie.popcount

    def __iter__(self) -> Iterator[CatalogEntry]:
        """Yield every version of every yool, sorted by name and version."""
        for name in self.names():
            yield from self._trie.get(name) or ()

    def __len__(self) -> int:
        """Return the number of names, not of versions."""
        return len(self._trie)

    def names(self) -> list[str]:
        """Return every name without its versions, sorted."""
        if self._names is None:
            self._names = sorted(name for name, _ in self._trie.items())
        return self._names

    def _with(self, trie: Trie[Versions]) -> Catalog:
        catalog = Catalog.__new__(Catalog)
        catalog._set_trie(trie)
        return catalog

    def _not_found(self, name: str) -> YoolNotFound:
        base, version = parse_name(name)
        versions = self._trie.get(base)
        if versions is not None:
            newest = [entry.full_name for entry in reversed(versions[-5:])]
            return YoolNotFound(
                f"'{base}' has no version {version}.",
                field="name",
                used=name,
                nearest=newest,
                hint=f"There is {', '.join(newest)}.",
            )
        nearest = nearest_names(base, self.names())
        return YoolNotFound(
            f"There is no yool '{name}' in the catalog.",
            field="name",
            used=name,
            nearest=nearest,
            hint=f"Did you mean {' or '.join(nearest)}?"
            if nearest
            else "Declare it in AGENTS.md, then run: engrambus catalog build",
        )


def _sorted(versions: dict[int, CatalogEntry]) -> Versions:
    return tuple(versions[number] for number in sorted(versions))


def _order(entry: CatalogEntry) -> tuple[str, int]:
    return entry.name, entry.version


def _content(versions: Versions) -> bytes:
    return canonical([entry.to_fields() for entry in versions])


def _duplicate(entry: CatalogEntry) -> YoolTwice:
    return YoolTwice(
        f"'{entry.full_name}' is declared twice.",
        field="yool_id",
        used=entry.full_name,
        hint="A name without a version means version 1.",
    )
