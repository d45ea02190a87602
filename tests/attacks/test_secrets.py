"""Secrets: what a caller sends by mistake, or to plant it, is neither stored nor repeated, wherever it is."""  # SC-06

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
import pytest

from engrambus.edges.cli.json_log import log_to_stderr
from engrambus.edges.cli.table import COMMANDS
from engrambus.gateway import Operation
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from mcp import Client
from tests.cli.runner import Shell
from tests.http.running_server import RunningServer, run_new_project
from tests.limits.test_code_in_texts import REQUESTS, ULID
from tests.mcp.transports import talk_over, text_of
from tests.projects import Repository
from tests.secrets.kinds import FREE

GITHUB = FREE["github"](Random(16))
FINE_GRAINED = FREE["github-fine-grained"](Random(16))
PART_CHARS = 16
"""A piece of a secret as long as this counts as the secret."""


def parts_of(secret: str) -> set[str]:
    """Return every piece of a secret that may not be seen anywhere."""
    return {secret[index : index + PART_CHARS] for index in range(4, len(secret) - PART_CHARS + 1)}


def leaks(text: str | bytes, *secrets: str) -> bool:
    """True if a text has a piece of one of the secrets."""
    text = text if isinstance(text, str) else text.decode("latin-1")
    return any(part in text for secret in secrets for part in parts_of(secret))


def files_with(folder: Path, *secrets: str) -> list[str]:
    """Return the files of a folder that have a piece of one of the secrets."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and leaks(path.read_bytes(), *secrets)]


class LoggingServer(NamedTuple):
    """A server, and the log that it writes."""

    bus: RunningServer
    log: io.StringIO

    @property
    def catalog(self) -> Path:
        """The folder with the journals, the indexes and everything else that is stored."""
        return self.bus.repository.path / ".catalog"

    def check_clean(self, *secrets: str) -> None:
        """Fail if a secret is in a file of the project or in the log."""
        assert files_with(self.catalog, *secrets) == []
        assert not leaks(self.log.getvalue(), *secrets)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggingServer]:
    """A server that logs every call, event and error."""
    log = io.StringIO()
    with (
        run_new_project(tmp_path_factory.mktemp("secrets")) as bus,
        contextlib.redirect_stderr(log),
        log_to_stderr(bus.gateway),
    ):
        yield LoggingServer(bus, log)


def test_an_idempotency_key_that_is_a_secret_is_in_neither_journal(server: LoggingServer) -> None:
    """An agent sends a token as `Idempotency-Key` of a put and of a tuple: both are done once, the token is nowhere."""
    bus, headers = server.bus, {"Idempotency-Key": GITHUB}
    draft = {"claim": "The parser trusts its input.", "at": ["src/parser.py:10-20"]}
    task = {"lane": "notes", "payload": []}
    for path, body, other in (("/engram", draft, {"tags": ["x"]}), ("/tuple", task, {"priority": 1})):
        first = bus.call("POST", path, body, headers=headers)
        again = bus.call("POST", path, body, headers=headers)
        assert (first.status, again.status) == (200, 200), first.body
        assert first.json["id"] == again.json["id"]
        conflict = bus.call("POST", path, {**body, **other}, headers=headers)
        assert conflict.code == "IDEMPOTENCY_CONFLICT"
        assert not leaks(conflict.body, GITHUB)
    server.check_clean(GITHUB)


def test_the_name_of_an_unknown_field_is_not_repeated(server: LoggingServer) -> None:
    """An agent sends a secret as the name of a field or a parameter: the refusal says where, not what."""
    bus = server.bus
    for secret in (GITHUB, FINE_GRAINED):
        for answer in (
            bus.call("POST", "/engram", {"claim": "Alpha.", secret: 1}),
            bus.call("POST", "/engrams", {"engrams": [{"claim": "Alpha.", secret: 1}]}),
            bus.call("GET", f"/engram/query?{secret}=1"),
            bus.call("POST", "/policy", {"policy": {secret: 1}}),
            bus.call("POST", "/engram", b'{"%s": 1, "%s": 2}' % (secret.encode(), secret.encode())),
        ):
            assert 400 <= answer.status < 500, answer.body
            assert not leaks(answer.body, secret), answer.body
    server.check_clean(GITHUB, FINE_GRAINED)


def test_a_header_is_not_repeated(server: LoggingServer) -> None:
    """A client sends a secret as host, origin, method or content type."""
    bus = server.bus
    for secret in (GITHUB, FINE_GRAINED):
        for method, headers in (
            ("GET", {"Host": f"{secret}.example.com"}),
            ("GET", {"Origin": f"https://{secret}.example.com"}),
            ("POST", {"Content-Type": f"text/{secret}"}),
            ("POST", {"Idempotency-Key": secret * 9}),
            ("POST", {"Engrambus-Head": secret}),
            (secret, {}),
        ):
            answer = bus.call(method, "/run", b"{}" if method == "POST" else None, headers=headers)
            assert 400 <= answer.status < 500, answer.body
            assert not leaks(answer.body, secret), answer.body
            assert not any(leaks(value, secret) for value in answer.headers.values())
    server.check_clean(GITHUB, FINE_GRAINED)


def test_the_command_line_repeats_no_secret(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person types a secret where a name, an option, a pointer or a command is expected."""
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    shell.ok("init")
    for secret in (GITHUB, FINE_GRAINED):
        for words in (
            (secret,), ("put", "Alpha.", "--kind", secret), ("put", "Alpha.", f"--{secret}"), ("put", secret),
            ("deref", secret), ("query", "--scope", secret), ("agent", "add", "x", "--role", secret),
            ("forget", secret), ("put", "Alpha.", "--at", f"src/{secret}:1"), ("message", secret),
        ):  # fmt: skip
            for more in ((), ("--json",)):
                result = shell.run(*words, *more)
                assert result.code != 0, words
                assert not leaks(result.out + result.err, secret), (words, result)
    assert files_with(repository.path / ".catalog", GITHUB, FINE_GRAINED) == []


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_an_mcp_answer_repeats_no_secret(repository: Repository, settings: Settings, transport: str) -> None:
    """A model passes a secret as a tool's argument, as its name, or in the address of a resource."""

    async def talk(client: Client) -> None:
        for secret in (GITHUB, FINE_GRAINED):
            for name, arguments in (
                ("less_put_engram", {"claim": "Alpha.", secret: 1}),
                ("less_put_engram", {"claim": secret, "at": ["src/parser.py:1"]}),
                ("less_put_engram", {"claim": "Alpha.", "at": ["src/parser.py:1"], "kind": secret}),
                ("less_deref_pointer", {"pointer": secret}),
                ("less_query_engrams", {"scope": secret, "full": True}),
                ("less_query_engrams", {"as": secret}),
                ("less_put_engram", {"claim": "Alpha.", "action": secret}),
            ):
                result = await client.call_tool(name, arguments)
                assert result.is_error, (name, arguments)
                assert not leaks(text_of(result), secret), text_of(result)

    talk_over(transport, repository, settings, "2026-07-28", talk)
    assert files_with(repository.path / ".catalog", GITHUB, FINE_GRAINED) == []


