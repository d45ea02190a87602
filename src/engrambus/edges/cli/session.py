"""A session: what one command works with. The shared options, the bus, and the printing of answers and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.screen import command_words, json_line, safe, safe_line

if TYPE_CHECKING:
    from engrambus.edges.sdk import Bus, Transport
    from engrambus.errors import EngramBusError
    from engrambus.evidence.pointers import PointerCompleter
    from engrambus.gateway import Credential, Operation
    from engrambus.settings import Settings

SHARED = ("json", "speak_as", "in_run", "project")
"""The names of the shared options, as parameters of `Session`."""
INDEXING = "Building the index"
"""The label of the progress bar while a project is opened."""
_FIELD = re.compile(r"(?P<name>\w+)(\[(?P<index>\d+)\])?(?P<inner>.*)")


def shared_options() -> list[click.Parameter]:
    """Return the options every command takes."""
    return [
        click.Option(["--json", "json"], is_flag=True, help="Print the answer as one line of JSON."),
        click.Option(
            ["--as", "speak_as"], metavar="NAME", help="Act as this agent: one you added, or one of its descendants."
        ),
        click.Option(
            ["--run", "--run-id", "in_run"],
            metavar="RUN",
            help="Use this run instead of the current one (see: engrambus run list).",
        ),
        click.Option(
            ["--project", "project"],
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            default=Path(),
            help="Work as if started in this folder.",
        ),
    ]


class Session:
    """One command while it runs."""

    def __init__(self, *, json: bool, speak_as: str | None, in_run: str | None, project: Path) -> None:
        self.json = json
        self.folder = project.resolve()
        self.option_names: dict[str, str] = {}
        """What the command line calls each request field, for errors and hints: `{"at": "--at"}`."""
        self._speak_as = speak_as
        self._run = in_run
        self._settings: Settings | None = None
        self._environment_settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the environment, with the login of the repository."""
        # Read when first needed: help needs none.
        if self._settings is None:
            from engrambus.edges.sdk.logins import with_login

            self._settings = with_login(self.environment_settings, self.folder)
        return self._settings

    @property
    def environment_settings(self) -> Settings:
        """The settings of the environment alone, for what happens on this machine whichever the login is."""
        if self._environment_settings is None:
            from engrambus.settings import Settings

            self._environment_settings = Settings.from_environment()
        return self._environment_settings

    @property
    def remote(self) -> bool:
        """True if calls go to a server instead of the project's files."""
        return self.settings.url is not None

    def credential(self) -> Credential:
        """Return the credential to act under: the token, or the admin of this machine's files."""
        from engrambus.gateway import Credential

        token = self.settings.token
        by_token = token is not None or self.remote
        if self._run is not None and by_token:
            raise click.UsageError("--run is for the admin at the machine; a token belongs to one run.")
        if token is None and self.remote:
            from engrambus.errors import TokenMissing

            raise TokenMissing(
                "ENGRAMBUS_URL is set and ENGRAMBUS_TOKEN is not.", hint="`engrambus agent token NAME` prints a token."
            )
        # Without a token the caller is the account that owns the files, which can read any of them anyway.
        return Credential(
            token=token,
            local_admin=not by_token,
            any_file=not by_token,
            run=self._run or self.settings.run,
            speak_as=self._speak_as,
        )

    @property
    def worktree(self) -> Path | None:
        """The checkout that the command was started in."""
        from engrambus.evidence.pointers import find_worktree

        return find_worktree(self.folder)

    def require_admin(self, option: str) -> None:
        """Refuse an option that only the person at the machine has: not with a token, a server or `--as`."""
        if self.settings.token is not None or self.remote or self._speak_as is not None:
            raise click.UsageError(
                f"{option} is for the admin at the machine, without ENGRAMBUS_TOKEN, ENGRAMBUS_URL and --as, and in no "
                "repository that is logged in to a server (engrambus logout)."
            )

    def transport(self, progress: str = INDEXING) -> Transport:
        """Open the server of the login or at ENGRAMBUS_URL, or the project's files.

        `progress` labels a bar if that takes long.
        """
        if self.settings.url is not None:
            from engrambus.edges.sdk.logins import open_server

            return open_server(self.settings, self.worktree)
        from engrambus.app import open_project
        from engrambus.edges.cli.progress import ProgressBar

        return open_project(self.folder, self.settings, progress=ProgressBar(progress))

    def bus(self, progress: str = INDEXING) -> Bus:
        """Open the bus under the session's credential."""
        from engrambus.edges.sdk import Bus

        credential = self.credential()  # first: a missing token should not cost the opening of a project
        return Bus(self.transport(progress), credential, on_warning=self.print_warning, worktree=self.worktree)

    def call(self, operation: Operation[Any, Any], values: dict[str, Any], progress: str = INDEXING) -> Any:
        """Call an operation with the given values and return its answer."""
        from engrambus.errors import EngramBusError
        from engrambus.gateway import complete_fields, to_request

        completer = self._completer(operation)
        if completer is not None:
            values = complete_fields(operation.request, values, completer)
        request = to_request(values, operation.request)  # first: a wrong value should not cost it either
        try:
            with self.bus(progress) as bus:
                return bus.call(operation, request)
        except EngramBusError as refusal:
            if completer is not None:
                completer.explain(refusal)
            raise

    def _completer(self, operation: Operation[Any, Any]) -> PointerCompleter | None:
        """Return what completes the pointers of a command; None if it takes none, or was not started in a checkout."""
        from engrambus.gateway import find_pointer_fields

        if not find_pointer_fields(operation.request) or self.worktree is None:
            return None
        from engrambus.edges.cli.inputs import completer_in

        return completer_in(self.folder, self.worktree)

    def call_and_print(self, operation: Operation[Any, Any], values: dict[str, Any]) -> None:
        """Call an operation with the given values and print its answer."""
        self.print_answer(operation, self.call(operation, values))

    def print_answer(self, operation: Operation[Any, Any], answer: Any) -> None:
        """Print an operation's answer with the renderer it declares."""
        from engrambus.edges.cli.show import renderer

        self.print(answer, renderer(operation))

    def print(self, answer: Any, render: Callable[[Any], Iterable[str]]) -> None:
        """Print an answer: as one line of JSON with `--json`, otherwise as lines for people."""
        if self.json:
            import msgspec

            click.echo(json_line(msgspec.json.encode(answer)))
            return
        for line in render(answer):
            click.echo(line)

    def note(self, line: str) -> None:
        """Print a line that is not part of the answer to stderr; with `--json` as an object with the member `note`."""
        if self.json:
            self._print_object({"note": click.unstyle(line)})
        else:
            click.echo(line, err=True)

    def warn(self, text: str) -> None:
        """Print a warning to stderr; with `--json` as an object with the member `warning`."""
        if self.json:
            self._print_object({"warning": text})
        else:
            self.note(click.style("warning: ", fg="yellow", bold=True) + safe(text))

    def _print_object(self, value: dict[str, Any]) -> None:
        import msgspec

        click.echo(json_line(msgspec.json.encode(value)), err=True)

    def print_warning(self, warning: EngramBusError) -> None:
        """Print an exceeded limit that the policy does not enforce, to stderr."""
        from engrambus.gateway import warning_line, warning_problem

        if self.json:
            self._print_object(warning_problem(warning))
        else:
            self.warn(command_words(warning_line(warning), self.option_names))

    def print_error(self, error: EngramBusError) -> None:
        """Print an error to stderr: what happened, where, and what to do next."""
        from engrambus.gateway import hide_secrets_in

        hide_secrets_in(error)
        if self.json:
            self._print_object(error.problem())
            return
        detail = safe(command_words(error.detail, self.option_names))
        self.note(click.style(f"error {error.code}: ", fg="red", bold=True) + detail)
        facts = {"field": self._option_of(error.field), "line": error.line, "limit": error.limit, "used": error.used}
        shown = [f"{name}: {safe(str(value))}" for name, value in facts.items() if value is not None]
        if shown:
            self.note("  " + "   ".join(shown))
        if error.hint:
            self.note(click.style("  " + safe(command_words(error.hint, self.option_names)), fg="cyan"))
        resend = getattr(error, "resend", None)
        if resend:
            self.note("  Replace each ... and send this instead:")
            for line in resend.splitlines():
                self.note("    " + safe_line(line))

    def _option_of(self, field: str | None) -> str | None:
        """Return a field as the command line calls it: `at[1]` is `--at (number 2)`."""
        match = _FIELD.fullmatch(field or "")
        option = self.option_names.get(match["name"]) if match else None
        if match is None or option is None:
            # An option may fill a nested field: --max-items is `budget.max_items`.
            return self.option_names.get((field or "").rpartition(".")[2], field)
        number = int(match["index"] or 0) + 1  # people count from 1
        return f"{option} (number {number})" if number > 1 else option
