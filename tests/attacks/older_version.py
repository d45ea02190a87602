"""Writing what an older version let through, to see what becomes of it in journals that exist."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS


def call_unchecked(gateway: Gateway, name: str, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> Any:
    """Call an operation whose fields may hold invisible characters, as all of them could."""
    operation = OPERATIONS[name]
    every_field = tuple(field.encode_name for field in msgspec.structs.fields(operation.request))
    unchecked = msgspec.structs.replace(operation, raw_fields=every_field, is_hashed=True)
    return gateway.call(unchecked, to_request(fields, operation.request), caller)
