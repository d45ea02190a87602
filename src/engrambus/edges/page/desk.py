"""Asking the gateway in the name of whoever has the page open."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.errors import RunNotFound
from engrambus.gateway import Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.operations.people import RunRow


class Desk:
    """One visit to the page: every figure and every word on it comes from an operation asked here."""

    def __init__(self, gateway: Gateway, credential: Credential, run: str | None = None) -> None:
        """Without a run, the one that is current: whoever watches sees a new one begin."""
        self._gateway = gateway
        self._credential = credential
        self.runs: list[RunRow] = self.ask("list_runs").runs
        self.run = _chosen(self.runs, run)
        self._over_runs = msgspec.structs.replace(credential, run=run)
        self._credential = msgspec.structs.replace(credential, run=self.run.run_id)

    @property
    def project(self) -> str:
        """The project's id."""
        return self._gateway.store.project

    def ask(self, operation: str, /, **fields: Any) -> Any:
        """An operation's answer; fields may be text, as a form sends them, and those that are None are left out."""
        return self._ask(self._credential, operation, fields)

    def ask_over_runs(self, operation: str, /, **fields: Any) -> Any:
        """The same of every run, unless the address names one."""
        return self._ask(self._over_runs, operation, fields)

    def _ask(self, credential: Credential, operation: str, fields: dict[str, Any]) -> Any:
        declared = OPERATIONS[operation]
        given = {name: value for name, value in fields.items() if value is not None}
        return self._gateway.call(declared, to_request(given, declared.request, lax=True), credential)


def _chosen(runs: list[RunRow], run_id: str | None) -> RunRow:
    for run in runs:
        if run.run_id == run_id if run_id else run.current:
            return run
    raise RunNotFound(field="run")