def _engram(claim: str) -> dict[str, object]:
    return {"claim": claim, "at": ["src/parser.py:10-20"]}


SHAPES = {
    "line end": f"It was {GITHUB[:20]}\n{GITHUB[20:]} last week",
    "carriage return": f"It was {GITHUB[:20]}\r\n{GITHUB[20:]} last week",
    "continued line": f'It was "{GITHUB[:20]}\\\n    {GITHUB[20:]}" last week',
    "continued string": f'It was "{GITHUB[:20]}" +\n "{GITHUB[20:]}" last week',
    "written escape": f"It was {GITHUB[:20]}\\n{GITHUB[20:]} last week",
    "folded": f"key: >-\n  {GITHUB[:20]}\n  {GITHUB[20:]}\n",
    "short key": "The call used sk-" + "q7Lr2Vx9TbA4 until Monday.",
    "only the first line": "It begins with -----BEGIN RSA PRIVATE" + " KEY----- on the host.",
    "run of digits": "The call used sk-" + "R5fj9g1C2AGzKsZXrse41234567EOdQEpLRXscGwoljT8Uye.",
    "connection string": "Server=db;Database=main;Uid=app;Pwd=" + "saturnfield;",
    "parameters": "jdbc:postgresql://db/main?user=app&password=" + "Orchid_795",
    "manifest": "kind: Secret\ndata:\n  uri: " + "Y29wcGVyKjMyOTg=\n",
}
"""Texts with a secret that earlier versions stored."""


@pytest.mark.parametrize("shape", SHAPES)
def test_a_secret_in_an_unusual_shape_is_refused(server: LoggingServer, shape: str) -> None:
    """An agent puts a key that is broken by a line end, short, cut off, or inside a connection string or a manifest."""
    text = SHAPES[shape]
    with server.bus.nothing_stored():
        answers = [
            server.bus.call("POST", "/engram", _engram(text)),
            server.bus.call("POST", "/artifact", {"text": text}),
            server.bus.call("POST", "/tuple", {"lane": "notes", "payload": [], "map_pos": {"note": text}}),
        ]
    assert {answer.code for answer in answers} == {"SECRET_FOUND"}


