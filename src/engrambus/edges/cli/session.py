"""What every command has at hand: the options given everywhere, the bus, and where answers and refusals go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.screen import json_line, safe, safe_line

if TYPE_CHECKING:
    from engrambus.edges.sdk import Bus, Transport
    from engrambus.errors import EngramBusError
    from engrambus.gateway import Credential, Operation
    from engrambus.settings import Settings

EVERYWHERE = ("json", "speak_as", "in_run", "project")


def everywhere() -> list[click.Parameter]:
    """The options every command takes."""
    return [
        click.Option(["--json", "json"], is_flag=True, help="Print the answer as one line of JSON."),
        click.Option(["--as", "speak_as"], metavar="NAME", help="Speak as this descendant of yours."),
        click.Option(
            ["--run", "in_run"],
            metavar="RUN",
            help="Act in this run; the current one unless said. Lists of work keep to it.",
        ),
        click.Option(
            ["--project", "project"],
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            default=Path(),
            help="Work from this folder; the current one unless said.",
        ),
    ]


class Session:
    """One command being carried out."""

    def __init__(self, *, json: bool, speak_as: str | None, in_run: str | None, project: Path) -> None:
        self.json = json
        self.folder = project.resolve()
        self._speak_as = speak_as
        self._run = in_run
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """What the environment says."""
        if self._settings is None:
            from engrambus.settings import Settings

            self._settings = Settings.from_environment()
        return self._settings

    @property
    def remote(self) -> bool:
        """Whether calls go to a gateway elsewhere."""
        return self.settings.url is not None

    def credential(self) -> Credential:
        """Whom to act as: the token's bearer, or the admin of this machine's files."""
        from engrambus.gateway import Credential

        token = self.settings.token
        by_token = token is not None or self.remote
        if self._run is not None and by_token:
            raise click.UsageError("--run is for the admin at the machine; a token names its own run.")
        if token is None and self.remote:
            from engrambus.errors import TokenMissing

            raise TokenMissing(
                "ENGRAMBUS_URL is set and ENGRAMBUS_TOKEN is not.", hint="`engrambus agent token NAME` prints a token."
            )
        return Credential(
            token=token,
            local_admin=not by_token,
            any_file=not by_token,
            run=self._run or self.settings.run,
            speak_as=self._speak_as,
        )

    def way(self, working: str = "Building the index") -> Transport:
        """The gateway at ENGRAMBUS_URL, or that of the project's files. A long opening shows how it goes."""
        if self.settings.url is not None:
            from engrambus.edges.sdk.http_transport import HttpTransport

            return HttpTransport(self.settings.url)
        from engrambus.app import open_project
        from engrambus.edges.cli.progress import Bytes

        return open_project(self.folder, self.settings, progress=Bytes(working))

    def bus(self, working: str = "Building the index") -> Bus:
        """The bus to speak on."""
        from engrambus.edges.sdk import Bus

        credential = self.credential()
        return Bus(self.way(working), credential)

    def call(self, operation: Operation[Any, Any], values: dict[str, Any], working: str = "Building the index") -> Any:
        """Call an operation with the given values and return its answer."""
        from engrambus.gateway import to_request

        request = to_request(values, operation.request)
        with self.bus(working) as bus:
            return bus.call(operation, request)

    def print_answer(self, operation: Operation[Any, Any], answer: Any) -> None:
        """Print an operation's answer with the renderer it declares."""
        from engrambus.edges.cli.show import renderer

        self.answer(answer, renderer(operation))

    def call_and_print(self, operation: Operation[Any, Any], values: dict[str, Any]) -> None:
        """Call an operation with the given values and print its answer."""
        self.print_answer(operation, self.call(operation, values))

    def answer(self, answer: Any, show: Callable[[Any], Iterable[str]]) -> None:
        """Print an answer: as JSON for programs, in lines for people."""
        if self.json:
            import msgspec

            click.echo(json_line(msgspec.json.encode(answer)))
            return
        for line in show(answer):
            click.echo(line)

    def say(self, line: str) -> None:
        """Tell people something beside the answer."""
        click.echo(line, err=True)

    def warn(self, text: str) -> None:
        """Tell people about something they may not have meant."""
        self.say(click.style("warning: ", fg="yellow", bold=True) + safe(text))

    def refuse(self, refusal: EngramBusError) -> None:
        """Print a refusal: what, where, and what to do next."""
        if self.json:
            import msgspec

            self.say(json_line(msgspec.json.encode(refusal.problem())))
            return
        self.say(click.style(f"error {refusal.code}: ", fg="red", bold=True) + safe(refusal.detail))
        facts = [
            f"{name}: {safe(str(value))}"
            for name in ("field", "line", "limit", "used")
            if (value := getattr(refusal, name)) is not None
        ]
        if facts:
            self.say("  " + "   ".join(facts))
        if refusal.hint:
            self.say(click.style("  " + safe(refusal.hint), fg="cyan"))
        resend = getattr(refusal, "resend", None)
        if resend:
            self.say("  This could be sent instead, once what stands as ... is filled in:")
            for line in resend.splitlines():
                self.say("    " + safe_line(line))
