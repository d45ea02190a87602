"""Attacks on a team's server: from the network, with no token, and by colleagues whose tokens are good."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import subprocess
import zlib
from collections.abc import Iterator
from hashlib import sha1
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.projects import git
from tests.team_server.machines import LOOPBACK, Machine, TeamServer, run_team_server

ZERO = "0" * 40


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A server on this host, a colleague's clone, and a token of a member."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.team_server.machines.two_hosts", _one_host)
        with run_team_server(tmp_path_factory.mktemp("attacked"), "--push-mb", "1", "--calls-per-minute", "600") as (
            server,
            clone,
        ):
            yield Team(server, clone, server.add_person("mallory"))


def _one_host() -> Any:
    from contextlib import nullcontext

    return nullcontext((LOOPBACK, (), ()))


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The error code."""
        return str(json.loads(self.body)["code"])


class Team(NamedTuple):
    """The server under attack."""

    server: TeamServer
    clone: Machine
    token: str

    def call(
        self, method: str, target: str, body: bytes | None = None, *, token: str | None = None, **headers: str
    ) -> Answer:
        """Send a request over TLS."""
        context = ssl.create_default_context(cafile=str(self.server.certificates.authority))
        connection = HTTPSConnection(LOOPBACK, self.server.port, timeout=60, context=context)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, target, body, sent)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def post(self, target: str, value: Any, *, token: str | None = None) -> Answer:
        """Send JSON, as the member by default."""
        body = json.dumps(value).encode()
        return self.call("POST", target, body, token=token or self.token, Content_Type="application/json")

    def push(self, body: bytes, **headers: str) -> Answer:
        """Send a push as the member."""
        kind = "application/x-git-receive-pack-request"
        return self.call("POST", "/git/git-receive-pack", body, token=self.token, Content_Type=kind, **headers)

    def refs(self) -> str:
        """Return every ref of the mirror."""
        return git(self.server.operator.folder, "for-each-ref")


def packet(line: str) -> bytes:
    """Return a packet line."""
    data = line.encode()
    return b"%04x%s" % (len(data) + 4, data)


def command(old: str, new: str, ref: str) -> bytes:
    """Return the command of a push, with its capabilities and its end."""
    return packet(f"{old} {new} {ref}\0report-status") + b"0000"


def pack_of(kind: int, content: bytes) -> bytes:
    """Return a pack of one object."""
    size, head = len(content), bytearray()
    byte = kind << 4 | size & 15
    size >>= 4
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    data = b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes(head) + zlib.compress(content, 9)
    return data + sha1(data, usedforsecurity=False).digest()


def first_commit(team: Team) -> str:
    """Return a commit of the clone."""
    return git(team.clone.folder, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "target",
    [
        "/engram/query?q=a",
        "/whoami",
        "/person",
        "/git/info/refs?service=git-upload-pack",
        "/metrics",
        "/events",
        "/mcp",
    ],
)
def test_nothing_of_the_project_is_answered_without_a_token(team: Team, target: str) -> None:
    """Asks every kind of address, also as the browser of a visitor would."""
    answer = team.call("GET", target)
    assert answer.status in (401, 405, 429), answer
    assert team.server.project.encode() not in answer.body


def test_the_page_gives_a_stranger_its_empty_shell_only(team: Team) -> None:
    """Opens the page, and asks for a code and for a session without one."""
    shell = team.call("GET", "/")
    assert shell.status == 200
    assert team.server.project.encode() not in shell.body
    assert team.call("GET", "/page/memory", Engrambus_Session="guess").status in (401, 429)
    assert team.call("POST", "/session/code", b"{}", Content_Type="application/json").status in (401, 429)
    assert team.post("/session/code", {}).code == "ROLE_FORBIDDEN"  # a member does not administer


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "bus.example.evil.example", "bus.example:1", ""])
def test_a_name_that_was_not_allowed_is_refused_and_told_nothing(team: Team, host: str) -> None:
    """Rebinds a name of its own to the server's address."""
    answer = team.call("GET", "/whoami", token=team.token, Host=host)
    assert answer.code == "HOST_FORBIDDEN"
    assert b"bus.example" not in answer.body.replace(host.encode() or b"\0", b"")