@pytest.mark.parametrize("size", [60, 3000, 9000])
def test_a_contribution_keeps_no_part_of_a_token(server: LoggingServer, size: int) -> None:
    """An agent contributes a JWT, long or in two lines; every part of it is replaced, none is left in clear."""
    token = FREE["jwt"](Random(size))
    head, _, rest = token.partition(".")
    body, _, signature = rest.rpartition(".")
    long_token = f"{head}.{body}{'QmFy' * (size // 4)}.{signature}"
    for text in (f"Bearer {long_token} was used.", f"It was\n{token[:70]}\n{token[70:]}\nyesterday."):
        answer = server.bus.call("POST", "/contribution", {"content": text, "evidence": []})
        assert answer.status in (200, 422), answer.body
        assert not leaks(answer.body, token, long_token)
    server.check_clean(token, long_token)


def values_with(secret: str) -> list[Any]:
    """Return values of every type with a secret in them, as a value and as a key."""
    return [secret, [secret], {secret: 1}, {"x": secret}, [{secret: 1}], [{"ref": secret, "type": secret}]]


def requests_with(operation: Operation[Any, Any], secret: str) -> Iterator[dict[str, Any]]:
    """Yield requests with a secret in each declared field, and as the name of one that is not declared."""
    valid = REQUESTS.get(operation.name, {})
    yield {**valid, secret: 1}
    for field in msgspec.structs.fields(operation.request):
        for value in values_with(secret):
            yield {**valid, field.encode_name: value}


@pytest.mark.parametrize("name", [name for name, operation in OPERATIONS.items() if operation.route])
def test_no_field_of_any_operation_stores_or_repeats_a_secret(server: LoggingServer, name: str) -> None:
    """An agent puts a secret into every field of every operation, as a value, in a list, as a key and as a name."""
    operation = OPERATIONS[name]
    assert operation.route is not None
    for fields in requests_with(operation, FINE_GRAINED):
        path = operation.route.path
        for part in re.findall(r"{(\w+)}", path):
            value = fields.pop(part, ULID)
            path = path.replace(f"{{{part}}}", quote(value if isinstance(value, str) else json.dumps(value), safe=""))
        if operation.route.method == "POST":
            answer = server.bus.call("POST", path, fields)
        else:
            words = {key: value if isinstance(value, str) else json.dumps(value) for key, value in fields.items()}
            answer = server.bus.call(operation.route.method, f"{path}?{urlencode(words)}")
        assert answer.status < 500, answer.body
        assert not leaks(answer.body, FINE_GRAINED), answer.body
        assert not any(leaks(value, FINE_GRAINED) for value in answer.headers.values())
    server.check_clean(FINE_GRAINED)


def test_no_argument_of_any_tool_is_repeated(repository: Repository, settings: Settings) -> None:
    """A model passes a secret as each argument of each tool."""

    async def talk(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            names = [*tool.input_schema["properties"], FINE_GRAINED]
            for name, value in itertools.product(names, (FINE_GRAINED, [FINE_GRAINED], {FINE_GRAINED: 1})):
                result = await client.call_tool(tool.name, {name: value})
                assert not leaks(text_of(result), FINE_GRAINED), (tool.name, name, text_of(result))

    talk_over("http", repository, settings, "2026-07-28", talk)
    assert files_with(repository.path / ".catalog", FINE_GRAINED) == []


SERVERS = {"up", "mcp", "demo", "worker", "hook", "init", "install", "uninstall", "keys export"}
"""Commands that do not end by themselves, or write a file where the person says."""


def test_no_argument_of_any_command_is_repeated(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person passes a secret as the argument, and as an option, of each command."""
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    shell.ok("init")
    for words in sorted(set(COMMANDS) - SERVERS):
        for arguments in ([FINE_GRAINED], [f"--{FINE_GRAINED}"], ["--as", FINE_GRAINED]):
            result = shell.run(*words.split(), *arguments)
            assert not leaks(result.out + result.err, FINE_GRAINED), (words, arguments, result)
    assert files_with(repository.path / ".catalog", FINE_GRAINED) == []


def test_a_dump_of_credentials_is_not_stored(server: LoggingServer) -> None:
    """An agent contributes more secrets than can be replaced: redaction fails, and nothing is stored."""
    keys = [FREE["aws-access-key"](Random(number)) for number in range(101)]
    with server.bus.nothing_stored():
        answer = server.bus.call("POST", "/contribution", {"content": " ".join(keys)})
    assert (answer.status, answer.code) == (503, "SECRET_CHECK_FAILED")
    assert "SHARED_CORTEX_REDACTION_FAIL error=SECRET_CHECK_FAILED" in server.log.getvalue()
    server.check_clean(*keys)
