"""Dual-read: a program's own registry and the catalog are read together, and every difference is reported."""

from __future__ import annotations

import threading
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec

from engrambus.core import SystemClock, print_time
from engrambus.space.catalog import Catalog, CatalogEntry

V = TypeVar("V")

DifferenceKind = Literal[
    "missing in catalog",
    "missing in registry",
    "differs",
    "registry raised",
    "catalog raised",
    "comparison raised",
]
MAX_SHOWN = 120
"""Characters of a value that a report shows."""
MAX_DIFFERENCES = 10_000
"""Different differences that are listed; more are only counted."""
_ATTEMPTS = 100
"""How often the keys of a registry that changes are read again."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which registry and catalog disagree about one key, however often it was met."""

    kind: DifferenceKind
    key: str
    what: str
    """What the comparison said, or what was raised."""
    registry: str | None
    """The registry's value as `repr` shows it, shortened; None if it has none."""
    catalog: str | None
    """Full name of the catalog's entry; None if it has none."""
    count: int
    first_seen: str
    last_seen: str


class DualReadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen so far."""

    since: str
    until: str
    lookups: int
    """Keys that were looked up on both sides."""
    differences: tuple[Difference, ...]
    """By key and kind."""
    different_lookups: int
    """Look-ups that found a difference."""
    unlisted: int
    """Look-ups whose difference is not listed, because too many others are."""
    changes_while_read: int
    """Times that the registry changed in the middle of a look-up or an iteration."""
    trouble: str | None
    """The last reason why the report could not be written or delivered."""

    @property
    def summary(self) -> str:
        """The report in a line."""
        changed = f"; it changed while read {self.changes_while_read} times" if self.changes_while_read else ""
        kinds = len(self.differences)
        return (
            f"{self.different_lookups} of {self.lookups:,} look-ups differ ({kinds} different) "
            f"since {self.since}{changed}"
        )


class _Outcome(msgspec.Struct, frozen=True):
    """What one side answered: a value, nothing, or an exception."""

    value: Any = None
    is_found: bool = False
    problem: Exception | None = None


class DualRead(Mapping[str, V], Generic[V]):
    """A registry that compares each look-up with the catalog, and answers as before.

    It may be used from several threads, and the registry may change at any time: a look-up answers what the registry
    has at that moment, an iteration goes over the keys it had at its beginning.
    """

    def __init__(
        self,
        registry: Mapping[str, V],
        catalog: Catalog | Callable[[], Catalog],
        *,
        compare: Callable[[V, CatalogEntry], str | None] = lambda value, entry: None,
        name_of: Callable[[str], str] = lambda key: key,
        answer_from: Literal["registry", "catalog"] = "registry",
        value_of: Callable[[CatalogEntry], V] | None = None,
        on_difference: Callable[[Difference], None] = lambda difference: None,
        report_file: Path | str | None = None,
    ) -> None:
        """
        Args:
            registry: The program's own mapping; it is never written
            catalog: The catalog, or what returns it as it is now
            compare: Returns how a value differs from its entry; None if they agree
            name_of: The name that the catalog has for a key of the registry
            answer_from: The side that look-ups are answered from
            value_of: The value that stands for an entry; needed to answer from the catalog
            on_difference: Called once for each new difference
            report_file: JSON lines: one for each new difference, and one with the totals for each `write_report`
        """
        if answer_from == "catalog" and value_of is None:
            raise ValueError("answering from the catalog needs value_of")
        self._registry = registry
        self._catalog = catalog
        self._compare = compare
        self._name_of = name_of
        self._from_catalog = answer_from == "catalog"
        self._value_of = value_of
        self._on_difference = on_difference
        self._file = Path(report_file) if report_file is not None else None
        self._lock = threading.Lock()
        self._since = self._written_until = _now()
        self._lookups = self._different = self._unlisted = self._changes = 0
        self._written = (0, 0)
        self._differences: dict[tuple[str, str, str], Difference] = {}
        self._trouble: str | None = None

    # The mapping

    def __getitem__(self, key: str) -> V:
        mine, entry = self._look_up(key)
        if self._from_catalog:
            if entry.problem is not None:
                raise entry.problem
            if not entry.is_found or self._value_of is None:
                raise KeyError(key)
            return self._value_of(entry.value)
        if mine.problem is not None:
            raise mine.problem
        if not mine.is_found:
            raise KeyError(key)
        value: V = mine.value
        return value

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        mine, entry = self._look_up(key)
        return entry.is_found if self._from_catalog else mine.is_found

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    def __len__(self) -> int:
        return len(self._keys())

    def items(self) -> ItemsView[str, V]:
        return self._snapshot().items()

    def values(self) -> ValuesView[V]:
        return self._snapshot().values()

    def _snapshot(self) -> dict[str, V]:
        """Return the keys of this moment with their values; one that is removed during the read is left out."""
        values: dict[str, V] = {}
        for key in self._keys():
            try:
                values[key] = self[key]
            except KeyError:
                self._note_change()
        return values

    def _keys(self) -> list[str]:
        if self._from_catalog:
            catalog = self._catalog() if callable(self._catalog) else self._catalog
            return list(dict.fromkeys(entry.name for entry in catalog))
        seen: dict[str, None] = {}
        for _ in range(_ATTEMPTS):
            keys: list[str] = []
            try:
                for key in self._registry:
                    keys.append(key)
                return keys
            except RuntimeError:  # "dictionary changed size during iteration"
                self._note_change()
                seen.update(dict.fromkeys(keys))
        return list(seen)  # it never stands still: what was seen of it

    # The comparison

    def _look_up(self, key: str) -> tuple[_Outcome, _Outcome]:
        mine, entry = self._read_registry(key), self._read_catalog(key)
        difference = self._difference(mine, entry)
        if difference is not None:
            reread = self._read_registry(key)
            if (reread.is_found, reread.value is mine.value) != (mine.is_found, True):
                self._note_change()  # it was replaced, added or removed just now: the new state counts
                mine, difference = reread, self._difference(reread, entry)
        self._count(key, difference, mine, entry)
        return mine, entry

    def _read_registry(self, key: str) -> _Outcome:
        try:
            return _Outcome(self._registry[key], True)
        except KeyError:
            return _Outcome()
        except Exception as problem:
            return _Outcome(problem=problem)

    def _read_catalog(self, key: str) -> _Outcome:
        try:
            catalog = self._catalog() if callable(self._catalog) else self._catalog
            entry = catalog.get(self._name_of(key))
        except Exception as problem:
            return _Outcome(problem=problem)
        return _Outcome(entry, entry is not None)

    def _difference(self, mine: _Outcome, entry: _Outcome) -> tuple[DifferenceKind, str] | None:
        if mine.problem is not None:
            return "registry raised", _describe(mine.problem)
        if entry.problem is not None:
            return "catalog raised", _describe(entry.problem)
        if mine.is_found != entry.is_found:
            return ("missing in catalog", "") if mine.is_found else ("missing in registry", "")
        if not mine.is_found:
            return None
        try:
            differs = self._compare(mine.value, entry.value)
        except Exception as problem:
            return "comparison raised", _describe(problem)
        return None if differs is None else ("differs", str(differs)[:MAX_SHOWN])

    def _count(self, key: str, found: tuple[DifferenceKind, str] | None, mine: _Outcome, entry: _Outcome) -> None:
        now = _now()
        with self._lock:
            self._lookups += 1
            if found is None:
                return
            self._different += 1
            kind, detail = found
            index = (key, kind, detail)
            earlier = self._differences.get(index)
            if earlier is not None:
                self._differences[index] = msgspec.structs.replace(earlier, count=earlier.count + 1, last_seen=now)
                return
            if len(self._differences) >= MAX_DIFFERENCES:
                self._unlisted += 1
                return
            difference = Difference(
                kind=kind,
                key=key,
                what=detail,
                registry=_shown(mine.value) if mine.is_found else None,
                catalog=entry.value.full_name if entry.is_found else None,
                count=1,
                first_seen=now,
                last_seen=now,
            )
            self._differences[index] = difference
        self._deliver(difference)

    def _note_change(self) -> None:
        with self._lock:
            self._changes += 1

    # The report

    def _deliver(self, difference: Difference) -> None:
        try:
            self._on_difference(difference)
        except Exception as problem:  # the program's own look-up must not fail because of its report
            self._trouble = _describe(problem)
        self._append({"difference": msgspec.to_builtins(difference)})

    def _append(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            with self._lock:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("ab") as file:
                    file.write(msgspec.json.encode(line) + b"\n")
        except (OSError, UnicodeError) as problem:
            self._trouble = _describe(problem)

    def report(self) -> DualReadReport:
        """Return what was seen so far."""
        with self._lock:
            return DualReadReport(
                since=self._since,
                until=_now(),
                lookups=self._lookups,
                differences=tuple(difference for _, difference in sorted(self._differences.items())),
                different_lookups=self._different,
                unlisted=self._unlisted,
                changes_while_read=self._changes,
                trouble=self._trouble,
            )

    def write_report(self) -> DualReadReport:
        """Append the totals since the last time to the report file; return the whole report."""
        report = self.report()
        lookups, different = self._written
        self._written = report.lookups, report.different_lookups
        totals = {"lookups": report.lookups - lookups, "different": report.different_lookups - different}
        self._append({"totals": {"since": self._written_until, "until": report.until, **totals}})
        self._written_until = report.until
        return report


def _now() -> str:
    return print_time(SystemClock().now())


def _describe(problem: BaseException) -> str:
    try:
        return f"{type(problem).__name__}: {problem}"[:MAX_SHOWN]
    except Exception:  # its own text raises
        return type(problem).__name__


def _shown(value: object) -> str:
    try:
        return repr(value)[:MAX_SHOWN]
    except Exception:
        return f"<{type(value).__name__}>"
