"""What a server may be reached by: refused without protection, and behind a proxy answered only through it."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from ipaddress import ip_network
from pathlib import Path

import pytest

from engrambus.edges.http import check_exposure
from engrambus.edges.http.callers import CallRates
from engrambus.edges.http.exposure import Exposure
from engrambus.edges.http.server import make_server
from engrambus.edges.http.server_limits import DEFAULT_LIMITS
from engrambus.errors import CertificateInvalid, EngramBusError, TooManyCalls
from tests.cli.runner import Shell
from tests.projects import make_gateway, make_repository, make_settings
from tests.team_server.machines import Certificates, make_certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A certificate for two names."""
    return make_certificates(tmp_path_factory.mktemp("certificates"), "bus.example", "127.0.0.1")


FILE = Path("/some/file.pem")


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        (("0.0.0.0", ("bus.example",), None, None, None), "SERVER_EXPOSED", "host"),
        (("10.0.0.5", (), None, None, None), "SERVER_EXPOSED", "host"),
        (("::", ("bus.example",), None, None, None), "SERVER_EXPOSED", "host"),
        (("0.0.0.0", (), FILE, FILE, None), "SERVER_EXPOSED", "allow_host"),
        (("0.0.0.0", ("bus.example",), FILE, None, None), "SERVER_EXPOSED", "tls_key"),
        (("127.0.0.1", ("bus.example",), None, FILE, None), "SERVER_EXPOSED", "tls_cert"),
        (("0.0.0.0", ("bus.example",), FILE, FILE, "10.0.0.1"), "SERVER_EXPOSED", "behind_proxy"),
        (("bus.example", ("bus.example",), FILE, FILE, None), "FIELD_VALUE", "host"),
        (("0.0.0.0", ("https://bus.example",), FILE, FILE, None), "FIELD_VALUE", "allow_host"),
        (("0.0.0.0", ("bus.example:0",), FILE, FILE, None), "FIELD_VALUE", "allow_host"),
        (("0.0.0.0", ("*",), FILE, FILE, None), "FIELD_VALUE", "allow_host"),
        (("0.0.0.0", ("bus.example",), None, None, "everybody"), "FIELD_VALUE", "behind_proxy"),
    ],
)
def test_what_would_send_tokens_in_the_clear_is_refused(  # YT-19
    arguments: tuple[str, tuple[str, ...], Path | None, Path | None, str | None], code: str, field: str
) -> None:
    with pytest.raises(EngramBusError) as refusal:
        check_exposure(*arguments)
    assert (refusal.value.code, refusal.value.field) == (code, field)


def test_names_are_accepted_with_the_port_or_their_own() -> None:
    exposure = check_exposure("0.0.0.0", ("Bus.Example.", "other.example:8443"), FILE, FILE, None)
    hosts = exposure.hosts(7171)
    assert {"bus.example:7171", "other.example:8443", "127.0.0.1:7171"} <= set(hosts)
    assert "bus.example" not in hosts
    assert "bus.example" in exposure.hosts(443)
    assert exposure.url(7171) == "https://bus.example:7171"
    assert exposure.url(443) == "https://bus.example"
    assert not exposure.is_local
    assert Exposure().is_local


def test_a_refused_server_leaves_no_project_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(make_repository(tmp_path / "repository"), tmp_path / "home", monkeypatch)
    problem = shell.run("up", "--host", "0.0.0.0", "--json").problem
    assert problem["code"] == "SERVER_EXPOSED"
    assert "--behind-proxy" in problem["hint"]
    assert not (shell.path / ".catalog").exists()


def test_a_certificate_that_cannot_be_used_is_named(certificates: Certificates, tmp_path: Path) -> None:
    other = make_certificates(tmp_path, "bus.example")
    exposure = Exposure("127.0.0.1", ("bus.example",), certificates.certificate, other.key)
    with pytest.raises(CertificateInvalid, match=r"server\.pem"):
        exposure.tls()


def test_a_bucket_of_calls_fills_up_as_time_passes() -> None:
    clock = [0.0]
    rates = CallRates(60, now=lambda: clock[0])
    assert [rates.seconds_to_wait("a") for _ in range(13)] == [0] * 12 + [1]
    assert rates.seconds_to_wait("b") == 0
    clock[0] = 3.0
    assert [rates.seconds_to_wait("a") for _ in range(4)] == [0, 0, 0, 1]
    with pytest.raises(TooManyCalls) as refusal:
        rates.check("a")
    assert refusal.value.retry_after_seconds == 1


