"""The bus as a program sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

import msgspec

from engrambus.core.strict_json import MAX_DEPTH
from engrambus.edges.sdk.methods import Methods
from engrambus.errors import TooDeep
from engrambus.gateway import Credential, Operation, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings

Request = TypeVar("Request", bound=msgspec.Struct)
Response = TypeVar("Response", bound=msgspec.Struct)


class Way(Protocol):
    """Takes calls to a gateway, and is one when the project is open in this process. Safe under threads."""

    def call(self, operation: Operation[Request, Response], request: Request, credential: Credential, /) -> Response:
        """The answer; a refusal is raised, the same on every way."""
        ...

    def close(self) -> None:
        """Let go of everything held."""
        ...


class Bus(Methods):
    """Every operation as a method: the same ones whether the project is opened here or served elsewhere.

    Safe to share between threads. Refusals are raised as `EngramBusError`s with a stable `code`.
    """

    def __init__(self, way: Way, credential: Credential, *, owns_way: bool = True) -> None:
        self._way = way
        self._credential = credential
        self._owns_way = owns_way

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
    ) -> Bus:
        """The project a folder belongs to, in this process.

        With a token you are its bearer. Without one you are the admin at the machine, in the current run or in `run`.
        `as_` names a descendant to speak as; `progress` is told bytes done and in all when the index must be built.
        """
        from engrambus.app import open_project

        gateway = open_project(Path(path), settings or Settings.from_environment(), progress=progress)
        return cls(
            gateway, Credential(token=token, local_admin=token is None, any_file=token is None, run=run, speak_as=as_)
        )

    @classmethod
    def connect(cls, url: str, token: str | None = None, *, as_: str | None = None, timeout: float = 60.0) -> Bus:
        """A gateway served at a URL, for the bearer of a token."""
        from engrambus.edges.sdk.remote import Remote

        return cls(Remote(url, timeout=timeout), Credential(token=token, speak_as=as_))

    def speak_as(self, name: str) -> Bus:
        """The same bus in the name of a descendant; closing it leaves this one open."""
        return Bus(self._way, msgspec.structs.replace(self._credential, speak_as=name), owns_way=False)

    def call(
        self, operation: Operation[Request, Response], request: Request, *, idempotency_key: str | None = None
    ) -> Response:
        """Carry out an operation with a request that has been checked."""
        credential = self._credential
        if idempotency_key is not None:
            credential = msgspec.structs.replace(credential, idempotency_key=idempotency_key)
        return self._way.call(operation, request, credential)

    def close(self) -> None:
        """Let go of files and connections."""
        if self._owns_way:
            self._way.close()

    def __enter__(self) -> Bus:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, name: str, fields: dict[str, Any], idempotency_key: str | None = None) -> Any:
        operation = OPERATIONS[name]
        given = {field: value for field, value in fields.items() if value is not msgspec.UNSET}
        try:
            request = to_request(msgspec.to_builtins(given), operation.request)
        except RecursionError:
            raise TooDeep(limit=MAX_DEPTH) from None
        return self.call(operation, request, idempotency_key=idempotency_key)