def test_another_sites_origin_is_refused(team: Team) -> None:
    """Calls from a page of another site, or of the same name without TLS."""
    for origin in ("https://evil.example", f"http://{LOOPBACK}:{team.server.port}", "null"):
        assert team.call("GET", "/whoami", token=team.token, Origin=origin).code == "ORIGIN_FORBIDDEN"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_of_tls_are_refused(team: Team, version: ssl.TLSVersion) -> None:
    """Offers nothing newer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection((LOOPBACK, team.server.port), timeout=30) as wire,
        pytest.raises((ssl.SSLError, ConnectionResetError)),
    ):
        context.wrap_socket(wire)


def test_plain_http_gets_no_answer(team: Team) -> None:
    """Sends a token in the clear to the port of TLS; the server never reads it as a request."""
    with socket.create_connection((LOOPBACK, team.server.port), timeout=30) as wire:
        wire.sendall(f"GET /whoami HTTP/1.1\r\nHost: {LOOPBACK}:{team.server.port}\r\n\r\n".encode())
        assert b"200" not in wire.recv(65_536)


def test_guessing_tokens_is_slowed_down_and_keeps_nobody_out(team: Team) -> None:
    """Tries tokens one after the other; a colleague at the same address still works."""
    head, _, mac = team.token.rpartition(".")
    guesses = [f"{head}.{'A' * (len(mac) - 1)}{last}" for last in "AEIMQUYcgkosw048"]
    answers = [team.call("GET", "/whoami", token=guess) for guess in guesses]
    assert {answer.status for answer in answers} == {401, 429}
    late = [answer for answer in answers if answer.status == 429]
    assert {answer.code for answer in late} == {"TOO_MANY_FAILURES"}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in late)
    assert team.call("GET", "/whoami", token=team.token).status == 200


def test_one_token_cannot_call_without_end(team: Team) -> None:
    """Calls as fast as it can; others are not affected."""
    greedy = team.server.add_person("greedy")
    answers = [team.call("GET", "/whoami", token=greedy) for _ in range(180)]
    refused = [answer for answer in answers if answer.status == 429]
    assert refused
    assert {answer.code for answer in refused} == {"TOO_MANY_CALLS"}
    assert int(refused[0].headers["retry-after"]) >= 1
    assert team.call("GET", "/whoami", token=team.token).status == 200


def test_a_member_cannot_become_an_administrator(team: Team) -> None:
    """Names people like agents, asks for their tokens, and opens the run that holds them."""
    boss = team.server.add_person("boss", "--admin")
    assert boss
    tries = [
        ("/person", {"name": "eve", "admin": True}),
        ("/person/boss/token", {}),
        ("/person/boss/remove", {}),
        ("/agent/boss/token", {}),
        ("/agent/boss/remove", {}),
        ("/token/revoke", {"all": True}),
        ("/agent", {"name": "boss"}),
    ]
    with_run = team.call("GET", "/token", token=boss)
    run = next(row["run_id"] for row in json.loads(with_run.body)["tokens"] if row["agent_id"] == "boss")
    tries += [
        (f"/agent/{run}/boss/token", {}), (f"/run/{run}/end", {}), ("/token/revoke", {"agent": f"{run}/boss"}),
        ("/agent", {"name": "minion", "parent": f"{run}/boss"}), ("/lead", {"goal": "take over", "session": "people:"}),
    ]  # fmt: skip
    for target, value in tries:
        answer = team.post(target, value)
        assert answer.status in (403, 404, 409, 422), (target, answer)
    assert team.call("GET", "/whoami?as=boss", token=team.token).status in (403, 404)
    assert team.call("GET", f"/whoami?as={run}/boss", token=team.token).status in (403, 404)
    assert json.loads(team.call("GET", "/whoami", token=boss).body)["role"] == "admin"


def test_a_member_revokes_no_other_persons_token(team: Team) -> None:
    """Takes the id of an administrator's token from the list."""
    frieda = team.server.add_person("frieda", "--admin")
    rows = json.loads(team.call("GET", "/token", token=frieda).body)["tokens"]
    (token_id,) = [row["token_id"] for row in rows if row["agent_id"] == "frieda"]
    assert team.post("/token/revoke", {"id": token_id}).code == "TOKEN_NOT_FOUND"
    assert team.call("GET", "/whoami", token=frieda).status == 200


