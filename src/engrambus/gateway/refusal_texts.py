"""The texts of refusals: what a caller wrote may be quoted in them, but no secret (decision 71)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from engrambus.errors import EngramBusError

if TYPE_CHECKING:
    from logging import LogRecord  # decision 39: it takes long to load

AnyError = TypeVar("AnyError", bound=EngramBusError)


def hide_secrets_in(refusal: AnyError) -> AnyError:
    """Replace what may be a secret in the texts of a refusal, and return it.

    Every edge does this to what it shows; the gateway to what its operations raise.
    """
    if not refusal.quotes_caller:  # decision 65: the path of a link must be readable, or nobody can remove it
        return refusal
    for name in ("detail", *refusal.members):
        setattr(refusal, name, _clean(getattr(refusal, name)))
    refusal.args = (refusal.detail,)
    return refusal


def _clean(value: Any) -> Any:
    # Imported here: a call that is not refused needs none of it.
    from engrambus.policy.secrets import hide_secrets

    if isinstance(value, str):
        return hide_secrets(value)
    if isinstance(value, Mapping):
        return {name: _clean(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(_clean, value))
    return value


def hide_secrets_in_faults(record: LogRecord) -> bool:
    """Replace secrets in the message and the traceback of a log record; a filter for loggers of unexpected errors."""
    import traceback

    from engrambus.policy.secrets import hide_secrets

    record.msg, record.args = hide_secrets(record.getMessage()), ()
    if record.exc_info and record.exc_info[1] is not None:
        # A formatter that prints the traceback takes this text; the exception may quote what was sent.
        record.exc_text = hide_secrets("".join(traceback.format_exception(record.exc_info[1])).rstrip("\n"))
    return True
