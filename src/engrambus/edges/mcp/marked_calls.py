"""Calls that a client's hook has marked with the agent that makes them (decision 44)."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.edges.mcp.calls import CallTarget
from engrambus.errors import MarkInvalid, SessionUnknown
from engrambus.gateway import Credential, OnWarning, Operation
from engrambus.operations import OPERATIONS
from engrambus.policy import is_persons_token
from engrambus.policy.marks import SIGN, Mark, read_mark


class MarkedCalls:
    """A call target that makes marked calls for the agents of client sessions, and passes on all others."""

    def __init__(self, target: CallTarget, unmarked: CallTarget, opener: Credential | None = None) -> None:
        """`opener` is the credential of marked calls; None makes them with the credential they come with."""
        self._target = target
        self._unmarked = unmarked
        self._opener = opener
        self._place: str | None = None
        """The place of the session whose marked calls this process has made last."""

    def call(
        self,
        operation: Operation[Any, Any],
        request: Any,
        credential: Credential,
        on_warning: OnWarning | None = None,
        /,
    ) -> Any:
        """Run an operation for the agent in the mark; a call whose mark is not valid is made as if it had none."""
        text = credential.speak_as
        if text is None or SIGN not in text:
            return self._call_unmarked(operation, request, credential, on_warning)
        marked, mark = self._with_opener(credential), read_mark(text)
        try:
            try:
                answer = self._target.call(operation, request, marked, on_warning)
            except SessionUnknown:
                # The hook that reports a new session or sub-agent has failed, or was installed after it began.
                self._add_agents(mark, msgspec.structs.replace(marked, speak_as=None))
                answer = self._target.call(operation, request, marked, on_warning)
        except (MarkInvalid, SessionUnknown):
            # Work is not stopped by a hook's fault; the call is the lead's.
            unmarked = msgspec.structs.replace(credential, speak_as=mark.name or None)
            return self._call_unmarked(operation, request, unmarked, on_warning)
        self._place = mark.place
        return answer

    def _with_opener(self, credential: Credential) -> Credential:
        if self._opener is None:
            return credential
        return msgspec.structs.replace(
            credential, token=self._opener.token, local_admin=self._opener.local_admin, run=self._opener.run
        )

    def _call_unmarked(
        self, operation: Operation[Any, Any], request: Any, credential: Credential, on_warning: OnWarning | None
    ) -> Any:
        if self._opener is not None:
            credential = msgspec.structs.replace(credential, session=self._place)
        return self._unmarked.call(operation, request, credential, on_warning)

    def _add_agents(self, mark: Mark, opener: Credential) -> None:
        """Add the agents that a mark names. Only a mark that the gateway has checked gets here."""
        lead: str | None = None
        if mark.place:
            is_person = opener.local_admin or (opener.token is not None and is_persons_token(opener.token))
            if not is_person or mark.place == opener.run:
                raise SessionUnknown(field="as")
            add_lead = OPERATIONS["add_lead"]
            added = self._target.call(
                add_lead, add_lead.request(goal="Session of a coding agent", session=mark.place), opener
            )
            lead = f"{added.run_id}/{added.agent_id}"
        if mark.client_id:
            add_agent = OPERATIONS["add_agent"]
            self._target.call(add_agent, add_agent.request(client_id=mark.client_id, parent=lead), opener)
