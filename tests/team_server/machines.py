"""A team's server and its colleagues: a gateway with TLS in a process of its own, and clones with homes of their own.

Where this account may make network namespaces, the server is on another host; else it has another loopback address.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.projects import commit_files, git, make_repository

COMMAND = str(Path(sys.executable).with_name("engrambus"))
LOOPBACK, NAMESPACE_SERVER, NAMESPACE_CLIENT = "127.0.0.2", "10.213.7.1", "10.213.7.2"
SECONDS = 60


class Done(NamedTuple):
    """The end of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The value that it printed as JSON."""
        assert self.code == 0, self
        return json.loads(self.out)

    @property
    def problem(self) -> dict[str, Any]:
        """The error that it printed as JSON."""
        assert self.code == 1, self
        return dict(json.loads(self.err.strip().splitlines()[-1]))


class Machine:
    """An account on a host: a folder to work in and a home of its own."""

    def __init__(self, folder: Path, home: Path, prefix: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.home = home
        self.prefix = prefix
        """What a command is started with to run on the host."""
        home.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return kept | {"HOME": str(self.home), "NO_COLOR": "1"}

    def run(
        self, *words: str, stdin: str = "", folder: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Done:
        """Run `engrambus`."""
        done = subprocess.run(
            [*self.prefix, COMMAND, *words],
            cwd=folder or self.folder,
            env=self.environment | dict(env or {}),
            input=stdin.encode(),
            capture_output=True,
            timeout=SECONDS,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ok(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Done:
        """Run `engrambus`, which must succeed."""
        done = self.run(*words, stdin=stdin, env=env)
        assert done.code == 0, done
        return done

    def python(self, program: str) -> str:
        """Run a program of its own, which must succeed, and return what it printed."""
        done = subprocess.run(
            [*self.prefix, sys.executable, "-c", program],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


class TeamServer:
    """A running server: its operator's machine, its address and how to reach it."""

    def __init__(self, operator: Machine, address: str, port: int, certificates: Certificates, log: Path) -> None:
        self.operator = operator
        self.address = address
        self.port = port
        self.url = f"https://{address}:{port}"
        self.certificates = certificates
        self.log = log
        self.started: dict[str, Any] = {}
        """What `engrambus up --json` printed."""

    @property
    def project(self) -> str:
        """The project's id."""
        return str(self.operator.ok("whoami", "--json").json["project"])

    def add_person(self, name: str, *options: str) -> str:
        """Add a person and return the token."""
        return self.operator.ok("person", "add", name, *options, "--token-only").out.strip()

    def login(self, machine: Machine, token: str) -> Done:
        """Log a clone in with a token."""
        return machine.run("login", self.url, "--ca-file", str(self.certificates.authority), "--json", stdin=token)


class Certificates(NamedTuple):
    """Files of a private authority and of the server's certificate that it has signed."""

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path, *names: str) -> Certificates:
    """Make an authority, and a certificate for names and addresses."""
    folder.mkdir(parents=True, exist_ok=True)
    own_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority")])
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)

    def builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=2))
        )

    authority = (
        builder(authority_name, own_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(own_key, hashes.SHA256())
    )
    alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    certificate = (
        builder(subject, server_key).add_extension(alternatives, critical=False).sign(own_key, hashes.SHA256())
    )
    files = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return files


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@contextmanager
def two_hosts() -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield the server's address, and what commands are started with on the server's host and on the client's."""
    with ExitStack() as stack:
        names = [f"eb-{os.getpid()}-{side}" for side in ("server", "client")]
        ends = [f"eb{os.getpid() % 100_000}{side}" for side in "sc"]
        try:
            for name in names:
                _ip("netns", "add", name)
                stack.callback(_ip, "netns", "del", name)
            _ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
            for name, end, address in zip(names, ends, (NAMESPACE_SERVER, NAMESPACE_CLIENT), strict=True):
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
                _ip("-n", name, "link", "set", end, "up")
                _ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError):
            yield LOOPBACK, (), ()
            return
        server, client = (("ip", "netns", "exec", name) for name in names)
        yield NAMESPACE_SERVER, server, client


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=SECONDS)


@contextmanager
def run_team_server(folder: Path, *options: str) -> Iterator[tuple[TeamServer, Machine]]:
    """Run a server with a mirror, and yield it with the machine of a colleague whose clone has the project's file.

    The server begins with an empty mirror, so what it reads was pushed.
    """
    with ExitStack() as stack:
        address, server_prefix, client_prefix = stack.enter_context(two_hosts())
        clone = make_clone(folder / "clone", folder / "home-of-clone", client_prefix)
        project = (clone.folder / ".catalog" / "project.yaml").read_text("utf-8").split()[1]
        mirror = folder / "mirror.git"
        mirror.mkdir()
        operator = Machine(mirror, folder / "home-of-operator", server_prefix)
        operator.ok("init", "--mirror", "--id", project)
        port = free_port()
        certificates = make_certificates(folder / "certificates", address, "bus.example")
        log = folder / "server.log"
        command = [
            *server_prefix, COMMAND, "up", "--no-learn", "--host", address, "--port", str(port),
            "--allow-host", address, "--allow-host", "bus.example", "--tls-cert", str(certificates.certificate),
            "--tls-key", str(certificates.key), "--log", "json", "--json", *options,
        ]  # fmt: skip
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                command, cwd=mirror, env=operator.environment, stdout=subprocess.PIPE, stderr=errors
            ) as process,
        ):
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, log.read_text("utf-8")
                server = TeamServer(operator, address, port, certificates, log)
                server.started = json.loads(line)
                yield server, clone
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(SECONDS)


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def make_clone(folder: Path, home: Path, prefix: tuple[str, ...] = ()) -> Machine:
    """Make a repository with a project's committed file, and no journal."""
    make_repository(folder)
    machine = Machine(folder, home, prefix)
    machine.ok("init", "--files-only")
    commit_files(folder, {})
    return machine


def clone_of(machine: Machine, folder: Path, home: Path) -> Machine:
    """Clone a colleague's repository for another colleague on the same host."""
    git(machine.folder.parent, "clone", "-q", str(machine.folder), str(folder))
    return Machine(folder, home, machine.prefix)
