"""The client class: one `Bus`, over a project opened in this process or a gateway at a URL."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from engrambus.core.strict_json import MAX_DEPTH
from engrambus.edges.sdk.methods import Methods
from engrambus.errors import ClaimConfirmed, ClaimNear, EngramBusError, TooDeep
from engrambus.gateway import Credential, OnWarning, Operation, to_request, warning_line
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings

if TYPE_CHECKING:
    from engrambus.space.tuples.primitive_hooks import PrimitiveHook

Request = TypeVar("Request", bound=msgspec.Struct)
Response = TypeVar("Response", bound=msgspec.Struct)

_USER_CODE = 4
"""Frames from `Bus.call` up to the code that called a method of the bus, which a warning names."""


class Transport(Protocol):
    """Carries calls to a gateway. A gateway opened in this process is one itself. Safe to use from several threads."""

    def call(
        self,
        operation: Operation[Request, Response],
        request: Request,
        credential: Credential,
        on_warning: OnWarning | None = None,
        /,
    ) -> Response:
        """Return the answer; raise the same error and give the same warnings over every transport."""
        ...

    def close(self) -> None: ...


class LimitWarning(UserWarning):
    """A limit was exceeded that the project's policy does not enforce for the caller."""

    def __init__(self, error: EngramBusError) -> None:
        super().__init__(warning_line(error))
        self.error = error
        """The refusal that the call would have got if the limit were enforced."""


class Bus(Methods):
    """Every operation as a method, the same in process and remote.

    Safe to share between threads. A refusal is raised as an `EngramBusError` with a stable `code`. An exceeded limit
    that the policy does not enforce becomes a `LimitWarning`, or is passed to `on_warning`.
    """

    def __init__(
        self,
        transport: Transport,
        credential: Credential,
        *,
        owns_transport: bool = True,
        on_warning: OnWarning | None = None,
        worktree: Path | None = None,
    ) -> None:
        """`worktree` is the checkout the caller works in: `path:10-20` means the commit that is checked out there.

        The state of evidence is that of the files there.
        """
        self._worktree = worktree
        self._transport = transport
        self._credential = credential
        self._owns_transport = owns_transport
        self._on_warning = on_warning

    @classmethod
    def open(
        cls,
        path: Path | str = ".",
        *,
        token: str | None = None,
        run: str | None = None,
        as_: str | None = None,
        settings: Settings | None = None,
        progress: Callable[[int, int], None] | None = None,
        on_warning: OnWarning | None = None,
        hooks: Sequence[PrimitiveHook] = (),
    ) -> Bus:
        """Open the project a folder belongs to, in this process, or the server that the repository is logged in to.

        With a token the caller is the agent it was issued to; without one, the admin of this machine, in the current
        run or in `run`. `as_` names a descendant to act for. `progress` is called with the bytes done and the total
        when the index must be built. `hooks` are asked before the primitives of work, and told the outcome.
        """
        from engrambus.app import open_project
        from engrambus.edges.sdk.logins import open_server, with_login
        from engrambus.evidence.pointers import find_worktree

        settings = settings or Settings.from_environment()
        # ENGRAMBUS_URL is for commands; a program that connects by an address says so with `connect`.
        server = with_login(settings, Path(path)) if settings.url is None else settings
        if server.login is not None:
            top = find_worktree(Path(path))
            return cls(
                open_server(server, top),
                Credential(token=token or server.token, run=run, speak_as=as_),
                on_warning=on_warning,
                worktree=top,
            )
        gateway = open_project(Path(path), settings, progress=progress, hooks=hooks)
        credential = Credential(token=token, local_admin=token is None, any_file=token is None, run=run, speak_as=as_)
        return cls(gateway, credential, on_warning=on_warning, worktree=find_worktree(Path(path)))

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        token: str | None = None,
        as_: str | None = None,
        timeout_seconds: float = 60.0,
        on_warning: OnWarning | None = None,
        worktree: Path | None = None,
        ca_file: Path | None = None,
    ) -> Bus:
        """Connect to a gateway as the agent the token was issued to; `as_` names a descendant to act for.

        `worktree` is the checkout the caller works in: `path:10-20` then means the commit that is checked out there,
        and not the one of the gateway's folder. `ca_file` has the certificates that the server's is checked against.
        """
        from engrambus.edges.sdk.http_transport import HttpTransport

        transport = HttpTransport(url, timeout_seconds=timeout_seconds, ca_file=ca_file)
        return cls(transport, Credential(token=token, speak_as=as_), on_warning=on_warning, worktree=worktree)

    def speak_as(self, name: str) -> Bus:
        """Return a bus that acts for a descendant; closing it leaves this one open."""
        credential = msgspec.structs.replace(self._credential, speak_as=name)
        return Bus(
            self._transport, credential, owns_transport=False, on_warning=self._on_warning, worktree=self._worktree
        )

    def call(
        self, operation: Operation[Request, Response], request: Request, *, idempotency_key: str | None = None
    ) -> Response:
        """Call an operation with a request that is already validated."""
        credential = self._credential
        if idempotency_key is not None:
            credential = msgspec.structs.replace(credential, idempotency_key=idempotency_key)
        if self._worktree is not None:
            from engrambus.evidence.pointers import worktree_head

            head = worktree_head(self._worktree)
            credential = msgspec.structs.replace(credential, head=head, worktree=str(self._worktree))
        warned: list[EngramBusError] = []
        answer = self._transport.call(operation, request, credential, warned.append)
        for error in warned:
            if self._on_warning is not None:
                self._on_warning(error)
            elif not isinstance(error, ClaimConfirmed | ClaimNear):  # told only to who asks: neither is a problem
                warnings.warn(LimitWarning(error), stacklevel=_USER_CODE)
        return answer

    def close(self) -> None:
        # A bus made by `speak_as` shares the connection of the bus it came from.
        if self._owns_transport:
            self._transport.close()

    def __enter__(self) -> Bus:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, name: str, fields: dict[str, Any], idempotency_key: str | None = None) -> Any:
        operation = OPERATIONS[name]
        # UNSET marks an argument that was not given; None is a value of its own on the wire.
        values = {field: value for field, value in fields.items() if value is not msgspec.UNSET}
        try:
            request = to_request(msgspec.to_builtins(values), operation.request)
        except RecursionError:
            raise TooDeep(limit=MAX_DEPTH) from None
        return self.call(operation, request, idempotency_key=idempotency_key)
