"""Refusing what holds a secret, and taking secrets out of what is kept all the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from engrambus.errors import SecretCheckFailed, SecretFound
from engrambus.policy.secrets.assigned import named
from engrambus.policy.secrets.finder import Secret, find_secrets

_HINT = "Leave it out, or point to where it is kept. Change it where it was valid if it was real."
_PASSES = 4
SHORTEST = 8
"""No secret that is told by its own form is shorter."""
_APART = "\n\0\n"
"""What stands between texts that are searched together: no secret, and nothing that excuses one, reaches across it."""


def check_no_secrets(value: object, field: str = "") -> None:
    """Refuse a JSON value if any string in it, keys too, holds a secret; refuse to answer if that cannot be told."""
    try:
        found = next(_search(value, field), None)
    except Exception:
        # The cause may quote the text, so it is not carried along.
        raise SecretCheckFailed(field=field or None) from None
    if found:
        where, kind = found
        raise SecretFound(f"The text holds a secret: {kind}.", field=where or None, hint=_HINT)


def redact(text: str) -> tuple[str, list[Secret]]:
    """The text with each secret replaced by `[redacted:kind]`, and what was taken out, by its place in the original.

    Taking one secret out can bring another to light (a value that was part of a longer one), so it is looked at again
    until nothing is found; a text that does not settle is replaced whole.
    """
    try:
        notes = found = find_secrets(text)
        clean = text
        for _ in range(_PASSES):
            if not found:
                return clean, notes
            clean = _replace(clean, found)
            found = find_secrets(clean)
    except Exception:
        raise SecretCheckFailed from None
    return (clean, notes) if not found else ("[redacted:text]", notes)


def _replace(text: str, found: list[Secret]) -> str:
    parts: list[str] = []
    at = 0
    for secret in found:
        parts += (text[at : secret.start], f"[redacted:{secret.kind}]")
        at = secret.end
    return "".join((*parts, text[at:]))


@lru_cache(maxsize=1024)
def _in_key(key: str) -> tuple[str, ...]:
    """The secrets in a key; the same few keys come again and again."""
    return tuple(secret.kind for secret in find_secrets(key))


def _search(value: object, field: str) -> Iterator[tuple[str, str]]:
    """Field and kind of each secret, depth first and in order; keys before what they name."""
    said = list(_walk(value, field))
    long = [text for _, _, text in said if len(text) >= SHORTEST]
    # Nearly always there is nothing to find, and one look at everything tells it.
    quiet = not find_secrets(_APART.join(long))
    for where, name, text in said:
        if name is None:
            for kind in _in_key(text):
                yield where, kind
            continue
        if not quiet and len(text) >= SHORTEST:
            for secret in find_secrets(text):
                yield where, secret.kind
        told = named(name, text) if name else None
        if told is not None:
            yield where, told


def _walk(value: object, field: str) -> Iterator[tuple[str, str | None, str]]:
    """Every text with its field and the name it stands under; a key is a text under no name at all."""
    waiting: list[tuple[object, str, str]] = [(value, field, "")]
    while waiting:
        item, where, name = waiting.pop()
        if isinstance(item, str):
            yield where, name, item
        elif isinstance(item, dict):
            inner: list[tuple[object, str, str]] = []
            for key, below in item.items():
                if not isinstance(key, str):
                    raise TypeError("a key that is not a string")
                if _in_key(key):
                    yield (f"{where}.(key)" if where else "(key)"), None, key
                inner.append((below, f"{where}.{key}" if where else key, key))
            waiting += reversed(inner)
        elif isinstance(item, list | tuple):
            waiting += [(below, f"{where}[{at}]", name) for at, below in enumerate(item)][::-1]
        elif item is not None and not isinstance(item, bool | int | float):
            raise TypeError("a value that is not JSON")