def test_a_page_session_ends_with_the_token_it_was_opened_with(team: Team) -> None:
    """An administrator who is removed keeps the browser open."""
    hilde = team.server.add_person("hilde", "--admin")
    asked = team.call("POST", "/session/code", b"{}", token=hilde, Content_Type="application/json")
    form = f"code={json.loads(asked.body)['code']}".encode()
    origin = f"https://{LOOPBACK}:{team.server.port}"
    kind = "application/x-www-form-urlencoded"
    opened = team.call("POST", "/page/open", form, Origin=origin, Content_Type=kind)
    secret = json.loads(opened.body)["session"]
    assert team.call("GET", "/", Engrambus_Session=secret).status == 200
    team.server.operator.ok("person", "remove", "hilde")
    assert team.call("GET", "/", Engrambus_Session=secret).code in ("SESSION_INVALID", "TOO_MANY_FAILURES")
    assert team.call("GET", "/events", Engrambus_Session=secret).status in (401, 429)


@pytest.mark.parametrize(
    "ref",
    [
        "refs/heads/main",
        "refs/tags/v1",
        "HEAD",
        "refs/engrambus/keep/main",
        "refs/engrambus/keep/../../heads/main",
        "refs/engrambus/keep/{commit}/x",
        "refs/engrambus/keep/" + "a" * 40,
        "../../../etc/passwd",
        "refs/engrambus/keep/{commit}\nrefs/heads/main",
        "",
    ],
)
def test_a_push_creates_no_other_refs(team: Team, ref: str) -> None:
    """Pushes a commit under a name of its choice."""
    commit = first_commit(team)
    before = team.refs()
    answer = team.push(command(ZERO, commit, ref.format(commit=commit)) + pack_of(3, b"x"))
    assert answer.code == "PUSH_REFUSED"
    assert team.refs() == before


def test_a_push_deletes_and_moves_nothing(team: Team) -> None:
    """Sends the commands that delete a ref and that move it."""
    assert team.server.login(team.clone, team.token).code == 0
    team.clone.ok("push")
    commit, before = first_commit(team), team.refs()
    assert commit in before
    ref = f"refs/engrambus/keep/{commit}"
    for old, new in ((commit, ZERO), (commit, commit), (commit, "b" * 40), (ZERO, ZERO)):
        assert team.push(command(old, new, ref)).code == "PUSH_REFUSED"
    assert team.refs() == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"0000",
        b"zzzz",
        b"-001",
        b"0003",
        b"0004",
        b"ffff",
        b"00000000",
        packet("shallow " + "a" * 40) + b"0000",
        packet("push-cert\0report-status") + b"0000",
        packet("a" * 200) * 400,
        b"\x1f\x8b\x08",
    ],
)
def test_what_is_no_push_is_refused(team: Team, body: bytes) -> None:
    """Sends bytes that another reader might take for something else."""
    assert team.push(body).code == "PUSH_REFUSED"


def test_a_pack_that_grows_without_end_is_stopped(team: Team) -> None:
    """Sends a pack of a few hundred kilobytes that holds a commit of hundreds of megabytes."""
    bomb = pack_of(1, b"tree " + b"0" * (400 * 1024 * 1024))
    assert len(bomb) < 1024 * 1024
    before = team.refs()
    answer = team.push(command(ZERO, "c" * 40, "refs/engrambus/keep/" + "c" * 40) + bomb)
    assert answer.status != 200 or b"unpack ok" not in answer.body
    assert team.refs() == before
    assert team.call("GET", "/whoami", token=team.token).status == 200


def test_a_body_that_unpacks_without_end_is_refused(team: Team) -> None:
    """Packs a hundred megabytes into a hundred kilobytes with gzip."""
    bomb = gzip.compress(bytes(100 * 1024 * 1024), 9)
    assert len(bomb) < 256 * 1024
    assert team.push(bomb, Content_Encoding="gzip").code == "BODY_TOO_LARGE"
    assert team.push(b"no gzip at all", Content_Encoding="gzip").code == "FIELD_VALUE"
    assert team.push(b"x", Content_Encoding="br").code == "CONTENT_TYPE"


