"""Passwords of databases and clusters: in connection strings, in addresses, and in Kubernetes manifests.

What stands around them says that they are passwords, so that a plain word is one too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from engrambus.policy.secrets.structure import SecretSpan
from engrambus.policy.secrets.value_checks import is_placeholder, value_patterns

_MAX_LINE = 400
_MAX_MANIFEST = 20_000
_MAX_ENTRIES = 200


class ConnectionPatterns:
    """The compiled patterns; one instance, created on first use."""

    def __init__(self) -> None:
        # Beside one of these in the same line, `password=` belongs to a connection string.
        self.server = re.compile(
            rb"(?:server|data source|host|hostname|uid|user id|user|username|initial catalog|database|databasename"
            rb"|dbname|dsn|driver|provider|account|addr|endpoint)\s?=\s?(?:[^\s;&\"',]|,(?=[0-9])){1,100}[;&\s]"
        )
        self.password = re.compile(rb"(?:password|passwd|pwd)\s?=\s?(\{[^}\r\n]{1,128}\}|[^\s;&\"'`<>,]{3,200}+)")
        self.oracle = re.compile(rb"jdbc:oracle:[a-z0-9]{2,6}:[^\s/@\"']{1,64}/([^\s@\"']{3,64})@")
        self.manifest = re.compile(rb"[\"']?kind[\"']?\s{0,4}:\s{0,4}[\"']?secret\b[\"']?")
        self.data = re.compile(
            rb"(?P<lead>^[ \t+>-]{0,20}|[{,]\s{0,40})[\"']?(?:string)?data[\"']?[ \t]{0,4}:[ \t]{0,4}", re.MULTILINE
        )
        self.entry = re.compile(
            rb"[ \t+>\"'{,]{0,40}+[A-Za-z0-9._-]{1,253}+[\"']?[ \t]{0,4}:[ \t]{0,4}"
            rb"(?:[|>][+-]?[ \t]{0,4}\r?\n[ \t+>]{1,40}+)?"
            rb"[\"']?(?P<value>[^\s\"',}]{1,16384}+)[\"']?[ \t,]{0,4}(?:\r?\n|(?=\}))?"
        )


@cache
def connection_patterns() -> ConnectionPatterns:
    """Return the compiled patterns."""
    return ConnectionPatterns()


def find_connection_passwords(data: bytes, low: bytes) -> Iterator[SecretSpan]:
    """Find passwords in connection strings of ADO, ODBC, JDBC, libpq and Oracle."""
    patterns, end = connection_patterns(), 0
    for match in patterns.password.finditer(low):
        if match.start() < end:
            continue
        start = max(data.rfind(b"\n", max(0, match.start() - _MAX_LINE), match.start()), match.start() - _MAX_LINE, 0)
        stop = data.find(b"\n", match.end(), match.end() + 200)
        context = low[start : match.start()] + b" " + low[match.end() : stop if stop >= 0 else match.end() + 200] + b";"
        if patterns.server.search(context) and not _is_no_password(data[match.start(1) : match.end(1)]):
            yield "connection-password", match.start(1), match.end(1)
            end = match.end()
    for match in patterns.oracle.finditer(low):
        if not _is_no_password(data[match.start(1) : match.end(1)]):
            yield "connection-password", match.start(1), match.end(1)


def _is_no_password(value: bytes) -> bool:
    value = value.strip(b"{}").rstrip(b")")
    if value.lower() in value_patterns().weak or is_placeholder(value) or value[:1] in b"$%#(@:?":
        return True
    return (value.isdigit() and len(value) < 6) or value_patterns().weak_words.fullmatch(value.lower()) is not None


def find_manifest_values(data: bytes, low: bytes) -> Iterator[SecretSpan]:
    """Find the values of Kubernetes manifests of the kind Secret, in YAML and in JSON."""
    patterns, done = connection_patterns(), 0
    for manifest in patterns.manifest.finditer(low):
        if manifest.start() < done:
            continue
        # One document: the fields of a manifest come in any order.
        earliest = max(done, manifest.start() - _MAX_MANIFEST)
        first = max(data.rfind(b"\n---", earliest, manifest.start()), earliest)
        last = data.find(b"\n---", manifest.end(), manifest.end() + _MAX_MANIFEST)
        last = last if last >= 0 else min(len(data), manifest.end() + _MAX_MANIFEST)
        for block in patterns.data.finditer(low, first, last):
            yield from _entries(data, low, block.end(), last, _indent(block["lead"]))
        done = last


def is_manifest_value(value: bytes) -> bool:
    """True if a value of a Kubernetes Secret is given in clear or as base64, and not left out or filled in later."""
    is_certificate = value.startswith(b"LS0tLS1CRUdJTiBDRVJU")  # -----BEGIN CERT
    return len(value) >= 4 and not is_certificate and not is_placeholder(value) and value[:2] not in (b"{{", b"${")


def _indent(lead: bytes) -> int:
    return len(lead) if lead[:1] not in b"{," else -1


def _entries(data: bytes, low: bytes, index: int, last: int, indent: int) -> Iterator[SecretSpan]:
    """Yield the values of the entries that follow the name of a block and are indented further than it."""
    is_flow = data[index : index + 1] == b"{"
    if not is_flow:
        line_end = data.find(b"\n", index, last)
        if line_end < 0 or data[index:line_end].strip():
            return
        index = line_end + 1
    for _ in range(_MAX_ENTRIES):
        entry = connection_patterns().entry.match(data, index, last)
        if entry is None:
            return
        lead = len(entry[0]) - len(entry[0].lstrip(b" \t+>-"))
        if not is_flow and lead <= indent:
            return
        if is_manifest_value(entry["value"]):
            yield "kubernetes-secret", entry.start("value"), entry.end("value")
        index = entry.end()
