"""The one way in: every edge hands its calls to a gateway, which finds out who asks before anything is done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from engrambus.core import Randomness, digest_of, is_ulid, print_time
from engrambus.core.strict_json import MAX_DEPTH
from engrambus.errors import (
    AgentNotFound,
    BadText,
    EngramBusError,
    FieldValue,
    IdempotencyConflict,
    IndexDamaged,
    Internal,
    RoleForbidden,
    RunEnded,
    RunNotFound,
    TokenInvalid,
    TokenMissing,
    TooDeep,
)
from engrambus.gateway.declare import Operation, Request, Response
from engrambus.gateway.events import Feed
from engrambus.gateway.lazy_tuple_space import LazyTupleSpace
from engrambus.gateway.ports import CortexFiles, Decide, RequestAnswered, Store, View
from engrambus.gateway.shared_stores import SharedStores
from engrambus.knowledge.engrams import VisibleStore
from engrambus.policy import (
    ADMIN,
    SHARED_SCOPES,
    Caller,
    Run,
    check_descends,
    shared_scopes,
    visible_spaces,
)
from engrambus.policy.secrets import check_no_secrets

if TYPE_CHECKING:
    from engrambus.evidence.pointers import Evidence
    from engrambus.gateway.project_files import ProjectFiles
    from engrambus.policy import Policy, TokenKey
    from engrambus.policy.grants import GrantKey

T = TypeVar("T")

MAX_IDEMPOTENCY_KEY = 128
MAX_NAME = 96


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """What an edge knows about who is asking."""

    token: str | None = None
    """A bearer token, when one was sent."""
    local_admin: bool = False
    """Whether the call comes from the account that owns the files, with no token."""
    speak_as: str | None = None
    """The descendant in whose name to act: `<name>`, or `<run>/<name>`."""
    any_file: bool = False
    """Whether the caller may name any file of this account: a person at the machine, and no server for others."""
    run: str | None = None
    """The run an admin chose; other tokens name their own."""
    idempotency_key: str | None = None
    """Repeats of a write under the same key are answered, not done again."""
    trace: str | None = None
    """The caller's own span, as W3C's `traceparent` writes it; nothing is decided by it."""


LOCAL_ADMIN = Credential(local_admin=True)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation has at hand."""

    caller: Caller
    policy: Policy
    """The policy in force when the call came in."""
    as_of: int
    """When the call came in, by the project's clock."""
    store: Store
    evidence: Evidence
    project_files: ProjectFiles
    key: TokenKey
    grant_key: GrantKey
    randomness: Randomness
    idempotency_key: str | None
    request_digest: str | None
    open_view: View | None
    """The store as of then; only for operations that do not write."""
    shared: SharedStores
    """The stores beyond the project."""
    any_file: bool
    """Whether files outside the project may be named."""
    cortex: CortexFiles | None
    """The files of the shared cortex, where the project has any."""
    tuple_space: LazyTupleSpace
    """The project's work."""
    chosen_run: str | None
    """The run an admin chose to act in; none when it is the current one."""

    @property
    def run_seen(self) -> str | None:
        """The run whose work the caller is shown: its own, or the one an admin chose; none: every run's."""
        return self.chosen_run if self.caller.role == ADMIN else self.caller.run.run_id

    @property
    def view(self) -> View:
        """The store as it was when the call came in."""
        if self.open_view is None:
            raise ValueError("an operation that writes decides against the view its commit is given")
        return self.open_view

    @contextmanager
    def visible_stores(self, scope: str | None = None) -> Iterator[list[VisibleStore]]:
        """What the caller may see, store by store, the project's own first; only one scope's when it is named."""
        with self.shared.visible_stores(shared_scopes(self.policy, scope)) as beyond:
            spaces = visible_spaces(self.caller, scope)
            yield [VisibleStore(self.view, spaces), *beyond] if spaces else beyond

    def note(self, line: str) -> None:
        """Add a line to the log of the shared cortex."""
        if self.cortex is not None:
            self.cortex.note(f"{print_time(self.as_of)} {line}")

    def write_episodes(self) -> None:
        """Bring the episodic store up to what is remembered."""
        if self.cortex is not None:
            self.cortex.bring_up(self.store.read)

    def deliver(self, *scopes: str) -> None:
        """Bring engrams of these scopes, if they lie beyond the project, to the stores they are for."""
        if any(scope in SHARED_SCOPES for scope in scopes):
            self.shared.deliver(self.store)

    def commit(self, decide: Decide[T], answer_type: type[T], *, in_run: bool = True, remember: bool = True) -> T:
        """Change the store, once for each idempotency key; the caller's run must still be going on.

        An answer that holds content is not to be remembered: what is remembered stands in the journal.
        """

        def once(view: View) -> tuple[Sequence[Any], T]:
            if in_run:
                check_run_goes_on(view, self.caller)
            key, request = self.idempotency_key, self.request_digest
            if key is None or request is None or not remember:
                return decide(view)
            before = view.remembered(self.caller.full_name, key)
            if before is not None:
                if before.request != request:
                    raise IdempotencyConflict(field="Idempotency-Key", used=key)
                return (), msgspec.json.decode(before.answer, type=answer_type)
            facts, answer = decide(view)
            kept = RequestAnswered(
                caller=self.caller.full_name, key=key, request=request, answer=msgspec.Raw(msgspec.json.encode(answer))
            )
            return (*facts, kept), answer

        return self.store.commit(once)


