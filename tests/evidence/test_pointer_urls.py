"""URL pointers: disabled by default, and limited if enabled. No test leaves this machine."""  # EB-04

from __future__ import annotations

import datetime
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from engrambus.core import digest
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import (
    Evidence,
    Pointer,
    UrlAddress,
    UrlResolver,
    UrlSettings,
    check_pointer,
    parse_ref,
    print_address,
)
from engrambus.evidence.pointers.url import Connect, connect_tls, is_public, wrap_tls

PAGE = b"the page\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + PAGE
SETTINGS = UrlSettings(hosts=frozenset({"docs.example.org", "docs.example.org:8443"}), max_bytes=100, max_seconds=5)


def address(url: str = "https://docs.example.org/a?b=1", content: bytes = PAGE) -> UrlAddress:
    parsed = parse_ref(f"url:{url}@{digest(content)}")
    assert isinstance(parsed, UrlAddress)
    return parsed


def refusal(action: Callable[[], object]) -> EngramBusError:
    with pytest.raises(EngramBusError) as caught:
        action()
    return caught.value


def answering(answer: bytes, requests: list[bytes] | None = None) -> Connect:
    """Return a function that connects to a server which sends `answer` to every request."""

    def connect(_address: str, _port: int, _host: str, _seconds: float) -> socket.socket:
        client_end, server_end = socket.socketpair()

        def serve() -> None:
            with server_end:
                request = server_end.recv(65536)
                if requests is not None:
                    requests.append(request)
                try:
                    server_end.sendall(answer)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        return client_end

    return connect


def resolver(
    answer: bytes, *, addresses: tuple[str, ...] = ("93.184.215.14",), settings: UrlSettings = SETTINGS
) -> UrlResolver:
    return UrlResolver(lambda: settings, lookup=lambda _host, _port: addresses, connect=answering(answer))


def test_without_settings_nothing_is_fetched() -> None:
    def never(*_: object) -> socket.socket:
        raise AssertionError("no host may be contacted")

    disabled = UrlResolver(lambda: None, connect=never)
    assert refusal(lambda: disabled.resolve(address())).code == "URLS_OFF"


def test_a_page_with_its_digest_is_read() -> None:
    requests: list[bytes] = []
    allowed = UrlResolver(lambda: SETTINGS, lookup=lambda *_: ["93.184.215.14"], connect=answering(OK, requests))
    content = allowed.resolve(address())
    assert (content.data, content.digest) == (PAGE, digest(PAGE))
    assert requests[0].startswith(b"GET /a?b=1 HTTP/1.1\r\nHost: docs.example.org\r\n")
    assert allowed.resolve(address("https://docs.example.org:8443/")).data == PAGE
    assert b"Host: docs.example.org:8443\r\n" in requests[1]


def test_a_pointer_to_a_page_is_fetched_and_checked_before_it_is_stored() -> None:
    for answer, content, code in ((OK, PAGE, None), (OK, b"another page\n", "DIGEST_MISMATCH")):
        evidence = Evidence({UrlAddress: lambda answer=answer: resolver(answer)})  # type: ignore[misc]
        checked, parsed = check_pointer(Pointer(type="url", ref=print_address(address(content=content))))
        if code is None:
            assert evidence.stamp(checked, parsed).digest == digest(PAGE)
        else:
            assert refusal(lambda: evidence.stamp(checked, parsed)).code == code  # noqa: B023
    off = Evidence({UrlAddress: lambda: UrlResolver(lambda: None)})
    problem = refusal(lambda: off.stamp(checked, parsed, "pointers[0]"))
    assert (problem.code, problem.field) == ("URLS_OFF", "pointers[0].ref")
    assert "less.store_artifact" in (problem.hint or "")


def test_a_page_in_chunks_is_read() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nthe \r\n5\r\npage\n\r\n0\r\n\r\n"
    assert resolver(answer).resolve(address()).data == PAGE


@pytest.mark.parametrize(
    "url", ["https://example.org/", "https://docs.example.org.evil.example/", "https://docs.example.org:1/"]
)
def test_only_listed_hosts_are_contacted(url: str) -> None:
    assert refusal(lambda: resolver(OK).resolve(address(url))).code == "URL_REFUSED"


