"""`POST /proof`: the server proves to a client that it is the gateway of the client's project (decision 70).

It needs no token: a client asks before it sends one.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.types import Receive, Scope, Send

from engrambus.edges.http.call_log import name_call
from engrambus.edges.http.requests import check_content_type, read_body, read_fields, read_query
from engrambus.edges.http.responses import send_json
from engrambus.errors import FieldValue, TokenInvalid
from engrambus.gateway import Gateway, to_request
from engrambus.policy import MAX_TOKEN_CHARS, NONCE_CHARS, print_listener, proof_of

PROOF_PATH = "/proof"
MAX_BODY_BYTES = 4096


class ProofRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A client's challenge."""

    head: Annotated[str, Meta(max_length=MAX_TOKEN_CHARS, description="The token up to its last dot, without its MAC")]
    nonce: Annotated[
        str, Meta(min_length=NONCE_CHARS, max_length=NONCE_CHARS, description="32 random bytes as base64url")
    ]


class ProofAnswer(Struct, frozen=True, kw_only=True):
    """The server's proof."""

    proof: str


class ProofEndpoint:
    """Answers challenges."""

    def __init__(self, gateway: Gateway) -> None:
        self._key = gateway.key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one challenge with the address that the client's connection has reached."""
        name_call(scope, "proof")
        read_query(scope, frozenset())
        body = await read_body(scope, receive, MAX_BODY_BYTES)
        check_content_type(scope)
        request = to_request(read_fields(body, MAX_BODY_BYTES, frozenset()), ProofRequest)
        try:
            mac = self._key.mac_of(request.head)
        except TokenInvalid:
            raise FieldValue("This is not the head of a token.", field="head") from None
        address = print_listener(*scope["server"])
        answer = ProofAnswer(proof=proof_of(mac, head=request.head, nonce=request.nonce, address=address))
        await send_json(send, msgspec.json.encode(answer))
