"""Journals as versions before the MACs wrote them: format 1."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path


def make_unmarked(journal: Path) -> None:
    """Rewrite a journal without its MACs, as an older version, or anyone without the key, would have written it."""
    journal.write_bytes(without_macs(journal.read_bytes()))


def without_macs(content: bytes) -> bytes:
    """Return the text of a journal in format 1."""
    checksum, text = b"", b""
    for line in content.splitlines():
        body = re.sub(rb',"mac":"[0-9a-f]{32}","sum":"[0-9a-f]{32}"}\Z', b"", line)
        body = re.sub(rb'"mark":[0-9]+(,"seq":[0-9]+)\Z', rb'"mark":%d\1' % len(text), body)
        body = body.replace(b'"format":2', b'"format":1', 1) if not text else body
        checksum = hashlib.sha256(checksum + body).hexdigest()[:32].encode()
        text += body + b',"sum":"' + checksum + b'"}\n'
    return text