class Call(msgspec.Struct, kw_only=True):
    """A call, as those who watch calls are told of it once it is over."""

    operation: Operation[Any, Any]
    trace: str | None
    took: int
    """Nanoseconds."""
    caller: Caller | None = None
    """Whoever asked, when that was found out."""
    answer: Any = None
    """None when it was refused."""
    code: str | None = None
    """The code it was refused with."""


class Gateway:
    """One project, open for business."""

    def __init__(
        self,
        *,
        store: Store,
        evidence: Evidence,
        project_files: ProjectFiles,
        key: TokenKey,
        grant_key: GrantKey,
        randomness: Randomness = os.urandom,
        shared: SharedStores | None = None,
        cortex: CortexFiles | None = None,
        ticks: Callable[[], int] = time.perf_counter_ns,
        tuple_space: LazyTupleSpace | None = None,
    ) -> None:
        self.store = store
        self.evidence = evidence
        self.project_files = project_files
        self.key = key
        self.grant_key = grant_key
        self.shared = shared or SharedStores({})
        self.tuple_space = tuple_space or LazyTupleSpace()
        self._randomness = randomness
        self._cortex = cortex
        self._ticks = ticks
        self._watchers: tuple[Callable[[Call], None], ...] = ()
        self.feed = Feed(store, work_line=self.tuple_space.commits)

    def close(self) -> None:
        """Let go of the store and of every running git."""
        self.feed.close()
        self.store.close()
        self.tuple_space.close()
        self.shared.close()
        self.project_files.close()

    def watch_calls(self, told: Callable[[Call], None]) -> Callable[[], None]:
        """Have a function told of every call once it is over; it must be quick and must not raise. Call what is given
        back to have it told no more."""
        self._watchers = (*self._watchers, told)

        def leave() -> None:
            self._watchers = tuple(each for each in self._watchers if each is not told)

        return leave

    def call(self, operation: Operation[Request, Response], request: Request, credential: Credential) -> Response:
        """Carry out an operation for whoever the credential shows."""
        if not self._watchers:
            return self._attempt(operation, request, credential, None)
        call, began = Call(operation=operation, trace=credential.trace, took=0), self._ticks()
        try:
            answer = call.answer = self._attempt(operation, request, credential, call)
            return answer
        except EngramBusError as refusal:
            call.code = refusal.code
            raise
        except BaseException:
            call.code = Internal.code
            raise
        finally:
            call.took = self._ticks() - began
            for told in self._watchers:
                told(call)

    def _attempt(
        self, operation: Operation[Request, Response], request: Request, credential: Credential, call: Call | None
    ) -> Response:
        try:
            return self._call(operation, request, credential, call)
        except IndexDamaged:
            return self._call(operation, request, credential, call)
        except UnicodeEncodeError:
            raise BadText("A text holds half of a surrogate pair.") from None
        except RecursionError:
            raise TooDeep(limit=MAX_DEPTH) from None

    def _call(
        self, operation: Operation[Request, Response], request: Request, credential: Credential, call: Call | None
    ) -> Response:
        key = credential.idempotency_key if operation.writes else None
        if key is not None and not 0 < len(key) <= MAX_IDEMPOTENCY_KEY:
            raise FieldValue(field="Idempotency-Key", limit=MAX_IDEMPOTENCY_KEY, used=len(key))
        if operation.writes and not operation.redacts:
            check_no_secrets(_texts(operation, request))
        with self.store.read() as view:
            caller = self._caller(view, credential)
            if call is not None:
                call.caller = caller
            if caller.role not in operation.roles:
                raise RoleForbidden(
                    f"A {caller.role} may not call {operation.title}.", limit=", ".join(sorted(operation.roles))
                )
            context = Context(
                caller=caller,
                policy=view.policy(),
                as_of=view.as_of,
                store=self.store,
                evidence=self.evidence,
                project_files=self.project_files,
                key=self.key,
                grant_key=self.grant_key,
                randomness=self._randomness,
                idempotency_key=key,
                request_digest=_request_digest(operation, request) if key is not None else None,
                open_view=None if operation.writes else view,
                shared=self.shared,
                cortex=self._cortex,
                any_file=credential.any_file and credential.token is None,
                tuple_space=self.tuple_space,
                chosen_run=caller.run.run_id if credential.run is not None else None,
            )
            if not operation.writes:
                answer = operation.run(context, request)
                self.feed.answered(operation.name, caller, view.as_of, request, answer)
                return answer
        return operation.run(context, request)

    def who(self, credential: Credential) -> Caller:
        """Whoever the credential shows, if it still holds."""
        with self.store.read() as view:
            return self._caller(view, credential)

    def _caller(self, view: View, credential: Credential) -> Caller:
        if credential.token is not None:
            caller = self._bearer(view, credential.token, credential.run)
        elif credential.local_admin:
            caller = Caller(project=self.store.project, run=_chosen_run(view, credential.run), name=ADMIN, role=ADMIN)
        else:
            raise TokenMissing(hint="Send 'Authorization: Bearer <token>'; `engrambus agent token NAME` prints one.")
        name = credential.speak_as
        if name is None or name in (caller.name, caller.full_name):
            return caller
        speaker = caller.full_name
        caller, name = _in_named_run(view, caller, name)
        agent = check_descends(view, caller, name)
        return Caller(project=caller.project, run=caller.run, name=agent.name, role=agent.role, spoken_by=speaker)

    def _bearer(self, view: View, token: str, chosen: str | None) -> Caller:
        claims = self.key.check(token, project=self.store.project, now=view.as_of)
        run = view.run(claims.run)
        if chosen is not None and claims.role == ADMIN:
            run = _chosen_run(view, chosen)
        if run is None:
            raise TokenInvalid
        if claims.role != ADMIN:
            agent = view.agent(claims.run, claims.agent)
            if agent is None or agent.role != claims.role or agent.parent != claims.parent:
                raise TokenInvalid
        return Caller(project=claims.project, run=run, name=claims.agent, role=claims.role)


