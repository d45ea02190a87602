"""The one check that all our clients make before they send a secret: who listens at the other end (decision 70)."""

from __future__ import annotations

from http.client import HTTPConnection

import msgspec

from engrambus.errors import AddressInsecure, ListenerUnproven
from engrambus.policy import Challenge, is_loopback, print_listener

MAX_ANSWER_BYTES = 4096
_UNPROVEN = (
    "Start the gateway with `engrambus up` and use the address that it prints. If it does run there: restart a gateway "
    "of an older version, get another token if its project or key has changed, and let a tunnel keep the port number."
)


def check_address(host: str, *, secure: bool) -> None:
    """Refuse an address of another machine without https, before anything is sent."""
    if not secure and not is_loopback(host):
        raise AddressInsecure(
            f"'{host}' is another machine: only https reaches it.",
            field="url",
            hint="Use https with a certificate that this machine trusts, or a tunnel to the same port of this machine: "
            "ssh -L 7171:127.0.0.1:7171 HOST.",
        )


def prove_listener(connection: HTTPConnection, token: str, prefix: str, url: str) -> None:
    """Let the server at the other end of an open connection prove that it is the gateway of the token's project.

    The proof holds for this connection only.
    """
    challenge = Challenge(token)
    address = print_listener(*connection.sock.getpeername()[:2])
    body = msgspec.json.encode({"head": challenge.head, "nonce": challenge.nonce})
    connection.request("POST", f"{prefix}/proof", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read(MAX_ANSWER_BYTES)
    if response.status != 200 or not response.isclosed() or not challenge.is_met(_proof_in(answer), address):
        connection.close()
        raise ListenerUnproven(
            f"What listens at {url} did not prove that it is the gateway of the token's project; no token was sent.",
            field="url",
            hint=_UNPROVEN,
        )


def _proof_in(answer: bytes) -> object:
    try:
        value = msgspec.json.decode(answer)
    except ValueError:
        return None
    return value.get("proof") if isinstance(value, dict) else None
