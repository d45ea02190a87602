"""The catalog: every yool by name, each with its versions, as a value that never changes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from engrambus.core import canonical
from engrambus.errors import YoolNotFound, YoolTwice
from engrambus.space.catalog.names import parse_name
from engrambus.space.catalog.nearest import nearest_names
from engrambus.space.catalog.trie import Sharing, Trie
from engrambus.space.catalog.values import CatalogEntry

Versions = tuple[CatalogEntry, ...]
"""Every version of one yool, the newest last."""


class CatalogDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a catalog."""

    added: tuple[CatalogEntry, ...] = ()
    removed: tuple[CatalogEntry, ...] = ()
    changed: tuple[tuple[CatalogEntry, CatalogEntry], ...] = ()
    """As they were, and as they are."""


class Catalog:
    """Yools by name. Adding and removing make another catalog, which shares what did not change."""

    def __init__(self, entries: Iterable[CatalogEntry] = ()) -> None:
        held: dict[str, dict[int, CatalogEntry]] = {}
        for entry in entries:
            versions = held.setdefault(entry.name, {})
            if versions.setdefault(entry.version, entry) is not entry:
                raise _twice(entry)
        self._begin(Trie(((name, _ordered(each)) for name, each in held.items()), content=_content))

    def _begin(self, trie: Trie[Versions]) -> None:
        self._trie = trie
        self._resolved: dict[str, CatalogEntry] = {}
        self._names: list[str] | None = None
        self._lanes: dict[str | None, list[CatalogEntry]] | None = None

    def lookup(self, name: str) -> CatalogEntry:
        """The yool of that name, the newest version unless one is named; else a refusal with the nearest names."""
        try:
            return self._resolved[name]
        except KeyError:
            entry = self.get(name)
        if entry is None:
            raise self._not_found(name)
        self._resolved[name] = entry
        return entry

    def get(self, name: str) -> CatalogEntry | None:
        """The yool of that name, if there is one."""
        base, version = parse_name(name)
        versions = self._trie.get(base)
        if versions is None:
            return None
        if version is None:
            return versions[-1]
        return next((each for each in versions if each.version == version), None)

    def versions(self, name: str) -> Versions:
        """Every version of a yool, the newest last."""
        return self._trie.get(parse_name(name).base) or ()

    def by_lane(self, lane: str | None, after: str | None = None) -> Sequence[CatalogEntry]:
        """The yools of a lane, or all, by name and version; only those that follow a name, when one is given."""
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
        """The catalog with another yool, or another version of one; what is there already is refused."""
        versions = self._trie.get(entry.name)
        if versions is None:
            return self._with(self._trie.put(entry.name, (entry,)))
        known = {each.version: each for each in versions}
        if entry.version in known:
            raise _twice(entry)
        return self._with(self._trie.put(entry.name, _ordered({**known, entry.version: entry})))

    def remove(self, name: str) -> Catalog:
        """The catalog without one version of a yool: the one named, or the newest."""
        gone = self.get(name)
        if gone is None:
            raise self._not_found(name)
        left = tuple(each for each in self.versions(gone.name) if each is not gone)
        return self._with(self._trie.put(gone.name, left) if left else self._trie.drop(gone.name))

    def diff(self, newer: Catalog) -> CatalogDiff:
        """What a newer catalog added, removed and changed; parts they share are skipped unread."""
        added: list[CatalogEntry] = []
        removed: list[CatalogEntry] = []
        changed: list[tuple[CatalogEntry, CatalogEntry]] = []
        for _, was, now in self._trie.diff(newer._trie):
            before = {entry.version: entry for entry in was or ()}
            after = {entry.version: entry for entry in now or ()}
            removed += (entry for version, entry in before.items() if version not in after)
            added += (entry for version, entry in after.items() if version not in before)
            changed += (
                (entry, after[version])
                for version, entry in before.items()
                if version in after and after[version] != entry
            )
        return CatalogDiff(
            added=tuple(sorted(added, key=_order)),
            removed=tuple(sorted(removed, key=_order)),
            changed=tuple(sorted(changed, key=lambda pair: _order(pair[1]))),
        )

    def sharing(self, older: Catalog) -> Sharing:
        """How many of this catalog's nodes are the older one's own."""
        return self._trie.sharing(older._trie)

    @property
    def root(self) -> str:
        """The digest of everything in it; equal for equal content."""
        return self._trie.root

    @property
    def popcount(self) -> int:
        """How many of the thirty-two slots at the top are in use."""
        return self._trie.popcount

    def __iter__(self) -> Iterator[CatalogEntry]:
        """Every version of every yool, by name and version."""
        for name in self.names():
            yield from self._trie.get(name) or ()

    def __len__(self) -> int:
        """How many names there are, whatever their versions."""
        return len(self._trie)

    def names(self) -> list[str]:
        """Every name without its versions, in order."""
        if self._names is None:
            self._names = sorted(name for name, _ in self._trie.items())
        return self._names

    def _with(self, trie: Trie[Versions]) -> Catalog:
        made = Catalog.__new__(Catalog)
        made._begin(trie)
        return made

    def _not_found(self, name: str) -> YoolNotFound:
        base, version = parse_name(name)
        known = self._trie.get(base)
        if known is not None:
            there = [entry.full_name for entry in reversed(known[-5:])]
            return YoolNotFound(
                f"'{base}' has no version {version}.",
                field="name",
                used=name,
                nearest=there,
                hint=f"There is {', '.join(there)}.",
            )
        near = nearest_names(base, self.names())
        return YoolNotFound(
            f"There is no yool '{name}' in the catalog.",
            field="name",
            used=name,
            nearest=near,
            hint=f"Did you mean {' or '.join(near)}?"
            if near
            else "Declare it in AGENTS.md, then: engrambus catalog build.",
        )


def _ordered(versions: dict[int, CatalogEntry]) -> Versions:
    return tuple(versions[number] for number in sorted(versions))


def _order(entry: CatalogEntry) -> tuple[str, int]:
    return entry.name, entry.version


def _content(versions: Versions) -> bytes:
    return canonical([entry.printed() for entry in versions])


def _twice(entry: CatalogEntry) -> YoolTwice:
    return YoolTwice(
        f"'{entry.full_name}' is declared twice.",
        field="yool_id",
        used=entry.full_name,
        hint="A name without a version is its v1.",
    )
