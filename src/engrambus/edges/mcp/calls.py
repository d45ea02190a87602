"""Tool calls and resource reads: each is carried out by an operation, and its answer put into the protocol's form."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from engrambus.core import estimate_tokens
from engrambus.core.disk_errors import disk_problem
from engrambus.edges.mcp.answers import QUERY_TOKENS, compact_text, problem_text, takes_text_budget
from engrambus.edges.mcp.tools import FULL, SPEAK_AS, find_resource, take_operation
from engrambus.edges.mcp.wire import tool_result
from engrambus.errors import (
    BudgetExceeded,
    DerefDenied,
    EngramBusError,
    FieldType,
    Internal,
)
from engrambus.gateway import (
    Credential,
    OnWarning,
    Operation,
    hide_secrets_in,
    hide_secrets_in_faults,
    to_request,
    warning_line,
)
from engrambus.knowledge.engrams import Engram, less_export
from engrambus.operations import OPERATIONS
from engrambus.policy.marks import SIGN
from engrambus.visible_text import make_json_visible, make_visible

log = logging.getLogger(__name__)
log.addFilter(hide_secrets_in_faults)

MAX_TOKENS = "max_tokens"
SINCE_LAST = "since_last"
INBOX = "inbox"
MAX_CURSOR = 1 << 40
"""No mail has a later position."""
MAX_READERS = 1024
"""Readers of whom is remembered what they were told of."""

_LESS = "less_"
_LESS_CODES = (BudgetExceeded.code, DerefDenied.code)
"""Error codes that the specification of the LESS tools prefixes with `LESS_`."""


class CallTarget(Protocol):
    """The target of calls: a gateway, or a client of one."""

    def call(
        self,
        operation: Operation[Any, Any],
        request: Any,
        credential: Credential,
        on_warning: OnWarning | None = None,
        /,
    ) -> Any:
        """Run an operation for the caller that the credential stands for."""
        ...


class ToolCalls:
    """Carries out the calls of MCP clients. The target is opened with the first call.

    `act_as_caller` wraps the opened target so that it acts as the agent that calls.
    """

    def __init__(
        self,
        open_target: Callable[[], CallTarget],
        act_as_caller: Callable[[CallTarget], CallTarget] = lambda target: target,
    ) -> None:
        self._open_target = open_target
        self._act_as_caller = act_as_caller
        self._target: CallTarget | None = None
        self._caller_target: CallTarget | None = None
        self._opening = threading.Lock()
        self._announced: dict[tuple[str | None, str | None], int] = {}
        """Position of the newest mail that each reader was told of."""

    def has_yools(self, credential: Credential) -> bool:
        """True if the project's catalog has a yool; False if there is no project."""
        from engrambus.space.catalog import Catalog

        operation = OPERATIONS["catalog_list_by_lane"]
        try:
            # Not as the calling agent: listing the tools must not add a lead.
            root: str = self._opened_target().call(operation, operation.request(), credential).root
        except EngramBusError:
            return False
        return root != Catalog().root

    def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        credential: Credential,
        on_refusal: Callable[[str, EngramBusError], None] = lambda operation, refusal: None,
    ) -> dict[str, Any]:
        """Return the result of a tool call: the operation's answer, or the problem with it."""
        operation: Operation[Any, Any] | None = None
        full = False
        try:
            arguments = {**arguments}
            operation = take_operation(name, arguments)
            full = _take_full(arguments)
            defaults = operation.tool.defaults if operation.tool else {}
            warnings: list[EngramBusError] = []
            max_tokens = None
            speaker, limit = arguments.get(SPEAK_AS), arguments.get(MAX_TOKENS)
            if not full and takes_text_budget(operation):
                # Lines are cut to the limit below; they cost less than the JSON that the operation would count.
                max_tokens = arguments.pop(MAX_TOKENS, None)
                to_request({MAX_TOKENS: max_tokens}, operation.request)
                if arguments.get(SINCE_LAST):
                    # decision 81: what the operation returns counts as shown, so it is cut there
                    arguments[MAX_TOKENS] = max_tokens = max_tokens or QUERY_TOKENS
            answer = self._call(operation, {**defaults, **arguments}, credential, warnings.append)
            notes = [f"warning: {warning_line(item)}" for item in warnings]
            if full:
                return tool_result(_fields(answer, name), notes=notes)
            text = compact_text(operation, answer, max_tokens)
            if operation.name != INBOX:
                note = self._mail_note(speaker, credential, None if limit is None else limit - estimate_tokens(text))
                text += note if OPERATIONS[INBOX].tool_name not in text else ""  # a brief says it itself
            return tool_result(text, notes=notes)
        except EngramBusError as error:
            refusal = error
        except Exception as failure:
            refusal = disk_problem(failure) or Internal()
            if refusal.code == Internal.code:
                log.exception("%s failed", name)
        on_refusal(operation.name if operation else "mcp", refusal)
        problem = _with_less_code(name, hide_secrets_in(refusal).problem())
        return tool_result(problem if full else problem_text(problem), is_error=True)

    def _mail_note(self, speaker: Any, credential: Credential, max_tokens: int | None) -> str:
        """Return the line that says that mail waits: once for each new piece of it, and only if it fits."""
        if isinstance(speaker, str) and SIGN in speaker:  # a client whose hooks hand over the mail
            return ""
        inbox, reader = OPERATIONS[INBOX], (credential.token, speaker)
        arguments = {"cursor": MAX_CURSOR} | ({SPEAK_AS: speaker} if speaker is not None else {})
        try:
            answer = self._call(inbox, arguments, credential)
        except EngramBusError:
            return ""
        note = f"\nmail: {answer.waiting} waiting, {inbox.tool_name}"
        if max_tokens is not None and estimate_tokens(note) > max_tokens:
            return ""
        with self._opening:
            if answer.newest <= self._announced.get(reader, 0):
                return ""
            self._announced.pop(reader, None)
            self._announced[reader] = answer.newest
            if len(self._announced) > MAX_READERS:
                del self._announced[next(iter(self._announced))]
        return note

    def read_resource(self, uri: str, credential: Credential) -> tuple[str, str, int]:
        """Return a resource's text, its media type, and for how many milliseconds a client may cache it."""
        operation, resource, arguments = find_resource(uri)
        answer = self._call(operation, arguments, credential)
        is_json = resource.media_type == "application/json"
        text = (
            make_json_visible(msgspec.json.encode(_fields(answer, operation.tool_name))).decode()
            if is_json
            else make_visible(compact_text(operation, answer))
        )
        return text, resource.media_type, resource.ttl_ms

    def _call(
        self,
        operation: Operation[Any, Any],
        arguments: dict[str, Any],
        credential: Credential,
        on_warning: OnWarning | None = None,
    ) -> Any:
        target = self._opened_caller_target()
        if SPEAK_AS in arguments:
            speak_as = arguments.pop(SPEAK_AS)
            if not isinstance(speak_as, str):
                raise FieldType("Expected the name of an agent.", field=SPEAK_AS)
            credential = msgspec.structs.replace(credential, speak_as=speak_as)
        credential = msgspec.structs.replace(credential, from_model=True)
        return target.call(operation, to_request(arguments, operation.request), credential, on_warning)

    def _opened_target(self) -> CallTarget:
        # A failed attempt is not remembered: the project may be created while the client runs.
        with self._opening:
            if self._target is None:
                self._target = self._open_target()
            return self._target

    def _opened_caller_target(self) -> CallTarget:
        target = self._opened_target()
        with self._opening:
            if self._caller_target is None:
                self._caller_target = self._act_as_caller(target)
            return self._caller_target


def _take_full(arguments: dict[str, Any]) -> bool:
    """Remove the argument that asks for JSON, and return it."""
    full = arguments.pop(FULL, False)
    if not isinstance(full, bool):
        raise FieldType("Expected true or false.", field=FULL)
    return full


def _fields(answer: Any, tool: str) -> dict[str, Any]:
    """Return a tool's answer as an object; engrams without their search keys."""
    fields: dict[str, Any] = msgspec.to_builtins(answer)
    for engram in [fields] if isinstance(answer, Engram) else fields.get("engrams", ()):
        if isinstance(engram, dict):  # a message names its engrams by their ids
            engram.pop("hash_keys", None)
    # The tools of LESS answer by its own schema, which has no `embedding_ref`.
    return less_export(fields) if tool.startswith(_LESS) else fields


def _with_less_code(tool: str, problem: dict[str, Any]) -> dict[str, Any]:
    """Return the problem with the code that the specification of the LESS tools gives it."""
    if tool.startswith(_LESS) and problem["code"] in _LESS_CODES:
        return {**problem, "code": f"LESS_{problem['code']}"}
    return problem
