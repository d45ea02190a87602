"""The catalog compared with a dict, `immutables.Map` and pyrsistent: lookups, additions, diffs and memory."""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from typing import Any

import immutables
import pyrsistent

from bench.measure import Row, at_least, microseconds, per_second
from engrambus.space.catalog import Catalog, CatalogEntry
from engrambus.space.catalog.trie import Trie

SIZES = (1_000, 100_000, 1_000_000)
LOOKUPS = 100_000
ADDITIONS = 2_000
CHANGES = 10
ROUNDS = 5
WEIGHED = 100_000
MAX_ADD_US = 20.0

_STACKS = ("python", "go", "rust", "dotnet", "typescript", "java", "kotlin", "ruby")
_ACTIONS = ("dev", "lint", "test", "deploy", "review", "scan", "build", "release")


def make_names(count: int) -> list[str]:
    """Return that many names, built like real ones."""
    return [f"agent.{_ACTIONS[number % 8]}.{_STACKS[number // 8 % 8]}.team{number // 64}" for number in range(count)]


def make_entry(name: str) -> CatalogEntry:
    """Return an entry with that name."""
    return CatalogEntry(name=name, version=1, authority=("user", "ci"), lane="build")


def catalog_rows(largest: int = SIZES[-1]) -> list[Row]:
    """Return the rows of every size up to `largest`; only a million names have required values."""
    rows: list[Row] = []
    for size in SIZES:
        if size <= largest:
            rows += _size_rows(size)
    return [*rows, *_weight_rows(min(WEIGHED, largest))]


def _size_rows(size: int) -> list[Row]:
    names = make_names(size)
    random.Random(7).shuffle(names)
    lookups = list(islice(cycle(names), LOOKUPS))
    entries = {name: make_entry(name) for name in names}
    catalog = Catalog(entries.values())
    plain: dict[str, Any] = dict(entries)
    mapped: Any = immutables.Map(entries)
    pmap: Any = pyrsistent.pmap(entries)
    gc.collect()
    gc.freeze()  # or collections would scan these values, and count for the measurement that allocates
    try:
        _look_up(catalog.lookup, names)  # from now on every name is in the catalog's dict of resolved names
        functions = {
            "dict": plain.__getitem__,
            "immutables.Map": mapped.__getitem__,
            "pyrsistent": pmap.__getitem__,
            "resolved": catalog.lookup,
            "walk": catalog._trie.get,
        }
        looked_up = _best({name: partial(_look_up, function, lookups) for name, function in functions.items()}, LOOKUPS)
        fresh = [f"op.jira.new{number}" for number in range(ADDITIONS)]
        added = _best(
            {
                "catalog": partial(_add_catalog, catalog, [make_entry(name) for name in fresh]),
                "trie": partial(_add_trie, catalog._trie, fresh),
                "immutables.Map": partial(_add_map, mapped, fresh),
                "pyrsistent": partial(_add_map, pmap, fresh),
            },
            ADDITIONS,
        )
        shared, nodes = catalog.add(make_entry("op.jira.one_more")).sharing(catalog)
        differ = _best(
            {
                "catalog": partial(catalog.diff, _changed(catalog, fresh)),
                "dict": partial(_compare, plain, {**plain, **dict.fromkeys(fresh[:CHANGES])}),
            },
            1,
        )
    finally:
        gc.unfreeze()
    return [
        *_lookup_rows(size, looked_up),
        *_add_rows(size, added),
        _diff_row(size, differ),
        _sharing_row(size, shared, nodes),
    ]


def _lookup_rows(size: int, rates: dict[str, float]) -> list[Row]:
    million = size == SIZES[-1]
    peer = rates["immutables.Map"]
    more_peers = f"dict {per_second(rates['dict'])}, pyrsistent {per_second(rates['pyrsistent'])}"
    rows = []
    for subject, name, bar in (("resolved names", "resolved", 0.5), ("the walk itself", "walk", 0.05)):
        ratio, required, met = at_least(rates[name] / peer, bar)
        rows.append(
            Row(
                "catalog",
                f"{subject}, {size:,} names ({more_peers})",
                per_second(rates[name]),
                f"immutables.Map {per_second(peer)}",
                ratio,
                required if million else "–",
                met if million else None,
            )
        )
    return rows


