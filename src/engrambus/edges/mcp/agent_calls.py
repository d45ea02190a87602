"""The agent that calls over standard input and output: one that was named, or a lead made for the process.

decision 43: no agent is the admin by leaving something out. A process without a token calls as a lead of its own, added
with the first call that needs it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.core import is_ulid
from engrambus.errors import BadText, Refusal, TokenExpired
from engrambus.operations import OPERATIONS

if TYPE_CHECKING:
    from engrambus.edges.mcp.calls import CallTarget
    from engrambus.gateway import Credential, OnWarning, Operation
    from engrambus.policy import LeadRole

MAX_GOAL_CHARS = 200


class LeadTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What the lead of a process gets."""

    folder: str
    """Name of the folder that the process serves, for the goal of its run."""
    role: LeadRole | None = None
    """Its role; None for the policy's `lead_role`."""
    session_turns: int = 1
    """How many turns' worth it may read in one turn."""


class AgentCalls:
    """A call target that acts as one agent, with a token of that agent's own."""

    # decision 15: the opener's credential is used only to get the token. If calls used it, the argument `as` could name
    # any of the opener's descendants instead of only the agent's.

    def __init__(self, target: CallTarget, opener: Credential, agent: str | LeadTerms) -> None:
        """`agent` is the name of an agent, or the terms of a lead to add when it is first needed."""
        self._target = target
        self._opener = opener
        self._agent = agent
        self._name = agent if isinstance(agent, str) else None
        self._session: str | None = None
        self._token: str | None = None
        self._signing_in = threading.Lock()

    def call(
        self,
        operation: Operation[Any, Any],
        request: Any,
        credential: Credential,
        on_warning: OnWarning | None = None,
        /,
    ) -> Any:
        """Run an operation for the agent, or for its descendant that the credential names.

        After marked calls for a client session, a process that acts as a lead acts as the lead of that session.
        """
        session = credential.session
        # None of the opener's rights: not its run, and not the files of its account.
        agent = msgspec.structs.replace(
            credential, token=self._token_for(session), local_admin=False, any_file=False, run=None
        )
        try:
            return self._target.call(operation, request, agent, on_warning)
        except TokenExpired:
            agent = msgspec.structs.replace(agent, token=self._token_for(session, expired=agent.token))
            return self._target.call(operation, request, agent, on_warning)

    def _token_for(self, session: str | None, *, expired: str | None = None) -> str:
        """Return the agent's token, another one than the one that has expired."""
        # Calls come in several threads; the first of them adds the lead.
        with self._signing_in:
            # The id of a run that was chosen names no session: the lead has joined that run.
            if isinstance(self._agent, LeadTerms) and session and session != self._session and not is_ulid(session):
                self._session, self._name, self._token = session, None, None
            if self._token in (None, expired):
                self._token = self._sign_in()
            return self._token

    def _sign_in(self) -> str:
        if self._name is None and isinstance(self._agent, LeadTerms):
            agent = self._add_lead(self._agent)
            self._name = f"{agent.run_id}/{agent.agent_id}"
        else:
            agent = self._call_as_opener("agent_token", name=self._name)
        token: str = agent.token
        return token

    def _add_lead(self, terms: LeadTerms) -> Any:
        fields = {"session": self._session, "role": terms.role, "session_turns": terms.session_turns}
        try:
            return self._call_as_opener("add_lead", goal=f"MCP session in {terms.folder}"[:MAX_GOAL_CHARS], **fields)
        except Refusal as refusal:
            # A folder may be called like a secret or like code; its session works all the same.
            if refusal.field != "goal" and not isinstance(refusal, BadText):
                raise
            return self._call_as_opener("add_lead", goal="MCP session", **fields)

    def _call_as_opener(self, operation_name: str, /, **fields: Any) -> Any:
        operation = OPERATIONS[operation_name]
        return self._target.call(operation, operation.request(**fields), self._opener)
