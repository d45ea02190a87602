"""Warnings: exceeded limits that the policy does not enforce, in the form that each edge sends.

decision 49: a warning is the refusal that the call would have got, marked `mode: warn`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from engrambus.errors import EngramBusError, Notice

WARNING_HEADER = "Engrambus-Warning"
MAX_TEXT_CHARS = 300
"""Characters of a text in a header; clients and proxies limit the size of all headers together."""

_TEXTS = ("field", "detail", "hint")
_PARAMETER = re.compile(r';\s*(?P<name>[a-z]+)=(?P<value>"(?:[^"\\]|\\.)*"|[^;"\s]+)')
_CODE = re.compile(r"[A-Z][A-Z_]*")


def warning_problem(warning: EngramBusError) -> dict[str, Any]:
    """Return a warning as the problem object of its refusal, with `mode: warn`."""
    return {**warning.problem(), "mode": "enforce" if isinstance(warning, Notice) else "warn"}


def warning_line(warning: EngramBusError) -> str:
    """Return a warning as one line of text."""
    # A detail may quote what an agent wrote; a line break in it would begin a line of its own.
    detail = " ".join(warning.detail.split())
    # decision 45: a notice says what an enforced limit changed; any other warning is about one that is not enforced
    outcome = "" if isinstance(warning, Notice) else " This limit only warns; it was not enforced."
    return f"{warning.code}: {detail}{outcome}"


def warning_header(warning: EngramBusError) -> str:
    """Return a warning as the value of a header: `CODE; limit=800; used=900; detail="…"`, each value as ASCII JSON."""
    amounts = {"limit": warning.limit, "used": warning.used}
    values: dict[str, Any] = {name: value for name, value in amounts.items() if value is not None}
    for name in _TEXTS:
        text = getattr(warning, name)
        if text:
            values[name] = text[:MAX_TEXT_CHARS]
    return "; ".join([warning.code, *(f"{name}={json.dumps(value)}" for name, value in values.items())])


def parse_warning_header(text: str) -> EngramBusError | None:
    """Return the warning in the value of a header; None if it is not one."""
    code = _CODE.match(text)
    if code is None:
        return None
    problem: dict[str, Any] = {"code": code[0]}
    for parameter in _PARAMETER.finditer(text, code.end()):
        try:
            problem[parameter["name"]] = json.loads(parameter["value"])
        except ValueError:
            return None
    return EngramBusError.from_problem(problem)
