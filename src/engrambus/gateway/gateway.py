"""The one way in: every edge hands its calls to a gateway, which identifies the caller and runs the operation."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.core import Randomness, canonical, check_visible, parse_time
from engrambus.core.disk_errors import disk_problem
from engrambus.core.strict_json import MAX_DEPTH
from engrambus.errors import (
    BadText,
    EngramBusError,
    FieldValue,
    Forbidden,
    GrantExpired,
    IndexDamaged,
    Internal,
    NotFound,
    Notice,
    RoleForbidden,
    TokenExpired,
    TooDeep,
)
from engrambus.gateway.caller import Credential, check_marked, identify, resolve_agents
from engrambus.gateway.context import Context, Idempotency
from engrambus.gateway.declare import ADMINS, Operation, Request, Response, prose_texts
from engrambus.gateway.denials import DenialRecorder
from engrambus.gateway.events import ActivityChannel, EventFilter, EventLog, filter_for
from engrambus.gateway.lazy_embeddings import LazyEmbeddings
from engrambus.gateway.lazy_tuple_space import CALLER, LazyTupleSpace
from engrambus.gateway.pointer_fields import complete_pointers
from engrambus.gateway.ports import CortexFiles, Store, View
from engrambus.gateway.refusal_texts import hide_secrets_in
from engrambus.gateway.role_view import restrict_view
from engrambus.gateway.shared_stores import SharedStores
from engrambus.gateway.task_leases import TaskLeases
from engrambus.knowledge import messages
from engrambus.policy import ADMIN, Caller, check_token, with_article
from engrambus.policy.secrets import check_no_secrets
from engrambus.visible_text import make_json_visible

if TYPE_CHECKING:
    from engrambus.evidence.pointers import Evidence
    from engrambus.gateway.project_files import ProjectFiles
    from engrambus.gateway.read_ahead import ReadAhead
    from engrambus.knowledge.engrams import RoleFilter
    from engrambus.policy import Policy, RoleVisibility, TokenClaims, TokenKey
    from engrambus.policy.grants import GrantKey

OnWarning = Callable[[EngramBusError], None]
"""Called with each exceeded limit that the policy does not enforce, after the call has succeeded."""

MAX_WARNINGS = 16
"""Warnings that one call delivers."""
MAX_IDEMPOTENCY_KEY = 128
"""Characters."""

MAX_DAMAGED_INDEXES = 2
"""Indexes that one call may find damaged, one after the other: of knowledge and of work."""

_encode = msgspec.json.Encoder().encode


class Call(msgspec.Struct, kw_only=True):
    """One finished call, as watchers get it."""

    operation: Operation[Any, Any]
    trace: str | None
    took_ns: int = 0
    caller: Caller | None = None
    """None if the credential was refused."""
    answer: Any = None
    """None if the call was refused."""
    code: str | None = None
    """The error code it was refused with."""


class Gateway:
    """One open project: its store, its files, its keys, and the calls on them."""

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
        activity: ActivityChannel | None = None,
        embeddings: LazyEmbeddings | None = None,
    ) -> None:
        self.store = store
        self.evidence = evidence
        self.project_files = project_files
        self.key = key
        self.grant_key = grant_key
        self.shared = shared or SharedStores({})
        self.tuple_space = tuple_space or LazyTupleSpace()
        self._task_leases = TaskLeases(self.tuple_space)
        self._embeddings = embeddings or LazyEmbeddings()
        self._randomness = randomness
        self._cortex = cortex
        self._ticks = ticks
        self._watchers: tuple[Callable[[Call], None], ...] = ()
        self.event_log = EventLog(store, work_line=self.tuple_space.commits, activity=activity)
        self._denials = DenialRecorder(store)
        self.read_ahead: ReadAhead | None = None
        """Reads what children are pointed at; None in a process that ends with its call."""

    def start_read_ahead(self) -> None:
        """From now on, read in the background what children are pointed at: for processes that go on running."""
        if self.read_ahead is None:
            from engrambus.gateway.read_ahead import ReadAhead

            self.read_ahead = ReadAhead(self.evidence, self.project_files.staleness_of)

    @property
    def unidentified_denials(self) -> Mapping[str, int]:
        """Denials in this process of callers that could not be identified, by error code."""
        return self._denials.unidentified

    def count_unidentified(self, refusal: EngramBusError) -> None:
        """Count a call that an edge refused before it reached an operation, because it did not know the caller."""
        self._denials.unidentified[refusal.code] += 1

    def close(self) -> None:
        if self.read_ahead is not None:
            self.read_ahead.close()
        self._denials.close()
        self.event_log.close()
        self.store.close()
        self.tuple_space.close()
        self.shared.close()
        self._embeddings.close()
        self.project_files.close()

    def watch_calls(self, watcher: Callable[[Call], None]) -> Callable[[], None]:
        """Call a function with every finished call; it must be quick and must not raise. Return how to end that."""
        self._watchers = (*self._watchers, watcher)

        def unwatch() -> None:
            self._watchers = tuple(registered for registered in self._watchers if registered is not watcher)

        return unwatch

    def call(
        self,
        operation: Operation[Request, Response],
        request: Request,
        credential: Credential,
        on_warning: OnWarning | None = None,
    ) -> Response:
        """Run an operation for the caller that the credential stands for."""
        if not self._watchers:  # no timing, and no Call, for calls that are not watched
            return self._call_or_explain(operation, request, credential, on_warning, None)
        call, began = Call(operation=operation, trace=credential.trace), self._ticks()
        try:
            answer = call.answer = self._call_or_explain(operation, request, credential, on_warning, call)
            return answer
        except EngramBusError as refusal:
            call.code = refusal.code
            raise
        except BaseException:
            call.code = Internal.code
            raise
        finally:
            call.took_ns = self._ticks() - began
            for watcher in self._watchers:
                watcher(call)

    def _call_or_explain(
        self,
        operation: Operation[Request, Response],
        request: Request,
        credential: Credential,
        on_warning: OnWarning | None,
        call: Call | None,
    ) -> Response:
        """Run an operation; turn what Python raises for hostile input into an error a caller understands."""
        try:
            return self._call_healing(operation, request, credential, on_warning, call)
        except UnicodeEncodeError:
            raise BadText("A text holds half of a surrogate pair.") from None
        except RecursionError:  # deeply nested input that the decoders let through
            raise TooDeep(limit=MAX_DEPTH) from None
        except IndexDamaged as refusal:
            # It was rebuilt as often as it may be: if the disk failed to read it each time, the disk is at fault.
            trouble = disk_problem(refusal.__cause__) if refusal.__cause__ is not None else None
            raise trouble or refusal from refusal.__cause__
        except EngramBusError as refusal:
            hide_secrets_in(refusal)
            if isinstance(refusal, (TokenExpired, GrantExpired)):
                self._record_expiry(refusal)
            # decision 52: here, for every operation on every edge
            if refusal.is_denial and not refusal.is_recorded:
                self._record_denial(operation, credential, refusal)
            raise
        except Exception as problem:
            trouble = disk_problem(problem)
            if trouble is None:
                raise
            raise trouble from problem

    def _call_healing(
        self,
        operation: Operation[Request, Response],
        request: Request,
        credential: Credential,
        on_warning: OnWarning | None,
        call: Call | None,
    ) -> Response:
        """Run an operation, and again if it came upon a damaged index: the store has rebuilt that by then."""
        for _ in range(MAX_DAMAGED_INDEXES):
            try:
                return self._call(operation, request, credential, on_warning, call)
            except IndexDamaged:
                continue
        return self._call(operation, request, credential, on_warning, call)

    def _record_expiry(self, refusal: EngramBusError) -> None:
        """Have the journal say that this time has come: a clock set back later revives nothing (decision 91)."""
        with suppress(EngramBusError, ValueError):  # the caller is to get its own answer
            self.store.record_time(parse_time(str(refusal.limit)))

    def _record_denial(self, operation: Operation[Any, Any], credential: Credential, refusal: EngramBusError) -> None:
        try:
            try:
                caller = self.identify(credential)
            except (Forbidden, NotFound):  # it may not speak as the agent that it named
                caller = self.identify(msgspec.structs.replace(credential, speak_as=None))
        except EngramBusError:
            self.count_unidentified(refusal)
            return
        self._denials.record(caller, operation.name, [refusal])

    def _call(
        self,
        operation: Operation[Request, Response],
        request: Request,
        credential: Credential,
        on_warning: OnWarning | None,
        call: Call | None,
    ) -> Response:
        key = credential.idempotency_key if operation.writes else None
        if key is not None and not 0 < len(key) <= MAX_IDEMPOTENCY_KEY:
            raise FieldValue(field="Idempotency-Key", limit=MAX_IDEMPOTENCY_KEY, used=len(key))
        # Here, for every operation that writes, so that none can forget it.
        fields = _storable_fields(operation, request) if operation.writes else {}
        # decision 72: the content of files is stored as it is, and shown as escapes
        check_visible({name: value for name, value in fields.items() if name not in operation.raw_fields})
        with self.store.read() as view:
            caller = self._identify(view, credential)
            if call is not None:
                call.caller = caller
            policy = view.policy()
            if not operation.redacts:
                check_no_secrets(fields, rules=policy.secrets)
            if caller.role not in operation.roles or (caller.is_member and operation.roles == ADMINS):
                role = "person" if caller.is_member else caller.role
                raise RoleForbidden(
                    f"{with_article(role).capitalize()} may not call `{operation.title}`.",
                    limit=", ".join(sorted(operation.roles)),
                )
            if operation.is_guarded:
                check_marked(view, caller, credential)
            idempotency = self._idempotency(operation, request, key) if key is not None else None
            if operation.agent_fields:
                caller, request = resolve_agents(view, caller, operation, request)
            context = self._context(view, policy, operation, caller, credential, idempotency)
            with _naming_fields(context):
                request = complete_pointers(request, context.completer)
                if operation.prose:
                    self._check_prose(operation, request, context, view)
                if not operation.writes:
                    answer = _run(operation, context, request)
                    self.event_log.add_call(operation.name, caller, view.as_of, request, answer)
        if operation.writes:
            with _naming_fields(context):
                answer = _run(operation, context, request)
        self._task_leases.renew(context.caller, context.as_of)
        self._deliver_warnings(operation, context, on_warning)
        return _visible(operation, answer)

    def _idempotency(self, operation: Operation[Any, Any], request: msgspec.Struct, key: str) -> Idempotency:
        """Return the digests of an idempotency key and its request."""
        # decision 71: both are journalled, and a caller may have put anything into them, so they cannot be guessed at.
        wire = canonical([operation.name, msgspec.to_builtins(request)]).decode()
        return Idempotency(
            key=self.key.keyed_digest("idempotency key", key),
            request=self.key.keyed_digest("idempotent request", wire),
        )

    def _context(
        self,
        view: View,
        policy: Policy,
        operation: Operation[Any, Any],
        caller: Caller,
        credential: Credential,
        idempotency: Idempotency | None,
    ) -> Context:
        """Return the context of a call."""
        chosen_run = caller.run.run_id if credential.run is not None else None
        role_filter, evidence, project_files = None, self.evidence, self.project_files
        rule = policy.visible_to(caller.role)
        if rule is not None:
            role_filter, evidence, project_files = self._restrict(rule)
        project_files = project_files.of_caller(credential.head, credential.worktree)
        return Context(
            caller=caller,
            policy=policy,
            limits=policy.checks(caller.role),
            as_of=view.as_of,
            open_view=None if operation.writes else restrict_view(view, role_filter),
            role_filter=role_filter,
            run_seen=chosen_run if caller.role == ADMIN else caller.run.run_id,
            any_file=credential.any_file and credential.token is None,
            idempotency=idempotency,
            store=self.store,
            evidence=evidence,
            project_files=project_files,
            completer=project_files.completer(credential.head),
            key=self.key,
            grant_key=self.grant_key,
            randomness=self._randomness,
            shared=self.shared,
            cortex=self._cortex,
            tuple_space=self.tuple_space,
            embeddings=self._embeddings,
            ahead=self.read_ahead,
        )

    def _deliver_warnings(self, operation: Operation[Any, Any], context: Context, on_warning: OnWarning | None) -> None:
        """Record the limits that a call exceeded without being refused, and hand its warnings to the edge."""
        if on_warning is None and all(isinstance(warning, Notice) for warning in context.limits.warnings):
            return  # nobody is shown them
        warnings = [hide_secrets_in(warning) for warning in context.limits.warnings]
        if exceeded := [warning for warning in warnings if not isinstance(warning, Notice)]:
            self._denials.record(context.caller, operation.name, exceeded, "warn")
        # decision 49: a refused call gets its refusal alone
        if on_warning is not None:
            for warning in warnings[:MAX_WARNINGS]:
                on_warning(warning)

    def _check_prose(
        self, operation: Operation[Any, Any], request: msgspec.Struct, context: Context, view: View
    ) -> None:
        """Refuse code in the fields that are for words, in every operation alike (decision 48)."""
        messages.check_texts(
            prose_texts(request, operation.prose),
            messages.CodeCounter(context.project_files),
            context.limits,
            lambda: messages.inline_budget(view, context.policy, context.caller).max_inline_code_chars,
        )

    def _restrict(self, rule: RoleVisibility) -> tuple[RoleFilter, Evidence, ProjectFiles]:
        """Return the filter of a rule, and the evidence and the files without what it hides."""
        # Only where the policy has a rule for the caller's role: nobody else pays for it.
        from engrambus.gateway.role_evidence import RoleEvidence, make_role_filter

        role_filter = make_role_filter(rule, self.project_files.repositories)
        files = self.project_files.seen_by(rule.sees_path) if rule.paths else self.project_files
        return role_filter, RoleEvidence(self.evidence, role_filter, self.store), files

    def identify(self, credential: Credential) -> Caller:
        """Return the caller a credential stands for, if it is still valid."""
        with self.store.read() as view:
            return self._identify(view, credential)

    def is_good(self, claims: TokenClaims) -> bool:
        """True if a token that was checked before is still good, and its bearer was not removed."""
        with self.store.read() as view:
            try:
                check_token(view, claims, view.policy().token_lifetime.ceiling_us)
            except EngramBusError:
                return False
            return claims.expires_us > view.expiry_us

    def event_filter(self, credential: Credential, types: frozenset[str] = frozenset()) -> EventFilter:
        """Return the filter of the events that a credential's caller may see."""
        with self.store.read() as view:
            caller = self._identify(view, credential)
            return filter_for(caller, types, view.policy().visible_to(caller.role))

    def _identify(self, view: View, credential: Credential) -> Caller:
        return identify(view, credential, project=self.store.project, key=self.key)


