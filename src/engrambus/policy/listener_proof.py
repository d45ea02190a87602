"""Proof of the listener: a client makes sure that a server is its project's gateway before it sends its token.

The client sends the head of its token, which is no secret, and a random nonce. Only who has the project's key can
compute the token's MAC from the head; the server answers with an HMAC under that MAC over nonce, address and head. The
client has the MAC as the last part of its token, and checks the answer. decision 70.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from ipaddress import ip_address

from engrambus.policy.tokens import encode_part, split_token

NONCE_BYTES = 32
NONCE_CHARS = 43
_LABEL = "engrambus listener 1"


class Challenge:
    """One challenge of a client to the server at the other end of a connection."""

    def __init__(self, token: str) -> None:
        self.head, self._mac = split_token(token)
        self.nonce = encode_part(os.urandom(NONCE_BYTES))

    def is_met(self, proof: object, address: str) -> bool:
        """True if a server that listens at this address has answered with the right proof."""
        expected = proof_of(self._mac, head=self.head, nonce=self.nonce, address=address)
        return isinstance(proof, str) and hmac.compare_digest(expected.encode(), proof.encode(errors="replace"))


def proof_of(mac: bytes, *, head: str, nonce: str, address: str) -> str:
    """Return the proof that a server with the key behind a token's MAC listens at an address."""
    # The address is part of it: a stranger that relays the challenge listens at another one.
    text = "\0".join((_LABEL, nonce, address, head))
    return encode_part(hmac.digest(mac, text.encode(), hashlib.sha256))


def print_listener(host: str, port: int) -> str:
    """Return an address of a socket in the one spelling that both sides use."""
    address = ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return f"{mapped or address}|{port}"


def is_loopback(host: str) -> bool:
    """True if a host of a URL is always this machine; other names may lead anywhere."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