def _in_named_run(view: View, caller: Caller, name: str) -> tuple[Caller, str]:
    """The caller in the run a full name, `<run>/<name>`, says, and the bare name; only an admin is in every run."""
    run_id, _, bare = name.rpartition("/")
    if not run_id or run_id == caller.run.run_id:
        return caller, bare
    run = view.run(run_id) if caller.role == ADMIN and is_ulid(run_id) else None
    if run is None:
        raise AgentNotFound(f"There is no agent '{name[:MAX_NAME]}' in this run.", field="as")
    return msgspec.structs.replace(caller, run=run), bare


def check_run_goes_on(view: View, caller: Caller) -> None:
    """Refuse to write into a run that has ended."""
    run = view.run(caller.run.run_id)
    if run is None or run.ended:
        raise RunEnded(f"The run '{caller.run.run_id}' has ended.", hint="Open another: engrambus run new GOAL.")


def _chosen_run(view: View, run_id: str | None) -> Run:
    run = view.current_run() if run_id is None else view.run(run_id) if is_ulid(run_id) else None
    if run is None:
        raise RunNotFound(field="run", hint="Open one: engrambus run new GOAL.")
    return run


def _request_digest(operation: Operation[Any, Any], request: msgspec.Struct) -> str:
    return digest_of([operation.name, msgspec.to_builtins(request)])


def _texts(operation: Operation[Any, Any], request: msgspec.Struct) -> Any:
    """Everything a request says that could be stored; a budget token is shown, used and never kept.

    A text of a form of its own is checked by its operation, which can say where in it the secret stands.
    """
    said = msgspec.to_builtins(request)
    for name in ("budget_token", operation.text_field):
        said.pop(name, None)
    return said
