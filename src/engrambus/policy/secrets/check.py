"""Refusing values that contain a secret, and redacting secrets in texts that are stored in any case."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from engrambus.errors import SecretCheckFailed, SecretFound
from engrambus.policy.secrets.assignments import secret_kind_of_field
from engrambus.policy.secrets.connections import is_manifest_value
from engrambus.policy.secrets.finder import SEPARATOR, Secret, find_secrets
from engrambus.policy.secrets.rules import DEFAULT_RULES, SecretRules

_FAILED_HINT = "Nothing was stored. Send the text without credentials, or in smaller parts."
_HINT = "Leave it out, or point to the place where it is stored. If it was a real secret, replace it with a new one."
_REDACTION_PASSES = 4
MAX_REDACTIONS = 100
"""Secrets that are replaced in one text; one with more is a dump of credentials, and is not stored at all."""
_MANIFEST = "(manifest)"
"""Instead of the key of a value that its manifest makes a secret."""
MIN_SECRET_CHARS = 8
"""A shorter text is a secret only by the name of its field."""
_SEPARATOR = SEPARATOR.decode()


class RedactionFailed(Exception):
    """The text cannot be redacted: it has too many secrets, or removing them reveals others again and again."""


def check_no_secrets(value: object, field: str = "", rules: SecretRules = DEFAULT_RULES) -> None:
    """Refuse a JSON value if any string in it, keys included, contains a secret.

    If the check itself fails, the value is refused too.
    """
    try:
        secret = next(_search(value, field, rules), None)
    except Exception:
        # The cause may quote the text, so it is not chained.
        raise SecretCheckFailed(field=field or None, hint=_FAILED_HINT) from None
    if secret:
        location, kind = secret
        raise SecretFound(f"The text contains a secret: {kind}.", field=location or None, hint=_HINT)


def redact(text: str, rules: SecretRules = DEFAULT_RULES) -> tuple[str, list[Secret]]:
    """Return the text with each secret replaced by `[redacted:kind]`, and the secrets at their original positions."""
    try:
        original = secrets = find_secrets(text, rules)
        if len(secrets) > MAX_REDACTIONS:
            raise RedactionFailed
        clean = text
        # Removing a secret can reveal another one, for example a value that was part of a longer one.
        for _ in range(_REDACTION_PASSES):
            if not secrets:
                return clean, original
            clean = _replace(clean, secrets)
            secrets = find_secrets(clean, rules)
        raise RedactionFailed
    except Exception:
        # The cause may quote the text, so it is not chained.
        raise SecretCheckFailed(hint=_FAILED_HINT) from None


def _replace(text: str, secrets: list[Secret]) -> str:
    parts: list[str] = []
    copied = 0
    for secret in secrets:
        parts += (text[copied : secret.start], f"[redacted:{secret.kind}]")
        copied = secret.end
    return "".join((*parts, text[copied:]))


@lru_cache(maxsize=1024)
def _secrets_in_key(key: str) -> tuple[str, ...]:
    # Cached because the same few keys recur in every request.
    return tuple(secret.kind for secret in find_secrets(key))


def _search(value: object, field: str, rules: SecretRules) -> Iterator[tuple[str, str]]:
    """Yield field and kind of each secret, depth first and in order; a key comes before its value."""
    texts = list(_walk(value, field))
    long_texts = [text for _, _, text in texts if len(text) >= MIN_SECRET_CHARS]
    # decision 14: nearly always there is no secret, and one search of everything shows it
    is_clean = not find_secrets(_SEPARATOR.join(long_texts), rules)
    for location, name, text in texts:
        if name is None:
            for kind in _secrets_in_key(text):
                yield location, kind
            continue
        if name is _MANIFEST:
            if is_manifest_value(text.encode("ascii", "replace")):
                yield location, "kubernetes-secret"
            continue
        if not is_clean and len(text) >= MIN_SECRET_CHARS:
            for secret in find_secrets(text, rules):
                yield location, secret.kind
        kind_by_name = secret_kind_of_field(name, text) if name else None
        if kind_by_name is not None:
            yield location, kind_by_name


def _walk(value: object, field: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield field, key and text of every string; the key of a key itself is None."""
    pending: list[tuple[object, str, str]] = [(value, field, "")]
    while pending:
        item, location, name = pending.pop()
        if isinstance(item, str):
            yield location, name, item
        elif isinstance(item, dict):
            inner: list[tuple[object, str, str]] = []
            if item.get("kind") in ("Secret", "secret"):
                yield from _manifest_texts(item, location)
            for key, child in item.items():
                if not isinstance(key, str):
                    raise TypeError("a key that is not a string")
                if _secrets_in_key(key):
                    # The field of the refusal must not quote the secret.
                    yield (f"{location}.(key)" if location else "(key)"), None, key
                inner.append((child, f"{location}.{key}" if location else key, key))
            pending += reversed(inner)
        elif isinstance(item, list | tuple):
            pending += [(child, f"{location}[{index}]", name) for index, child in enumerate(item)][::-1]
        elif item is not None and not isinstance(item, bool | int | float):
            raise TypeError("a value that is not JSON")


def _manifest_texts(manifest: dict[str, object], field: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield the values of a Kubernetes manifest of the kind Secret that was sent as an object."""
    for block in ("data", "stringData"):
        values = manifest.get(block)
        for key, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, str):
                yield f"{field}.{block}.{_shown_key(key)}".removeprefix("."), _MANIFEST, value


def _shown_key(key: object) -> str:
    """Return a key as a field names it: not if it is a secret."""
    return "(key)" if not isinstance(key, str) or _secrets_in_key(key) else key
