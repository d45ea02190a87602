"""The context an operation works in: the caller, the time, the store and the files of one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from engrambus.core import Randomness, print_time
from engrambus.errors import USE_ANOTHER_KEY, IdempotencyConflict, RunEnded
from engrambus.gateway.lazy_embeddings import LazyEmbeddings
from engrambus.gateway.lazy_tuple_space import LazyTupleSpace
from engrambus.gateway.ports import CortexFiles, Decide, RequestAnswered, Store, View
from engrambus.gateway.role_view import project_stores, restrict_view
from engrambus.gateway.shared_stores import SharedStores
from engrambus.knowledge.engrams import VisibleStore
from engrambus.policy import ADMIN, SHARED_SCOPES, Caller, check_alive, shared_scopes

if TYPE_CHECKING:
    from engrambus.evidence.pointers import Evidence, PointerCompleter
    from engrambus.gateway.project_files import ProjectFiles
    from engrambus.gateway.read_ahead import ReadAhead
    from engrambus.knowledge.engrams import RoleFilter
    from engrambus.policy import LimitChecks, Policy, TokenKey
    from engrambus.policy.grants import GrantKey

T = TypeVar("T")


class Idempotency(msgspec.Struct, frozen=True, kw_only=True):
    """An idempotency key and the request that was sent with it, as digests under the project's key."""

    key: str
    request: str


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an operation may use for one call."""

    caller: Caller
    policy: Policy
    """The policy in force when the call came in."""
    as_of: int
    """When the call came in, by the project's clock."""
    open_view: View | None
    """The store as of then; only for operations that do not write."""
    run_seen: str | None
    """The run whose work the caller is shown; None shows an admin every run's."""
    any_file: bool
    """True if files outside the project may be named."""
    idempotency: Idempotency | None
    """Set if the caller sent an idempotency key with a write."""
    store: Store
    evidence: Evidence
    project_files: ProjectFiles
    key: TokenKey
    grant_key: GrantKey
    randomness: Randomness
    shared: SharedStores
    """The stores of scopes wider than the project."""
    cortex: CortexFiles | None
    """The files of the shared cortex, where the project has any."""
    tuple_space: LazyTupleSpace
    embeddings: LazyEmbeddings
    limits: LimitChecks
    """The limits as they apply to the caller; rules report exceeded ones to it."""
    completer: PointerCompleter
    """Completes short pointers; those of the request are complete when the operation gets it."""
    role_filter: RoleFilter | None = None
    """The rule of what the caller's role sees; None if it sees everything."""
    ahead: ReadAhead | None = None
    """Reads in the background what children are pointed at; None in a process that ends with its call."""

    @property
    def view(self) -> View:
        """The store as it was when the call came in."""
        if self.open_view is None:
            # A decision made on an earlier view could contradict a commit that came between.
            raise ValueError("an operation that writes decides against the view its commit is given")
        return self.open_view

    @contextmanager
    def visible_stores(self, scope: str | None = None) -> Iterator[list[VisibleStore]]:
        """Yield what the caller may see, the project's own store first; only one scope's when it is named."""
        with self.shared.visible_stores(shared_scopes(self.policy, scope), self.role_filter) as wider:
            yield [*project_stores(self.view, self.caller, scope), *wider]

    @contextmanager
    def present_stores(self) -> Iterator[list[VisibleStore]]:
        """Yield what the caller may see now: for an operation that writes, to look things up before it decides."""
        wider_scopes = shared_scopes(self.policy)
        with self.store.read() as view, self.shared.visible_stores(wider_scopes, self.role_filter) as wider:
            yield [*project_stores(restrict_view(view, self.role_filter), self.caller), *wider]

    def note(self, line: str) -> None:
        """Add a line to the log of the shared cortex."""
        if self.cortex is not None:
            self.cortex.note(f"{print_time(self.as_of)} {line}")

    def write_episodes(self, *, to_be_read: bool = False) -> None:
        """Bring the file of episodes up to the store; check all of it if it is to be read."""
        if self.cortex is not None:
            self.cortex.write_episodes(self.store.read, to_be_read=to_be_read)

    def deliver(self, *scopes: str) -> None:
        """Copy engrams of these scopes to the shared stores they belong in."""
        if any(scope in SHARED_SCOPES for scope in scopes):
            self.shared.deliver(self.store)

    def commit(self, decide: Decide[T], answer_type: type[T], *, in_run: bool = True, remember: bool = True) -> T:
        """Change the store, once for each idempotency key; refuse if the caller's run has ended (`in_run`).

        Pass `remember=False` for an answer that holds content: a remembered answer is written to the journal.
        """

        warnings_before = len(self.limits.warnings)

        def decide_once(view: View) -> tuple[Sequence[Any], T]:
            # A back end may let a change decide a second time; only the decision that was committed counts.
            del self.limits.warnings[warnings_before:]
            # Checked under the write lock: run and agent may have ended since the call came in.
            if self.caller.role != ADMIN:
                check_alive(view, self.caller.run.run_id, self.caller.name)
            elif in_run:
                check_run_goes_on(view, self.caller)
            view = restrict_view(view, self.role_filter)
            sent = self.idempotency
            if sent is None or not remember:
                return decide(view)
            previous = view.earlier_answer(self.caller.full_name, sent.key)
            if previous is not None:
                if previous.request != sent.request:
                    raise IdempotencyConflict(field="Idempotency-Key", hint=USE_ANOTHER_KEY)
                return (), msgspec.json.decode(previous.answer, type=answer_type)
            facts, answer = decide(view)
            # In the same commit as the facts: a request is either done and remembered, or neither.
            answered = RequestAnswered(
                caller=self.caller.full_name,
                key=sent.key,
                request=sent.request,
                answer=msgspec.Raw(msgspec.json.encode(answer)),
            )
            return (*facts, answered), answer

        return self.store.commit(decide_once)


def check_run_goes_on(view: View, caller: Caller) -> None:
    """Refuse to write into a run that has ended."""
    run = view.run(caller.run.run_id)
    if run is None or run.ended:
        raise RunEnded(f"The run '{caller.run.run_id}' has ended.", hint="Open another: engrambus run new GOAL.")