def _run(operation: Operation[Request, Response], context: Context, request: Request) -> Response:
    """Run an operation, with its caller's name where hooks of the tuple space find it."""
    token = CALLER.set(context.caller.full_name)
    try:
        return operation.run(context, request)
    finally:
        CALLER.reset(token)


@contextmanager
def _naming_fields(context: Context) -> Iterator[None]:
    """Make refusals and warnings name the fields that the caller wrote, after pointers were completed."""
    try:
        yield
    except EngramBusError as refusal:
        context.completer.explain(refusal)
        raise
    for warning in context.limits.warnings:
        context.completer.explain(warning)


def _visible(operation: Operation[Any, Response], answer: Response) -> Response:
    """Return the answer with invisible characters as escapes, wherever they come from (decision 72)."""
    if operation.is_hashed:
        return answer
    document = _encode(answer)
    visible = make_json_visible(document)
    return answer if visible is document else msgspec.json.decode(visible, type=operation.response)


def _storable_fields(operation: Operation[Any, Any], request: msgspec.Struct) -> Any:
    """Return the request's fields that could be stored, to be searched for secrets and invisible text.

    A budget token is not stored as it was sent. A text field is checked by its operation, which can name the line of
    a secret.
    """
    fields = msgspec.to_builtins(request)
    for name in ("budget_token", "from_grant", operation.text_field):
        fields.pop(name, None)
    return fields
