"""Holding the index against what the journal says."""

from __future__ import annotations

from typing import Any

import apsw

from engrambus.backends.sqlite.projection import NEWEST_FIRST, decode_engram, tokens_of
from engrambus.gateway.ports import Finding

# What an index says, however it came to say it: rows in an order of their own, without those whose time has passed
# (when they are swept out is not the journal's business) and without where new postings wait.
COMPARED = {
    "runs": "SELECT * FROM runs ORDER BY number",
    "agents": "SELECT run, name, role, parent FROM agents ORDER BY position",
    "policies": "SELECT policy FROM policies ORDER BY position",
    "engrams": "SELECT * FROM engrams WHERE expires_at > :at ORDER BY ordinal",
    "puts": "SELECT * FROM puts ORDER BY author, minute",
    "mail": "SELECT * FROM mail ORDER BY position",
    "requests": "SELECT * FROM requests ORDER BY request_id",
    "grants": "SELECT * FROM grants ORDER BY grant_id",
    "blocks": "SELECT * FROM blocks ORDER BY block_id",
    "given_budgets": "SELECT * FROM given_budgets ORDER BY run, agent",
    "rejections": "SELECT * FROM rejections ORDER BY run, agent",
    "briefs": "SELECT * FROM briefs ORDER BY run, role, version",
    "tallies": "SELECT * FROM tallies ORDER BY run, agent",
    "kinds_put": "SELECT * FROM kinds_put ORDER BY run, agent, kind",
    "history": "SELECT * FROM history ORDER BY bucket, start, run, role",
    "pins": "SELECT ordinal FROM pins JOIN engrams USING (ordinal) WHERE expires_at > :at ORDER BY position",
    "votes": "SELECT ordinal, root FROM votes JOIN engrams USING (ordinal) WHERE expires_at > :at ORDER BY 1, 2",
    "episodes": "SELECT * FROM episodes ORDER BY ordinal",
    "contributions": "SELECT * FROM contributions ORDER BY id",
    "turns": "SELECT * FROM turns ORDER BY run, agent",
    "read_digests": "SELECT * FROM read_digests ORDER BY run, digest",
    "remembered": "SELECT * FROM remembered ORDER BY caller, key",
    "applied": "SELECT layout, project, position, seq, checksum, at, ordinal, runs, identity FROM applied",
}


def store_differences(kept: apsw.Connection, built: apsw.Connection) -> list[Finding]:
    """Everything wrong with an index, held against one that was built from the journal."""
    ((at,),) = built.execute("SELECT at FROM applied").fetchall()
    findings = [
        Finding(what="differs from a rebuild", where=f"index table {table}")
        for table, query in COMPARED.items()
        if not same_rows(kept, built, query, {"at": at})
    ]
    return [*findings, *_live_findings(kept), *_postings_findings(kept)]


def same_rows(one: apsw.Connection, other: apsw.Connection, query: str, values: dict[str, Any]) -> bool:
    """Whether two indexes answer a question alike."""
    bindings = values if ":at" in query else {}
    left, right = one.execute(query, bindings), other.execute(query, bindings)
    while True:
        a, b = left.fetchone(), right.fetchone()
        if a != b:
            return False
        if a is None:
            return True


def _live_findings(index: apsw.Connection) -> list[Finding]:
    """How many engrams there are must be how many rows there are, swept out or not."""
    counted = index.execute("SELECT space, kind, engrams FROM live WHERE engrams != 0").fetchall()
    there = index.execute("SELECT space, kind, count(*) FROM engrams GROUP BY space, kind").fetchall()
    if sorted(counted) == sorted(there):
        return []
    return [Finding(what="engrams are miscounted", where="index table live")]


def _postings_findings(index: apsw.Connection) -> list[Finding]:
    """Every engram must be found under each of its keys, in the postings or waiting to be, and nothing else."""
    held: dict[Any, Any] = {row[0]: row[1] for row in index.execute("SELECT ordinal, tokens FROM pending")}
    rows: Any = index.execute("SELECT ordinal, space, more_keys, body FROM engrams ORDER BY ordinal")
    for ordinal, space, more_keys, body in rows:
        tokens = tokens_of(space, decode_engram(body), more_keys.split()).split(" ")
        if ordinal in held:
            found = held[ordinal].split(" ") == tokens
        else:
            question = " AND ".join(f'"{token}"' for token in tokens)
            row = index.execute(
                "SELECT 1 FROM postings WHERE postings MATCH ? AND rowid = ?", (question, NEWEST_FIRST - ordinal)
            ).fetchone()
            found = row is not None
        if not found:
            return [Finding(what="an engram is not posted under all its keys", where=f"ordinal {ordinal}")]
    astray: Any = index.execute(
        "SELECT id FROM postings_docsize WHERE id NOT IN (SELECT ?1 - ordinal FROM engrams)"
        " OR id IN (SELECT ?1 - ordinal FROM pending) LIMIT 1",
        (NEWEST_FIRST,),
    ).fetchone()
    return [Finding(what="a posting leads to no engram", where=f"row {astray[0]}")] if astray else []