def _add_rows(size: int, added: dict[str, float]) -> list[Row]:
    million = size == SIZES[-1]
    micros = 1e6 / added["catalog"]
    return [
        Row(
            "catalog",
            f"add one name to {size:,} (the trie alone {1e6 / added['trie']:.1f} µs)",
            f"{micros:.1f} µs",
            f"immutables.Map {1e6 / added['immutables.Map']:.1f} µs, pyrsistent {1e6 / added['pyrsistent']:.1f} µs",
            f"{added['catalog'] / added['immutables.Map']:.2f} ×",
            f"≤ {MAX_ADD_US:g} µs" if million else "–",
            micros <= MAX_ADD_US if million else None,
        )
    ]


def _diff_row(size: int, differ: dict[str, float]) -> Row:
    return Row(
        "catalog",
        f"diff after {CHANGES} changes, {size:,} names",
        microseconds(1e6 / differ["catalog"]),
        f"two dicts compared {microseconds(1e6 / differ['dict'])}",
        f"{differ['catalog'] / differ['dict']:.1f} ×",
        "–",
        None,
    )


def _changed(catalog: Catalog, names: list[str]) -> Catalog:
    for name in names[:CHANGES]:
        catalog = catalog.add(make_entry(name))
    return catalog


def _compare(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [name for name, value in new.items() if old.get(name) is not value]


def _sharing_row(size: int, shared: int, nodes: int) -> Row:
    return Row(
        "catalog",
        f"nodes shared with the version before, {size:,} names",
        f"{shared:,}",
        f"of {nodes:,}",
        f"{100 * shared / nodes:.3f} %",
        "–",
        None,
    )


def _weight_rows(size: int) -> list[Row]:
    """Measure the memory of each structure per name, without keys and values."""
    entries = {name: make_entry(name) for name in make_names(size)}
    weights = {
        "ours": _weight(lambda: Trie(entries, content=lambda value: b"")) / size,
        "dict": _weight(lambda: dict(entries)) / size,
        "immutables.Map": _weight(lambda: immutables.Map(entries)) / size,
        "pyrsistent": _weight(lambda: pyrsistent.pmap(entries)) / size,
    }
    return [
        Row(
            "catalog",
            f"memory a name beside key and value, {size:,} names (dict {weights['dict']:.0f} B)",
            f"{weights['ours']:.0f} B",
            f"immutables.Map {weights['immutables.Map']:.0f} B, pyrsistent {weights['pyrsistent']:.0f} B",
            f"{weights['ours'] / weights['immutables.Map']:.2f} ×",
            "–",
            None,
        )
    ]


def _weight(make: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        structure = make()
        gc.collect()
        weight, _ = tracemalloc.get_traced_memory()
        del structure
    finally:
        tracemalloc.stop()
    return weight


def _best(functions: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """Return the rate per second of each function in its best of several rounds, which alternate between them."""
    least = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for name, work in functions.items():
            start = time.perf_counter()
            work()
            least[name] = min(least[name], time.perf_counter() - start)
    return {name: count / seconds for name, seconds in least.items()}


def _look_up(function: Callable[[str], object], names: list[str]) -> None:
    for name in names:
        function(name)


def _add_catalog(catalog: Catalog, entries: list[CatalogEntry]) -> None:
    for entry in entries:
        catalog = catalog.add(entry)


def _add_trie(trie: Trie[Any], names: list[str]) -> None:
    for name in names:
        trie = trie.put(name, ())


def _add_map(mapping: Any, names: list[str]) -> None:
    for name in names:
        mapping = mapping.set(name, ())