def test_damaged_objects_do_not_stay(team: Team) -> None:
    """Pushes a tree whose entry leads into `.git`, which other tools might check out."""
    blob = sha1(b"blob 1\0x", usedforsecurity=False).digest()
    tree = b"100644 .git\0" + blob
    object_id = sha1(b"tree %d\0" % len(tree) + tree, usedforsecurity=False).hexdigest()
    commit = f"tree {object_id}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n".encode()
    commit_id = sha1(b"commit %d\0" % len(commit) + commit, usedforsecurity=False).hexdigest()
    entries = [(3, b"x"), (2, tree), (1, commit)]
    parts = b"".join(pack_of(kind, content)[12:-20] for kind, content in entries)
    data = b"PACK" + (2).to_bytes(4, "big") + len(entries).to_bytes(4, "big") + parts
    pack = data + sha1(data, usedforsecurity=False).digest()
    answer = team.push(command(ZERO, commit_id, f"refs/engrambus/keep/{commit_id}") + pack)
    assert b"unpack ok" not in answer.body
    assert commit_id not in team.refs()
    found = subprocess.run(
        ["git", "cat-file", "-e", object_id], cwd=team.server.operator.folder, capture_output=True, timeout=60
    )
    assert found.returncode


def test_no_hook_of_the_mirror_runs(team: Team, tmp_path: Path) -> None:
    """A hook that somebody has put into the mirror's folder."""
    ran = tmp_path / "ran"
    hooks = team.server.operator.folder / "hooks"
    for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
        (hooks / name).chmod(0o755)
    try:
        assert team.server.login(team.clone, team.token).code == 0
        git(team.clone.folder, "commit", "-q", "--allow-empty", "-m", "Another")
        assert team.clone.ok("push", "--json").json["pushed"] == [first_commit(team)]
    finally:
        for hook in hooks.iterdir():
            hook.unlink()
    assert not ran.exists()


@pytest.mark.parametrize(
    "target",
    [
        "/git/../engram", "/git/%2e%2e/config", "/git/config", "/git/HEAD", "/git/objects/info/packs",
        "/git/info/refs", "/git/info/refs?service=git-upload-archive", "/git/info/refs?service=../../bin/sh",
        "/git/info/refs?service=git-receive-pack&service=git-upload-pack", "/git//info/refs?service=git-upload-pack",
    ],
)  # fmt: skip
def test_no_other_address_of_the_mirror_answers(team: Team, target: str) -> None:
    """Asks for files of the repository, and for other services of git."""
    answer = team.call("GET", target, token=team.token)
    assert answer.status in (404, 405, 422), answer
    assert b"[core]" not in answer.body


def test_a_role_that_does_not_see_all_files_fetches_none(team: Team) -> None:
    """An agent whose role the policy hides files from, asks for the whole repository."""
    operator = team.server.operator
    scout = operator.ok("agent", "add", "scout", "--role", "programmer", "--token-only").out.strip()
    target = "/git/info/refs?service=git-upload-pack"
    assert team.call("GET", target, token=scout).status == 200
    policy = operator.folder / ".catalog" / "policy.yaml"
    text = policy.read_text("utf-8")
    policy.write_text("visibility:\n  programmer:\n    paths: ['docs/**']\n", "utf-8")
    try:
        operator.ok("policy", "apply")
        assert team.call("GET", target, token=scout).code == "ROLE_FORBIDDEN"
        kind = "application/x-git-upload-pack-request"
        answer = team.call("POST", "/git/git-upload-pack", b"0000", token=scout, Content_Type=kind)
        assert answer.code == "ROLE_FORBIDDEN"
    finally:
        policy.write_text(text, "utf-8")
        operator.ok("policy", "apply")


def test_the_servers_log_has_no_token(team: Team) -> None:
    """Reads the log after all of these calls."""
    log = team.server.log.read_text("utf-8")
    assert team.token.rpartition(".")[2] not in log
    assert "Traceback" not in log
