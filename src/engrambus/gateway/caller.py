"""Credentials, and the caller a credential stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.core import is_ulid, only_beginning
from engrambus.errors import (
    FieldValue,
    MarkInvalid,
    MarkMissing,
    NotYourDescendant,
    RunNotFound,
    SessionUnknown,
    TokenInvalid,
    TokenMissing,
)
from engrambus.policy import (
    ADMIN,
    PEOPLE,
    Agent,
    Caller,
    MarkKey,
    Run,
    check_alive,
    check_descends,
    check_token,
    find_agent,
    is_role,
)
from engrambus.policy.marks import SIGN

if TYPE_CHECKING:
    from engrambus.gateway.declare import Operation, Request
    from engrambus.gateway.ports import View
    from engrambus.policy import Mark, TokenKey

HEAD_HEADER = "Engrambus-Head"
"""The header that tells a gateway the commit checked out where the caller works."""
WORKTREE_HEADER = "Engrambus-Worktree"
"""The header that tells a gateway on the same machine the top folder of the caller's checkout, percent-encoded."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """The identity an edge has received, not yet checked."""

    token: str | None = None
    """A bearer token, when one was sent."""
    local_admin: bool = False
    """True if the call comes from the account that owns the project's files, without a token."""
    speak_as: str | None = None
    """The descendant in whose name to act: `<name>`, `<run>/<name>`, or a value that a client's hook has marked."""
    from_model: bool = False
    """True if a model asked for the call, through MCP."""
    session: str | None = None
    """The place of the client session whose marked calls came through the same process."""
    any_file: bool = False
    """True if the caller may name any file of this account: a person at the machine, never a server for others."""
    run: str | None = None
    """The run an admin chose; every other token names its own."""
    head: str | None = None
    """The commit checked out where the caller works, at which `path:10-20` points; None for the project's folder."""
    worktree: str | None = None
    """The top folder of the checkout that the caller works in; it counts only if it is one of this repository."""
    idempotency_key: str | None = None
    """A write repeated under the same key returns the first answer instead of being done again."""
    trace: str | None = None
    """The caller's span as a W3C `traceparent`; nothing is decided by it."""


MAX_SEARCHED_RUNS = 1000
"""Newest runs, of people and of sessions, that are searched for the beginning of an id."""
LOCAL_ADMIN = Credential(local_admin=True)


def identify(view: View, credential: Credential, *, project: str, key: TokenKey) -> Caller:
    """Return the caller a credential stands for; refuse a token that is expired, foreign or replaced."""
    if credential.token is not None:
        caller = _bearer(view, credential.token, credential.run, project=project, key=key)
    elif credential.local_admin:
        caller = Caller(project=project, run=_chosen_run(view, credential.run), name=ADMIN, role=ADMIN)
    else:
        raise TokenMissing(hint="Send 'Authorization: Bearer <token>'; `engrambus agent token NAME` prints one.")
    name = credential.speak_as
    if name is not None and SIGN in name:
        mark = _check_mark(view, credential, name, key)
        caller, name = _marked_agent(view, caller, mark), mark.name or None
    if name is None or name in (caller.name, caller.full_name):
        return caller
    agent = find_agent(view, caller, name)
    check_alive(view, agent.run, agent.name, "as")
    run = _in_run_of(view, caller, agent).run
    # `spoken_by` tells an orchestrator that acts for an agent from the agent itself.
    return msgspec.structs.replace(
        caller, run=run, name=agent.name, role=agent.role, spoken_by=caller.full_name, token=caller.token
    )


def _check_mark(view: View, credential: Credential, text: str, key: TokenKey) -> Mark:
    """Return the mark of a hook; refuse one that was not made for this project or this token, or has expired."""
    keys = [key.mark_key] if credential.token is None else [MarkKey.of_token(credential.token), key.mark_key]
    for mark_key in keys:
        mark = mark_key.check(text, view.expiry_us)
        if mark is not None:
            return mark
    raise MarkInvalid(
        field="as", hint="Call again: the client's hook makes another mark. Where no hook does, leave `as` out."
    )


