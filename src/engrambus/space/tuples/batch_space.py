"""Batches as programs use them: spawn, cancel, fold and look at them. Every change is one commit of the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engrambus.errors import BatchNotFound
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples import batch_ends, batch_folding, batches
from engrambus.space.tuples.batch_folding import LevelStatus
from engrambus.space.tuples.batches import SpawnResult
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.space import TupleSpace
from engrambus.space.tuples.values import BatchRecord


class BatchSpace:
    """The batches of a tuple space."""

    def __init__(self, space: TupleSpace) -> None:
        self._space = space

    def spawn(
        self,
        template: Mapping[str, Any],
        *,
        depth: int,
        branching: int,
        authority: Mapping[str, Any],
        run: str,
        threshold: int | None = None,
        idempotency: tuple[str, str] | None = None,
        every_run: bool = False,
    ) -> SpawnResult:
        """Spawn a batch; return once it is synced to disk.

        Args:
            template: The tuple of each leaf, without an id; its budget is the budget of the whole batch
            depth: Levels below the root
            branching: Children of each node above the leaves
            authority: Authority stamped on the agents
            run: Id of the run they belong to
            threshold: Leaves from which the batch is put folded; None for the project's setting
            idempotency: Idempotency key and request digest
            every_run: Whether the caller may use tuples of other runs as parents
        """
        self._space.check_disk_space()
        settings = self._space.settings

        def decide(view: WorkView) -> tuple[Sequence[Any], SpawnResult]:
            return batches.spawn(
                view,
                batches.read_template(template, authority, view.as_of),
                depth=depth,
                branching=branching,
                threshold=settings.compression_threshold if threshold is None else threshold,
                run=run,
                settings=settings,
                admit=self._space.admit,
                idempotency=idempotency,
                every_run=every_run,
            )

        return self._space.around(
            "batch_spawn",
            lambda: self._space.store.commit(decide),
            drafts=(template,),
            authority=authority,
            run=run,
        )

    def get(self, batch_id: str) -> BatchRecord:
        """Return the batch with that id, or refuse."""
        with self._space.store.read() as view:
            return find_batch(view, batch_id)

    def levels(self, batch_id: str) -> list[LevelStatus]:
        """Return the counts of every level of a batch."""
        with self._space.store.read() as view:
            return batch_folding.level_statuses(view, find_batch(view, batch_id))

    def cancel(self, batch_id: str, path: str = "0") -> Receipt:
        """Cancel an agent of a batch and everything below it, folded or not."""

        def decide(view: WorkView) -> tuple[Sequence[Any], Receipt]:
            batch = find_batch(view, batch_id)
            return batch_ends.cancel_agent(view, batch, *batch.shape.read_path(path))

        return self._space.around("cancel", lambda: self._space.commit_ending(decide), batch=batch_id)

    def compress(self, batch_id: str, path: str = "0") -> int:
        """Fold everything below a node that nothing has happened to; refuse if an agent below it is running.

        Return how many agents were folded.
        """

        def decide(view: WorkView) -> tuple[Sequence[Any], int]:
            batch = find_batch(view, batch_id)
            return batch_folding.fold(view, batch, *batch.shape.read_path(path), refuse_running=True)

        return self._space.around("compress", lambda: self._space.store.commit(decide), batch=batch_id)

    def prune(self, batch_id: str) -> int:
        """Fold every agent of a batch that nothing has happened to; return how many that are."""

        def decide(view: WorkView) -> tuple[Sequence[Any], int]:
            return batch_folding.fold(view, find_batch(view, batch_id), 0, 0, refuse_running=False)

        return self._space.around("prune", lambda: self._space.store.commit(decide), batch=batch_id)


def find_batch(view: WorkView, batch_id: str) -> BatchRecord:
    """Return the batch with that id, or refuse."""
    batch = view.batch(batch_id)
    if batch is None:
        raise BatchNotFound(field="id", used=batch_id[:80])
    return batch
