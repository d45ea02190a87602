"""How a call gets to a gateway: in this process, or over HTTP."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from stigmergy.operations import Credential, Gateway, Operation


class Way(Protocol):
    """Takes calls to a gateway and brings back answers or refusals. Safe under threads."""

    def call(
        self,
        operation: Operation[Any, Any],
        request: msgspec.Struct,
        *,
        speak_as: str | None,
        idempotency_key: str | None,
    ) -> Any:
        """The answer; a refusal is raised, the same on every way."""
        ...

    def close(self) -> None:
        """Let go of everything held."""
        ...


class InProcess:
    """Calls a gateway that this process has opened."""

    def __init__(self, gateway: Gateway, credential: Credential) -> None:
        self._gateway = gateway
        self._credential = credential

    def call(
        self,
        operation: Operation[Any, Any],
        request: msgspec.Struct,
        *,
        speak_as: str | None,
        idempotency_key: str | None,
    ) -> Any:
        """The gateway's answer."""
        credential = msgspec.structs.replace(self._credential, speak_as=speak_as, idempotency_key=idempotency_key)
        return self._gateway.call(operation, request, credential)

    def close(self) -> None:
        """Close the project."""
        self._gateway.store.close()
        self._gateway.workplace.repositories.close()
