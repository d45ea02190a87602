"""Which facts of a damaged journal still hold after lines before them were lost, and what must follow from the loss.

Every line is applied to a trial index, so the recovered journal holds only facts that an index can be built from. What
refers to something that was never made is left out and reported; the original is kept next to it (decision 97).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import apsw
import msgspec

from engrambus.backends.sqlite.connections import transaction
from engrambus.backends.sqlite.earlier_index import EarlierIndex, open_earlier_index
from engrambus.backends.sqlite.journal_index import REPLAY_BATCH_FACTS, IndexSchema
from engrambus.backends.sqlite.knowledge_index import KnowledgeIndex
from engrambus.backends.sqlite.lock import WriteLock
from engrambus.backends.sqlite.store import journals_in
from engrambus.backends.sqlite.work.index import WorkIndex
from engrambus.core import files
from engrambus.core.database import open_database
from engrambus.core.journal import (
    Damage,
    Journal,
    JournalKey,
    JournalPosition,
    Line,
    derived_folder,
    encode_facts,
    find_damage,
    set_damage_aside,
)
from engrambus.core.journal.salvage import Gap
from engrambus.evidence.receipts import RECEIPTS, Receipt, receipt_id
from engrambus.policy import ADMIN, RunOpened, TokenWithdrawn
from engrambus.policy.grants import BlockRevoked, GrantIssued
from engrambus.space.tuples import IdempotencyKeyUsed, TupleDone, TuplePut, TupleTaken

MAX_REPORTED = 100
"""Most ids that are reported of those that later lines mention and nobody made."""
RECOVERED_GOAL = "Its beginning was lost with damaged lines of the journal."
_INAPPLICABLE = (LookupError, TypeError, AttributeError, ValueError, apsw.ConstraintError)
"""What applying a fact raises if something it refers to is not there, or is there already."""
_STATES = {0: "done", 130: "cancelled"}
"""The state of a tuple by the exit status of its final receipt; any other is `dead`."""


class Consequences(Protocol):
    """What is particular to one kind of journal."""

    def mended(self, facts: Sequence[Any]) -> list[Any]:
        """Return facts of a line behind a gap so that they can be applied, as far as that is known beforehand."""
        ...

    def note(self, facts: Iterable[Any]) -> None:
        """Take note of facts that were applied."""
        ...

    def at_gap(self, at_us: int) -> list[Any]:
        """Return what follows from lost lines, in their place."""
        ...

    def at_end(self, trial: apsw.Connection) -> Iterator[Any]:
        """Yield what follows from lost lines once everything else is in the trial index."""
        ...


class KnowledgeConsequences:
    """Grants and tokens that were alive at a gap are revoked: a revocation may have been lost in it."""

    def __init__(self, earlier: EarlierIndex | None) -> None:
        self._earlier = earlier
        self._runs: set[str] = set()
        self._grants: dict[str, GrantIssued] = {}

    def mended(self, facts: Sequence[Any]) -> list[Any]:
        """Open the runs whose beginning was lost, so that what was put in them stays."""
        opened: list[Any] = []
        made_ids = {*self._runs, *(fact.run for fact in facts if isinstance(fact, RunOpened))}
        for fact in facts:
            run = getattr(fact, "run", "")
            if run and run not in made_ids:
                made_ids.add(run)
                # A run of a session does not become the current one.
                opened.append(RunOpened(run=run, goal=RECOVERED_GOAL, by=ADMIN, session="recover"))
        return [*opened, *facts]

    def note(self, facts: Iterable[Any]) -> None:
        """Remember runs, and grants that were not revoked."""
        for fact in facts:
            if isinstance(fact, RunOpened):
                self._runs.add(fact.run)
            elif isinstance(fact, GrantIssued):
                self._grants[fact.block_id] = fact
            elif isinstance(fact, BlockRevoked):
                self._grants.pop(fact.block_id, None)

    def at_gap(self, at_us: int) -> list[Any]:
        """Revoke every token and grant that is alive."""
        alive = [grant for grant in self._grants.values() if grant.expires_us > at_us]
        self._grants.clear()
        return [
            TokenWithdrawn(run="", agent="", by=ADMIN),
            *(BlockRevoked(block_id=grant.block_id, run=grant.run, by=ADMIN) for grant in alive),
        ]

    def at_end(self, trial: apsw.Connection) -> Iterator[Any]:
        """Forget again what was forgotten in a lost line, as far as the index of before knows."""
        if self._earlier is not None:
            yield from self._earlier.forgotten(trial)


class WorkConsequences:
    """Tuples that have a final receipt, in the folder of receipts or in the index of before, do not run again."""

    def __init__(self, receipts: Path, earlier: EarlierIndex | None) -> None:
        self._receipts = receipts
        self._earlier = earlier
        self._runs: dict[str, str] = {}
        """The run of each tuple."""
        self._ended: set[str] = set()

    def mended(self, facts: Sequence[Any]) -> list[Any]:
        """Forget what a tuple replaces if that is lost; leave out keys of lost tuples."""
        made_ids = {*self._runs, *(fact.id for fact in facts if isinstance(fact, TuplePut))}
        mended: list[Any] = []
        for fact in facts:
            if isinstance(fact, TuplePut) and fact.replaces is not None and fact.replaces not in made_ids:
                mended.append(msgspec.structs.replace(fact, replaces=None))
            elif not isinstance(fact, IdempotencyKeyUsed) or fact.id in made_ids:
                mended.append(fact)
        return mended

    def note(self, facts: Iterable[Any]) -> None:
        """Remember tuples, and which of them have ended."""
        for fact in facts:
            if isinstance(fact, TuplePut):
                self._runs[fact.id] = fact.run
            elif isinstance(fact, TupleDone | TupleTaken):
                self._ended.add(fact.id)

    def at_gap(self, at_us: int) -> list[Any]:
        """Return nothing: what was lost is known only at the end."""
        return []

    def at_end(self, trial: apsw.Connection) -> Iterator[Any]:
        """End every tuple that has a final receipt; record again which bodies were deleted."""
        receipts = _final_receipts(self._receipts)
        if self._earlier is not None:
            receipts = chain(receipts, filter(_is_final, self._earlier.receipts()))
        for receipt in receipts:
            run = self._runs.get(receipt.tuple_id)
            if run is not None and receipt.tuple_id not in self._ended:
                self._ended.add(receipt.tuple_id)
                state = _STATES.get(receipt.exit, "dead")
                yield TupleDone(id=receipt.tuple_id, run=run, state=state, receipt=receipt)
        if self._earlier is not None:
            yield from self._earlier.purged(trial)


class TrialIndex:
    """Applies the lines of a damaged journal to an index that is thrown away; decides what of each line stays."""

    def __init__(
        self,
        connection: apsw.Connection,
        schema: IndexSchema[Any, Any, Any],
        project: str,
        start: JournalPosition,
        consequences: Consequences,
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._project = project
        self._consequences = consequences
        self._state = schema.create(connection, project, start)
        self._state.is_from_start = True
        schema.save_state(connection, self._state)
        self.unmade: dict[str, None] = {}
        """Ids that facts mention and nobody made."""
        self.left_out = 0
        """Number of facts that could not be applied."""

    def load(self, lines: Iterable[Line]) -> None:
        """Apply the lines before the damage."""
        remaining = iter(lines)
        is_more = True
        while is_more:
            with transaction(self._connection):
                is_more = self._load_some(remaining)

    def _load_some(self, lines: Iterator[Line]) -> bool:
        """Apply lines until they have so many facts that a transaction should end; return False at the end."""
        projection, count = self._schema.projection(self._connection, self._state), 0
        for line in lines:
            facts = self._schema.decode_facts(line.facts)
            for fact in facts:
                projection.apply(fact, line.at_us)
            self._consequences.note(facts)
            count += len(facts)
            if count >= REPLAY_BATCH_FACTS:  # decision 94: a line of a bulk import holds thousands
                break
        projection.finish()
        self._schema.save_state(self._connection, self._state)
        return count >= REPLAY_BATCH_FACTS

    def admit(self, line: Line) -> bytes:
        """Return the facts of a line behind the damage that can be applied."""
        facts = self._schema.decode_facts(line.facts)
        mended = self._consequences.mended(facts)
        if self._try(mended, line.at_us):
            applied = mended
        else:
            applied = [fact for fact in mended if self._try([fact], line.at_us) or self._report(fact)]
        self._consequences.note(applied)
        return line.facts if applied == list(facts) else encode_facts(applied)

    def gap(self, gap: Gap, at_us: int) -> list[bytes]:
        """Return the facts of the lines that stand for lost ones: the first says so, the others are empty."""
        facts = [gap.fact(), *self._consequences.at_gap(at_us)]
        self._apply(facts, at_us)
        return [encode_facts(facts), *([encode_facts([])] * (gap.lines - 1))]

    def final_lines(self, at_us: int) -> list[bytes]:
        """Return the facts of a last line that follows from the damage; nothing if nothing does."""
        facts = list(self._consequences.at_end(self._connection))
        applied = [fact for fact in facts if self._try([fact], at_us) or self._report(fact)]
        return [encode_facts(applied)] if applied else []

    def _report(self, fact: Any) -> bool:
        self.left_out += 1
        for field in ("id", "run", "request_id", "reservation_id", "contribution_id"):
            value = getattr(fact, field, None)
            if isinstance(value, str) and value and len(self.unmade) < MAX_REPORTED:
                self.unmade[value] = None
                break
        return False

    def _try(self, facts: Sequence[Any], at_us: int) -> bool:
        """Apply facts if all of them can be; return whether they were."""
        self._connection.execute("SAVEPOINT trial")
        try:
            self._apply(facts, at_us)
        except _INAPPLICABLE:
            self._connection.execute("ROLLBACK TO trial")
            self._state = self._schema.read_state(self._connection, self._project)
            self._state.is_from_start = True
            return False
        finally:
            self._connection.execute("RELEASE trial")
        return True

    def _apply(self, facts: Sequence[Any], at_us: int) -> None:
        projection = self._schema.projection(self._connection, self._state)
        for fact in facts:
            projection.apply(fact, at_us)
        projection.finish()
        self._schema.save_state(self._connection, self._state)


def _is_final(receipt: Receipt) -> bool:
    return receipt.yool == "tuple.run" and receipt_id(receipt) == receipt.id


def _final_receipts(folder: Path) -> Iterator[Receipt]:
    """Yield the receipts of complete tuples in a folder of receipts, each checked against its name."""
    decoder = msgspec.json.Decoder(Receipt)
    with suppress(FileNotFoundError, NotADirectoryError):
        for head in sorted(files.folder_names(folder)):
            with suppress(FileNotFoundError, NotADirectoryError):
                for name in sorted(files.folder_names(folder / head)):
                    with suppress(msgspec.MsgspecError, UnicodeDecodeError, OSError):
                        receipt = decoder.decode(files.read_file(folder / head / name))
                        digits = head + name.removesuffix(".json")
                        if _is_final(receipt) and receipt.id == f"sha256:{digits}":
                            yield receipt


def recover_journals(folder: Path, key: JournalKey, now_us: int) -> list[Damage]:
    """Rewrite each damaged journal of a folder of private state; return what was damaged."""
    damages: list[Damage] = []
    derived = derived_folder(folder, key)
    for file in journals_in(folder):
        with closing(Journal(file.path, key, file.kind)) as journal, closing(WriteLock(file.lock)) as lock:
            damage = lock.run(partial(_recover, journal, folder, derived / file.index_name, now_us))
        damages += [damage] if damage is not None else []
    return damages


def _recover(journal: Journal, folder: Path, index: Path, now_us: int) -> Damage | None:
    if find_damage(journal) is None:
        return None
    is_work = journal.header.kind == WorkIndex.kind
    schema: IndexSchema[Any, Any, Any] = WorkIndex(()) if is_work else KnowledgeIndex()
    trial = folder / f"recover.{os.getpid()}.{os.urandom(6).hex()}"
    with (
        open_earlier_index(index, schema, journal.header.project) as earlier,
        closing(open_database(trial, create=True)) as connection,
    ):
        files.remove(trial)  # open as long as it is needed; a process that dies leaves nothing behind
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA synchronous = OFF")
        consequences: Consequences = KnowledgeConsequences(earlier)
        if is_work:
            consequences = WorkConsequences(folder / RECEIPTS, earlier)
        editor = TrialIndex(connection, schema, journal.header.project, journal.start, consequences)
        return set_damage_aside(journal, now_us, editor)
