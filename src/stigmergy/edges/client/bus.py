"""The bus as a program sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import msgspec

from stigmergy.edges.client.methods import Methods
from stigmergy.edges.client.ways import InProcess, Way
from stigmergy.operations import OPERATIONS, Credential, Operation, to_request
from stigmergy.settings import Settings

T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
Response = TypeVar("Response", bound=msgspec.Struct)


class Bus(Methods):
    """Every operation as a method: the same ones whether the project is opened here or served elsewhere.

    Safe to share between threads. Refusals are raised as `StigmergyError`s with a stable `code`.
    """

    def __init__(self, way: Way, *, speaks_as: str | None = None, owns_way: bool = True) -> None:
        self._way = way
        self._speaks_as = speaks_as
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
        from stigmergy.app import open_project

        gateway = open_project(Path(path), settings or Settings.from_environment(), progress=progress)
        credential = Credential(token=token, local_admin=token is None, run=run)
        return cls(InProcess(gateway, credential), speaks_as=as_)

    @classmethod
    def connect(cls, url: str, token: str | None = None, *, as_: str | None = None, timeout: float = 60.0) -> Bus:
        """A gateway served at a URL, for the bearer of a token."""
        from stigmergy.edges.client.remote import Remote

        return cls(Remote(url, token, timeout=timeout), speaks_as=as_)

    def speak_as(self, name: str) -> Bus:
        """The same bus in the name of a descendant; closing it leaves this one open."""
        return Bus(self._way, speaks_as=name, owns_way=False)

    def call(
        self, operation: Operation[Request, Response], request: Request, *, idempotency_key: str | None = None
    ) -> Response:
        """Carry out an operation with a request that has been checked."""
        answer = self._way.call(operation, request, speak_as=self._speaks_as, idempotency_key=idempotency_key)
        return cast(Response, answer)

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

    def _do(self, name: str, answer: type[T], fields: dict[str, Any], idempotency_key: str | None = None) -> T:
        operation = OPERATIONS[name]
        given = {field: value for field, value in fields.items() if value is not msgspec.UNSET}
        request = to_request(msgspec.to_builtins(given), operation.request)
        return cast(T, self.call(operation, request, idempotency_key=idempotency_key))