class Reached:
    """A server on a loopback port, called as a proxy calls it."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token

    def call(self, target: str, *, token: str | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("GET", target, headers=sent | {"Authorization": f"Bearer {token or self.token}"})
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()


def serve(folder: Path, exposure: Exposure) -> Iterator[Reached]:
    """Serve a new project with an exposure."""
    repository = make_repository(folder / "repository")
    gateway = make_gateway(repository.path, make_settings(folder / "home"))
    from engrambus.gateway import LOCAL_ADMIN
    from engrambus.operations import OPERATIONS

    add = OPERATIONS["add_person"]
    token = gateway.call(add, add.request(name="anna"), LOCAL_ADMIN).token
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    ready = threading.Event()
    limits = DEFAULT_LIMITS._replace(failure_delay_seconds=0.01, handshake_seconds=1.0)
    server = make_server(gateway, sock, ready.set, exposure=exposure, limits=limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        assert ready.wait(60)
        yield Reached(sock.getsockname()[1], token)
    finally:
        server.should_exit = True
        thread.join(60)
        gateway.close()


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    """A server whose proxy connects from this machine."""
    exposure = Exposure("127.0.0.1", ("bus.example",), proxy=ip_network("127.0.0.1"))
    yield from serve(tmp_path_factory.mktemp("proxied"), exposure)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    """A server whose proxy is another machine."""
    exposure = Exposure("127.0.0.1", ("bus.example",), proxy=ip_network("192.0.2.0/24"))
    yield from serve(tmp_path_factory.mktemp("elsewhere"), exposure)


def test_through_the_proxy_calls_are_answered(proxied: Reached) -> None:  # YT-19
    headers = {"Host": "bus.example", "X_Forwarded_Proto": "https", "X_Forwarded_For": "203.0.113.9"}
    status, _, body = proxied.call("/whoami", **headers)
    assert (status, json.loads(body)["name"]) == (200, "anna")
    assert proxied.call("/whoami", **headers, Origin="https://bus.example")[0] == 200


@pytest.mark.parametrize("headers", [{}, {"X_Forwarded_Proto": "http"}, {"X_Forwarded_Proto": "https, http"}])
def test_what_reached_the_proxy_in_the_clear_is_refused(proxied: Reached, headers: dict[str, str]) -> None:
    status, _, body = proxied.call("/whoami", Host="bus.example", **headers)
    assert (status, json.loads(body)["code"]) == (403, "PROXY_FORBIDDEN")


def test_who_comes_past_the_proxy_is_refused(elsewhere: Reached) -> None:
    status, _, body = elsewhere.call("/whoami", Host="bus.example", X_Forwarded_Proto="https")
    assert (status, json.loads(body)["code"]) == (403, "PROXY_FORBIDDEN")
    assert elsewhere.call("/healthz", Host="bus.example")[0] == 200  # of a container's own check


def test_failures_are_counted_by_the_address_that_the_proxy_saw(proxied: Reached) -> None:
    wrong = proxied.token[:-4] + "AAAA"

    def guess(address: str) -> int:
        headers = {"Host": "bus.example", "X_Forwarded_Proto": "https", "X_Forwarded_For": f"10.1.1.1, {address}"}
        return proxied.call("/whoami", token=wrong, **headers)[0]

    assert {guess("203.0.113.1") for _ in range(12)} == {401, 429}
    assert guess("203.0.113.2") == 401


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Reached]:
    """A server with TLS and a short time for handshakes."""
    exposure = Exposure("127.0.0.1", ("bus.example",), certificates.certificate, certificates.key)
    yield from serve(tmp_path_factory.mktemp("encrypted"), exposure)


def test_a_handshake_that_does_not_end_is_cut_off(encrypted: Reached) -> None:
    with socket.create_connection(("127.0.0.1", encrypted.port), timeout=60) as wire:
        assert wire.recv(1) == b""  # closed by the server, long before this socket's own time has passed


def test_clients_agree_on_a_current_version_of_tls(encrypted: Reached, certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=str(certificates.authority))
    with (
        socket.create_connection(("127.0.0.1", encrypted.port), timeout=60) as wire,
        context.wrap_socket(wire, server_hostname="bus.example") as tls,
    ):
        assert tls.version() == "TLSv1.3"
