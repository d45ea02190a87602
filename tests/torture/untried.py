"""`python -m tests.torture.untried`: the facts and tables that the torture does not go through yet.

Whoever adds a fact or a table runs it, and adds an action to `workload.py` (kills, power cuts, disk errors, mixed
load) or work and a question to `flips.py` (damaged files) for what it names and is not in the lists below.
"""

from __future__ import annotations

import gzip
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

from engrambus.backends.facts import Fact
from engrambus.space.tuples import Fact as WorkFact
from tests.torture.flips import make_projects
from tests.torture.workload import WRITES, create_torture_project, run_actions

_TAG = re.compile(rb'"fact":"([a-z._-]+)"')


def written_facts(catalog: Path) -> set[str]:
    """Return the tags of all facts in the journals of a project."""
    tags: set[str] = set()
    for path in (*catalog.glob("*.jsonl"), *catalog.glob("*.jsonl.gz")):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        tags |= {tag.decode() for tag in _TAG.findall(content)}
    return tags


def declared_facts() -> set[str]:
    """Return the tags of all facts there are."""

    def tags(union: Any) -> Iterator[str]:
        for kind in get_args(union) or [union]:
            yield from tags(kind) if get_args(kind) else (kind.__struct_config__.tag,)

    return {*tags(Fact), *tags(WorkFact)}


def empty_tables(catalog: Path) -> set[str]:
    """Return the tables of a project's databases that have no row."""
    empty: set[str] = set()
    for path in catalog.glob("derived-*/*.db"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
            query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            for (name,) in database.execute(query).fetchall():
                if database.execute(f'SELECT count(*) FROM (SELECT 1 FROM "{name}" LIMIT 1)').fetchone() == (0,):
                    empty.add(f"{path.stem}.{name}")
    return empty


def main() -> None:
    """Run the writer, make the projects whose files are damaged, and print what neither has."""
    with tempfile.TemporaryDirectory(prefix="untried-") as name:
        project = create_torture_project(Path(name) / "writer")
        notes = os.open(os.devnull, os.O_WRONLY)
        run_actions(project, WRITES, notes)
        written = written_facts(project.catalog)
        flipped = make_projects(Path(name) / "flips")["closed"]
        flipped.restore()
        damaged = written_facts(flipped.catalog)
        empty = empty_tables(flipped.catalog)
    declared = declared_facts()
    for title, missing in (
        ("facts that the writer of kills, power cuts, disk errors and load does not write", declared - written),
        ("facts that are in no journal whose files are damaged", declared - damaged),
        ("tables without a row in the databases that are damaged", empty),
    ):
        print(f"{len(missing)} {title}:\n  {' '.join(sorted(missing))}")


if __name__ == "__main__":
    main()