@pytest.mark.parametrize(
    "private",
    ["127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b:1::1",
     "64:ff9b::7f00:1", "ff02::1", "fe80::1%eth0", "not an address"],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused(private: str) -> None:
    assert not is_public(private)
    problem = refusal(lambda: resolver(OK, addresses=("93.184.215.14", private)).resolve(address()))
    assert problem.code == "URL_REFUSED"


def test_public_addresses_are_public() -> None:
    assert is_public("93.184.215.14")
    assert is_public("2606:4700::1111")
    assert is_public("64:ff9b::5db8:d70e")
    assert refusal(lambda: resolver(OK, addresses=()).resolve(address())).code == "URL_REFUSED"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: https://docs.example.org/b\r\nContent-Length: 0\r\n\r\n", "URL_REFUSED"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "URL_TROUBLE"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew", "DIGEST_MISMATCH"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + b"x" * 900, "CONTENT_TOO_LARGE"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 900, "CONTENT_TOO_LARGE"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nthe page\n", "URL_TROUBLE"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nthe page\n", "URL_TROUBLE"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nthe page\n", "URL_TROUBLE"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "URL_TROUBLE"),
        (b"nonsense\r\n\r\n", "URL_TROUBLE"),
        (b"", "URL_TROUBLE"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n", "URL_TROUBLE"),
    ],
)
def test_any_answer_but_the_pinned_page_is_refused(answer: bytes, code: str) -> None:
    assert refusal(lambda: resolver(answer).resolve(address())).code == code


def test_a_slow_server_is_cut_off() -> None:
    def connect(_address: str, _port: int, _host: str, _seconds: float) -> socket.socket:
        client_end, server_end = socket.socketpair()

        def serve() -> None:
            with server_end:
                try:
                    while True:
                        server_end.send(b"H")
                        time.sleep(0.02)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        return client_end

    short = UrlSettings(hosts=SETTINGS.hosts, max_seconds=0.3)
    slow = UrlResolver(lambda: short, lookup=lambda *_: ["93.184.215.14"], connect=connect)
    problem = refusal(lambda: slow.resolve(address()))
    assert (problem.code, problem.limit) == ("URL_TROUBLE", "0.3 s")


def test_an_unknown_or_unreachable_host_fails() -> None:
    def no_lookup(*_: object) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    def no_connect(*_: object) -> socket.socket:
        raise ConnectionRefusedError

    for broken in (
        UrlResolver(lambda: SETTINGS, lookup=no_lookup),
        UrlResolver(lambda: SETTINGS, lookup=lambda *_: ["93.184.215.14"], connect=no_connect),
    ):
        assert refusal(lambda broken=broken: broken.resolve(address())).code == "URL_TROUBLE"  # type: ignore[misc]


def make_certificate(folder: Path, host: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


@contextmanager
def tls_server(certificate: Path, key: Path) -> Iterator[int]:
    """Run a server on the loopback interface that answers every connection with the page."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listening.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(plain, server_side=True) as secure:
                        secure.recv(65536)
                        secure.sendall(OK)
                except OSError:
                    plain.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_the_certificate_must_be_the_hosts(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "docs.example.org")
    with tls_server(certificate, key) as port:

        def trusting(_address: str, _port: int, host: str, seconds: float) -> socket.socket:
            plain = socket.create_connection(("127.0.0.1", port), timeout=seconds)
            return wrap_tls(plain, host, ssl.create_default_context(cafile=str(certificate)))

        def distrusting(_address: str, _port: int, host: str, seconds: float) -> socket.socket:
            return connect_tls("127.0.0.1", port, host, seconds)

        def read(connect: Connect, url: str = "https://docs.example.org/") -> bytes:
            hosts = UrlSettings(hosts=frozenset({"docs.example.org", "other.example.org"}))
            resolver = UrlResolver(lambda: hosts, lookup=lambda *_: ["93.184.215.14"], connect=connect)
            return resolver.resolve(address(url)).data

        assert read(trusting) == PAGE
        assert refusal(lambda: read(trusting, "https://other.example.org/")).code == "URL_TROUBLE"
        assert refusal(lambda: read(distrusting)).code == "URL_TROUBLE"
