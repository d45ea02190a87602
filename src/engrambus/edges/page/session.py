"""A visitor's session on the page: the address being viewed, and calls to the gateway in the visitor's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from engrambus.errors import RunNotFound
from engrambus.gateway import Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.operations.runs import RunRow

MAX_PARAMS = 100


class Address(msgspec.Struct, frozen=True):
    """A path of the page and its parameters. A view depends on nothing else, so every view is a permalink."""

    path: str = "/"
    params: dict[str, str] = {}

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse the address of a view; return the start page for any other text."""
        # A form sends the address to go back to, so a foreign one must not become a redirect.
        path, _, query = text.partition("?")
        panel = path.removeprefix("/page/")
        if path != "/" and not (path != panel and panel.isascii() and panel.isalpha()):
            return cls()
        return cls(path, dict(parse_qsl(query, max_num_fields=MAX_PARAMS)))

    def __str__(self) -> str:
        return self.path + ("?" + urlencode(self.params) if self.params else "")

    def link(self, path: str | None = None, /, **changes: Any) -> str:
        """Return a link to this view with some parameters changed; None removes one.

        A link to another path keeps only the chosen run.
        """
        if path is None:
            return str(Address(self.path, _merged(self.params, changes)))
        run = {name: value for name, value in self.params.items() if name == "run"}
        return str(Address(path, _merged(run, changes)))


def _merged(params: Mapping[str, str], changes: Mapping[str, Any]) -> dict[str, str]:
    # `for` is a parameter of the page and a keyword of Python: templates write `for_`.
    changed = {name.rstrip("_"): value for name, value in changes.items()}
    unchanged = {name: value for name, value in params.items() if name not in changed}
    return unchanged | {name: str(value) for name, value in changed.items() if value is not None}


class PageSession:
    """A visitor's access to the gateway. Everything on the page comes from an operation called here."""

    def __init__(self, gateway: Gateway, credential: Credential, run_id: str | None = None) -> None:
        """Start a session in the run with this id, or in the one where the team worked last."""
        self._gateway = gateway
        self._credential = credential
        self.runs: list[RunRow] = self.call("list_runs").runs
        self.run = _find_run(self.runs, run_id)
        self._chosen_run_credential = msgspec.structs.replace(credential, run=run_id)
        # decision 16: an admin is in every run, so a page without `run=` moves on to each new run.
        self._credential = msgspec.structs.replace(credential, run=self.run.run_id)

    def call(self, operation: str, /, **fields: Any) -> Any:
        """Return an operation's answer. Fields may be text, as forms send them; None leaves a field out."""
        return self._call(self._credential, operation, fields)

    def call_over_runs(self, operation: str, /, **fields: Any) -> Any:
        """Return an operation's answer over all runs, or over one run if the address names it."""
        return self._call(self._chosen_run_credential, operation, fields)

    def _call(self, credential: Credential, operation: str, fields: dict[str, Any]) -> Any:
        declared = OPERATIONS[operation]
        values = {name: value for name, value in fields.items() if value is not None}
        return self._gateway.call(declared, to_request(values, declared.request, lax=True), credential)


def _find_run(runs: list[RunRow], run_id: str | None) -> RunRow:
    for run in runs:
        if run.run_id == run_id if run_id else run.shown:
            return run
    raise RunNotFound(field="run")
