"""The tuple space as programs use it: put, read, take, claim, settle. Every change is one commit of the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from engrambus.core import SECOND
from engrambus.core.boot import boot_id
from engrambus.errors import (
    DiskPressure,
    EngramBusError,
    LaneFull,
    ReceiptNotFound,
    TupleNotFound,
    YoolForbidden,
    YoolNotFound,
)
from engrambus.evidence.receipts import Receipt, ReceiptFolder
from engrambus.space.catalog import CatalogEntry
from engrambus.space.tuples import coming, holding
from engrambus.space.tuples.facts import BodyDamaged, TupleDone, TupleOut
from engrambus.space.tuples.keep import shown
from engrambus.space.tuples.patterns import Pattern, read_pattern
from engrambus.space.tuples.ports import WorkStore, WorkView
from engrambus.space.tuples.rules import Checked, read_tuple
from engrambus.space.tuples.settings import SpaceSettings
from engrambus.space.tuples.values import Claim, Fence, Kept, Price

T = TypeVar("T")

LOOK_AGAIN = 1.0
"""Seconds after which a wait looks again unasked, in case a writer died between its commit and the bell."""

Lookup = Callable[[str], CatalogEntry]
"""Finds a yool's entry by its name, or refuses."""


class TupleSpace:
    """One project's work. Safe to share between threads, and between processes that open the same project."""

    def __init__(
        self,
        store: WorkStore,
        *,
        settings: SpaceSettings | None = None,
        lookup: Lookup | None = None,
        boot: str | None = None,
        breaker: Callable[[], None] | None = None,
    ) -> None:
        """`breaker` raises while there is no room for more work."""
        self.store = store
        self.settings = settings or SpaceSettings()
        self._lookup = lookup
        self._boot = boot_id() if boot is None else boot
        self._breaker = breaker

    # Linda

    def out(
        self,
        *drafts: Mapping[str, Any],
        authority: Mapping[str, Any],
        run: str,
        block: float | None = None,
        accept: bool = False,
        asked: tuple[str, str] | None = None,
        trusted: bool = False,
        every_run: bool = False,
    ) -> list[coming.Put]:
        """Put tuples; returns once they are on the disk. All of them or none.

        A full lane refuses them, or, with `block`, is waited for that many seconds. `asked` is an idempotency key and
        the digest of the request. `trusted` is the product's own: it needs no entry in the catalog, and no room. Only
        who sees `every_run` puts parts of another run's tuples.
        """
        if not trusted:
            self.check_room(run)

        def put(view: WorkView) -> tuple[Sequence[Any], list[coming.Put]]:
            checked = [read_tuple(draft, authority, view.as_of) for draft in drafts]
            return coming.put(
                view,
                checked,
                run=run,
                settings=self.settings,
                admit=(lambda draft: None) if trusted else self._admit,
                accept=accept,
                asked=asked,
                every_run=every_run,
            )

        if block is None:
            return self.store.commit(put)
        ends = time.monotonic() + block
        with self.store.bell("room") as bell:
            while True:
                try:
                    return self.store.commit(put)
                except LaneFull:
                    left = ends - time.monotonic()
                    if left <= 0:
                        raise
                bell.wait(min(left, LOOK_AGAIN))

    def rd(self, pattern: Mapping[str, Any] | Pattern, timeout: float = 0.0) -> Kept | None:
        """The oldest tuple that matches, whatever has become of it; waited for so long."""
        wanted = _read(pattern)

        def look() -> Kept | None:
            with self.store.read() as view:
                return next(iter(view.matching(wanted, limit=1)), None)

        return self._wait(look, wanted, "any", timeout)

    def rd_all(self, pattern: Mapping[str, Any] | Pattern, *, limit: int = 100, after: int = 0) -> list[Kept]:
        """The tuples that match, oldest first, behind an ordinal."""
        with self.store.read() as view:
            return view.matching(_read(pattern), limit=limit, after=after)

    def in_(self, pattern: Mapping[str, Any] | Pattern, *, by: str, timeout: float = 0.0) -> Kept | None:
        """Take one waiting tuple out for good: nobody else gets it. Waited for so long."""
        wanted = _read(pattern)

        def take() -> Kept | None:
            if not self._may_match(wanted):
                return None
            return self.store.commit(lambda view: coming.take(view, wanted, by=by))

        return self._wait(take, wanted, "work", timeout)

    # Workers

    def claim(
        self,
        pattern: Mapping[str, Any] | Pattern,
        *,
        worker: str,
        limit: int = 1,
        timeout: float = 0.0,
        before: Callable[[], None] = lambda: None,
        ended: Callable[[Receipt], None] = lambda last: None,
    ) -> list[Claim]:
        """Hold up to so many tuples for a while; each is somebody's once. Waited for so long.

        `before` is called each time before anything is taken. `ended` is told the last receipt of each that was not
        given out: its attempts were used up, or it was late.
        """
        wanted = _read(pattern)

        def take() -> list[Claim] | None:
            before()
            while self._may_match(wanted):
                claims, last = self._claim(wanted, worker, limit)
                for each in last:
                    ended(each)
                if claims or not last:
                    return claims or None
            return None

        return self._wait(take, wanted, "work", timeout) or []

    def _claim(self, wanted: Pattern, worker: str, limit: int) -> tuple[list[Claim], list[Receipt]]:
        """What was claimed, and the last receipts of tuples that were ended since they stood before it."""

        def decide(view: WorkView) -> tuple[Sequence[Any], tuple[list[Claim], list[Receipt]]]:
            facts, claims = holding.claim(
                view, wanted, worker=worker, limit=limit, settings=self.settings, boot=self._boot
            )
            return facts, (claims, [fact.receipt for fact in facts if isinstance(fact, TupleDone)])

        return self.store.commit(decide, synced=False)

    def out_held(
        self, draft: Mapping[str, Any], *, authority: Mapping[str, Any], run: str, worker: str
    ) -> tuple[coming.Put, Claim | None]:
        """Put a tuple that a worker holds from the first; no claim on one that was there before."""
        self.check_room(run)

        def put(view: WorkView) -> tuple[Sequence[Any], tuple[coming.Put, Claim | None]]:
            checked = read_tuple(draft, authority, view.as_of)
            facts, (answer,) = coming.put(view, [checked], run=run, settings=self.settings, admit=self._admit)
            new = next((fact for fact in facts if isinstance(fact, TupleOut)), None)
            if new is None:
                return facts, (answer, None)
            held, claim = holding.hold(view, new, worker=worker, settings=self.settings, boot=self._boot)
            return held, (answer, claim)

        return self.store.commit(put)

    def settle(
        self,
        results: Sequence[holding.Settled],
        *,
        more: tuple[Mapping[str, Any] | Pattern, str, int] | None = None,
    ) -> tuple[list[str | None], list[Claim]]:
        """Write down what was done, and in the same commit claim more: a pattern, a worker and how many.

        Tells for each result the code of the refusal when it came too late, or None.
        """
        wanted = (_read(more[0]), more[1], more[2]) if more is not None else None

        def write(view: WorkView) -> tuple[Sequence[Any], tuple[list[str | None], list[Claim]]]:
            facts, answers = holding.settle(view, results, settings=self.settings, boot=self._boot)
            if wanted is None:
                return facts, (answers, [])
            pattern, worker, limit = wanted
            claimed, claims = holding.claim(
                view, pattern, worker=worker, limit=limit, settings=self.settings, boot=self._boot
            )
            return [*facts, *claimed], (answers, claims)

        return self.store.commit(write)

    def renew(self, held: Iterable[tuple[str, Fence]]) -> list[str]:
        """Go on holding tuples; tells which are not held any more."""
        kept = list(held)
        return self.store.commit(
            lambda view: holding.renew(view, kept, settings=self.settings, boot=self._boot), synced=False
        )

    def release(self, held: Iterable[tuple[str, Fence]], *, counts: bool = False, reason: str = "stopped") -> list[str]:
        """Give tuples back; the attempt does not count unless said."""
        kept = list(held)
        return self.store.commit(
            lambda view: holding.release(view, kept, counts=counts, reason=reason, boot=self._boot)
        )

    def let_go(self, held: Iterable[tuple[str, Fence]], *, reason: str) -> list[str]:
        """Take tuples from holders who are known to be dead; what somebody else has taken since is theirs."""
        kept = list(held)
        return self.store.commit(lambda view: holding.let_go(view, kept, reason=reason))

    def start_step(self, claim: Claim, step: int, price: Price) -> None:
        """Begin a step, with its probable cost set aside; refused when that is not left."""
        self.store.commit(
            lambda view: holding.start_step(view, claim.id, claim.fence, step, price, boot=self._boot), synced=False
        )

    def spend(self, tuple_id: str, fence: Fence, step: int, said: Price, *, synced: bool = False) -> bool:
        """Count what a step has said it spent, in all; told as often as one likes, by whomever, it counts once.

        It counts also when the tuple is another's by now or has ended. Tells whether it is still held by this fence.
        """
        return self.store.commit(
            lambda view: holding.spend(view, tuple_id, fence, step, said, settings=self.settings, boot=self._boot),
            synced=synced,
        )

    # Looking after it

    def check_room(self, run: str | None = None) -> None:
        """Refuse work while the disk is short of room; a tuple that asks for room is put, if that may help."""
        if self._breaker is None:
            return
        try:
            self._breaker()
        except DiskPressure:
            with suppress(EngramBusError):  # with no room at all not even for this
                with self.store.read() as view:  # whoever is refused over and over disturbs nobody
                    helps = coming.would_help(view)
                if helps:
                    self.store.commit(lambda view: coming.call_for_room(view, run=run))
            raise

    def record(
        self,
        draft: Mapping[str, Any],
        made: Callable[[str, int], Receipt],
        *,
        authority: Mapping[str, Any],
        run: str,
    ) -> tuple[str, Receipt]:
        """Write down something that was done elsewhere; `made` gives its receipt for a tuple's id and the moment."""
        self.check_room(run)
        return self.store.commit(
            lambda view: coming.record(
                view,
                read_tuple(draft, authority, view.as_of),
                lambda tuple_id: made(tuple_id, view.as_of),
                run=run,
            )
        )

    def cancel(self, tuple_id: str) -> Receipt:
        """End a tuple that waits or is being worked on."""
        return self.store.commit(lambda view: coming.cancel(view, tuple_id))

    def put_again(self, tuple_id: str, *, authority: Mapping[str, Any]) -> coming.Put:
        """Put a dead letter once more, as a new tuple that says the same."""
        self.check_room()
        return self.store.commit(
            lambda view: coming.put_again(
                view, tuple_id, authority=authority, settings=self.settings, admit=self._admit
            )
        )[0]

    def report_damage(self, receipt: str, sha: str) -> None:
        """Let a receipt serve as no hit any more: a body it names is not what it was."""
        self.store.commit(lambda view: ([BodyDamaged(receipt=receipt, sha=sha)], None))

    def get(self, tuple_id: str) -> Kept:
        """The tuple of that id."""
        with self.store.read() as view:
            return found(view, tuple_id)

    def shown(self, tuple_id: str) -> dict[str, Any]:
        """The tuple as it is shown: as created, with its id and the receipts it has got since."""
        with self.store.read() as view:
            return shown(found(view, tuple_id), view.receipts_of(tuple_id))

    def receipt(self, receipt_id: str) -> Receipt:
        """The receipt of that id."""
        with self.store.read() as view:
            receipt = view.receipt(receipt_id)
        if receipt is None:
            raise ReceiptNotFound(field="id", used=receipt_id[:80])
        return receipt

    def write_receipts(self, folder: ReceiptFolder) -> int:
        """Have every receipt lie in a folder as a file; tells how many were written."""

        def numbered(after: int, limit: int) -> list[tuple[int, Receipt]]:
            with self.store.read() as view:
                return view.receipts_in(None, limit=limit, after=after)

        return folder.catch_up(numbered)

    def close(self) -> None:
        """Let go of every file."""
        self.store.close()

    # Waiting

    def _may_match(self, wanted: Pattern) -> bool:
        """Whether there is something to take: asked without the lock, so that those who wait do not disturb."""
        with self.store.read() as view:
            reign = view.reign()
            epoch = reign.epoch + (reign.boot != self._boot)
            return bool(view.claimable(wanted, epoch=epoch, limit=1))

    def _wait(self, look: Callable[[], T | None], wanted: Pattern, kind: Any, timeout: float) -> T | None:
        found = look()
        if found is not None or timeout <= 0:
            return found
        ends = time.monotonic() + timeout
        with self.store.bell(kind) as bell:
            while True:
                found = look()
                left = ends - time.monotonic()
                if found is not None or left <= 0:
                    return found
                bell.wait(min(left, self._until_due(wanted), LOOK_AGAIN))

    def _until_due(self, wanted: Pattern) -> float:
        """Seconds until something comes due by itself."""
        with self.store.read() as view:
            due = view.next_due(wanted)
            return LOOK_AGAIN if due is None else max(0.0, (due - view.as_of) / SECOND)

    def _admit(self, draft: Checked) -> int | None:
        """Refuse a tuple with a yool that the catalog does not have or does not admit its authority to.

        Tells how often it may be tried again by the strictest of its yools, if any says.
        """
        if self._lookup is None:
            return None
        retries: int | None = None
        held = authority_of(draft.tuple.authority)
        for at, step in enumerate(draft.tuple.payload):
            try:
                entry = self._lookup(step.yool)
            except YoolNotFound as refusal:
                refusal.field = f"payload[{at}].yool"
                raise
            if not entry.admits(held):
                raise YoolForbidden(
                    f"'{entry.full_name}' does not run on the authority of '{held}'.",
                    field=f"payload[{at}].yool",
                    limit=", ".join(entry.authority),
                    used=held,
                )
            said = entry.terms.max_retries
            if said is not None and (retries is None or said < retries):
                retries = said
        return retries


def authority_of(stamped: Mapping[str, Any]) -> str:
    """On whose authority a tuple runs: a build's, a person's, or an agent's."""
    if stamped.get("ci"):
        return "ci"
    return "user" if stamped.get("user") else "agent"


def found(view: WorkView, tuple_id: str) -> Kept:
    """The tuple of that id, if it is in the space."""
    one = view.find(tuple_id)
    if one is None or one.state == "taken":
        raise TupleNotFound(field="id", used=tuple_id[:80])
    return one


def _read(pattern: Mapping[str, Any] | Pattern) -> Pattern:
    return pattern if isinstance(pattern, Pattern) else read_pattern(pattern)