def _marked_agent(view: View, speaker: Caller, mark: Mark) -> Caller:
    """Return the agent that a hook has named: of any session for the project's own process, else a descendant."""
    if not mark.place and speaker.role == ADMIN:
        # A mark without a place is made with a token. No mark makes anybody the admin.
        raise MarkInvalid(field="as")
    if not mark.place and not mark.client_id:
        return speaker
    if not mark.place:
        run: Run | None = speaker.run
    else:
        run = view.run(mark.place) if is_ulid(mark.place) else view.run_of_session(mark.place)
    agent = view.agent_of_client(run.run_id, mark.client_id or mark.place) if run is not None else None
    if run is None or agent is None:
        raise SessionUnknown(field="as", hint="`lead.add` and `agent.add` with `client_id` add a session's agents.")
    if speaker.role != ADMIN:
        if agent.run != speaker.run.run_id:
            raise NotYourDescendant(f"'{agent.name}' is not a descendant of '{speaker.name}'.", field="as")
        check_descends(view, speaker, agent.name)
    check_alive(view, agent.run, agent.name, "as")
    return Caller(project=speaker.project, run=run, name=agent.name, role=agent.role, token=speaker.token)


def check_marked(view: View, caller: Caller, credential: Credential) -> None:
    """Refuse a call that asks for permission if no hook has marked it and a sub-agent might have made it.

    decision 44: without a mark, a call of a sub-agent looks like one of the main agent.
    """
    if not credential.from_model or (credential.speak_as is not None and SIGN in credential.speak_as):
        return
    place = credential.session
    run = (view.run(place) if is_ulid(place) else view.run_of_session(place)) if place else None
    runs = {caller.run.run_id, run.run_id} if run is not None else {caller.run.run_id}
    if any(agent.client_id and agent.parent for run_id in runs for agent in view.agents(run_id)):
        raise MarkMissing(
            field="as",
            hint="The client's hook did not say which agent of this session calls. A person can do it: on the page, or "
            "with the same command of `engrambus`.",
        )


def _in_run_of(view: View, caller: Caller, agent: Agent) -> Caller:
    """Return the caller in the run of an agent it has named: an admin is in every run."""
    if agent.run == caller.run.run_id:
        return caller
    run = view.run(agent.run)
    if run is None:
        raise RunNotFound
    return msgspec.structs.replace(caller, run=run)


def resolve_agents(
    view: View, caller: Caller, operation: Operation[Request, Any], request: Request
) -> tuple[Caller, Request]:
    """Return the request with bare names in the fields that name agents, and the caller in the run of these agents.

    An admin may name agents of any run, but in one request of one run only. A role stays as it is.
    """
    for field in operation.agent_fields:
        given = getattr(request, field)
        if not given:
            continue
        names = [given] if isinstance(given, str) else given
        agents: list[str] = []
        for name in names:
            if field in operation.role_fields and is_role(view, caller, name):
                agents.append(name)
                continue
            agent = find_agent(view, caller, name, field)
            if agents and agent.run != caller.run.run_id:
                raise FieldValue("One call names agents of one run only.", field=field, used=name)
            caller = _in_run_of(view, caller, agent)
            agents.append(agent.name)
        resolved = agents[0] if isinstance(given, str) else type(given)(agents)
        request = msgspec.structs.replace(request, **{field: resolved})
    return caller, request


def _bearer(view: View, token: str, chosen: str | None, *, project: str, key: TokenKey) -> Caller:
    claims = key.check(token, project=project, now_us=view.expiry_us)
    run = view.run(claims.run)
    if run is not None and run.session == PEOPLE:
        # decision 120: a person works in the current run, whichever it is, under the own name
        check_token(view, claims, view.policy().token_lifetime.ceiling_us)
        return Caller(
            project=claims.project,
            run=_chosen_run(view, chosen),
            name=claims.agent,
            role=ADMIN,
            token=claims,
            is_member=claims.role != ADMIN,
        )
    if chosen is not None and claims.role == ADMIN:  # an agent's token is good for its own run only
        run = _chosen_run(view, chosen)
    if run is None:
        raise TokenInvalid
    if claims.role != ADMIN:
        check_token(view, claims, view.policy().token_lifetime.ceiling_us)
    return Caller(project=claims.project, run=run, name=claims.agent, role=claims.role, token=claims)


def _chosen_run(view: View, run_id: str | None) -> Run:
    run = view.current_run() if run_id is None else begun_run(view, run_id)
    if run is None or run.session == PEOPLE:
        raise RunNotFound(field="run", hint="Open one: engrambus run new GOAL.")
    return run


def begun_run(view: View, run_id: str) -> Run | None:
    """Return the run of that id, or the only one of the newest runs whose id begins so; for an admin, who sees all."""
    run = view.run(run_id) if is_ulid(run_id) else None
    if run is not None:
        return run
    newest = [*view.runs(limit=MAX_SEARCHED_RUNS), *view.runs(limit=MAX_SEARCHED_RUNS, of_sessions=True)]
    full_id = only_beginning(run_id, (item.run_id for item in newest), "run")
    return view.run(full_id) if full_id is not None else None
