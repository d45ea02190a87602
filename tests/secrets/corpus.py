"""The corpus of the secret detector: secrets in context, and harmless texts that look like them.

It imports nothing of the detector. Everything is generated from a seed; the results for `TUNING` were used to write the
rules, `HELD_OUT` is only measured.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import sysconfig
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.secrets.kinds import ALNUM, BASE64, FREE, HEX, NAMED, UPPER, draw

TUNING, HELD_OUT = 1, 2
ROOT = Path(__file__).parents[2]


class Sample(NamedTuple):
    """A text with one secret, and its position."""

    kind: str
    place: str
    text: str
    start: int
    end: int


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _b64url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _lines(text: str) -> str:
    wrapped = _b64(text)
    return "\n".join(wrapped[index : index + 76] for index in range(0, len(wrapped), 76))


def _hex(text: str) -> str:
    return binascii.hexlify(text.encode()).decode()


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "base64": _b64,
    "base64url": _b64url,
    "base64-lines": _lines,
    "hex": _hex,
    "base64-twice": lambda text: _b64(_b64(text)),
    "hex-twice": lambda text: _hex(_hex(text)),
    "base64-of-hex": lambda text: _b64(_hex(text)),
    "hex-of-base64": lambda text: _hex(_b64(text)),
}

# `@` is replaced by the secret. A secret of several lines is put into the first two only.
PLACES = {
    "bare": "@",
    "prose": "The nightly job failed because @ was rotated last week; see the runbook.",
    "parenthesis": "We call the vendor directly (@), which is wrong.",
    "backticks": "Use `@` for staging.",
    "python": 'client = Client(base_url="https://api.acme.dev", value="@", retries=3)',
    "env": "LOG_LEVEL=info\nVALUE=@\nPORT=8080\n",
    "yaml": "service:\n  name: billing\n  value: @\n  replicas: 2\n",
    "json": '{"name": "billing", "value": "@", "replicas": 2}',
    "escaped": '{"body": "first line\\n@\\nsecond line"}',
    "shell": "curl -sS -H 'X-Custom: @' https://api.acme.dev/v1/items",
    "query": "https://api.acme.dev/v1/items?page=2&value=@&sort=asc",
    "log": "2024-05-01T10:00:00Z WARN gateway retry=3 value=@ status=401",
    "markdown": "| name | value |\n|---|---|\n| prod | @ |\n",
    "diff": "@@ -1,2 +1,2 @@\n-old\n+value: @\n".replace("@@", "\0"),
    "unicode": "Ключ доступа — «@» — нельзя хранить здесь 🙂.",
    "xml": "<entry><value>@</value></entry>",
}
_LINE_PLACES = ("bare", "env", "escaped", "markdown", "yaml")


def _put(kind: str, place: str, secret: str) -> Sample:
    head, _, tail = PLACES[place].partition("@")
    text = f"{head}{secret}{tail}".replace("\0", "@@")
    start = text.index(secret)
    return Sample(kind, place, text, start, start + len(secret))


def secrets(seed: int, rounds: int = 2) -> Iterator[Sample]:
    """Yield each kind in each place, plain and encoded, `rounds` times."""
    for kind, make in (*FREE.items(), *NAMED.items()):
        rng = Random(f"{seed}/{kind}")
        for _ in range(rounds):
            for place in PLACES:
                secret = make(rng)
                if "\n" in secret or kind in NAMED or kind.endswith("header"):
                    yield _put(kind, rng.choice(_LINE_PLACES[:2] if "\n" in secret else _LINE_PLACES), secret)
                elif not (place == "query" and "://" in secret):
                    yield _put(kind, place, secret)
            for wrapping, wrap in WRAPPINGS.items():
                secret = make(rng)
                if kind == "high-entropy" and wrapping not in ("base64", "base64url", "hex"):
                    continue
                place = "bare" if wrapping == "base64-lines" else rng.choice(list(PLACES))
                yield _put(kind, place, wrap(secret))._replace(place=wrapping)


def look_alikes(seed: int, rounds: int = 60) -> Iterator[tuple[str, str]]:
    """Yield generated harmless texts with their names."""
    rng = Random(f"{seed}/innocent")
    for name, make in _LOOK_ALIKES.items():
        yield name, "\n".join(make(rng) for _ in range(rounds))


def _ulid(rng: Random) -> str:
    return draw(rng, "01234567", 1) + draw(rng, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 25)


def _sha(rng: Random, size: int = 40) -> str:
    return draw(rng, HEX, size)


def _integrity(rng: Random) -> str:
    digest = base64.b64encode(hashlib.sha512(rng.randbytes(8)).digest()).decode()
    link = "https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz"
    return f'      "resolved": "{link}",\n      "integrity": "sha512-{digest}",'


def _png(rng: Random) -> str:
    body = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + zlib.compress(rng.randbytes(600))
    return f"![icon](data:image/png;base64,{base64.b64encode(body).decode()})"


def _png_lines(rng: Random) -> str:
    body = base64.encodebytes(b"\x89PNG\r\n\x1a\n" + rng.randbytes(400)).decode()
    return "image/png\n\n" + body


def _minified(rng: Random) -> str:
    names = [draw(rng, ALNUM[:52], rng.choice([1, 1, 2])) for _ in range(24)]
    words = ["function", "return", "prototype", "getElementById", "addEventListener", "createTextNode", "token", "key"]
    body = "".join(
        f"{rng.choice(names)}.{rng.choice(words)}({rng.choice(names)},{rng.randrange(999)}),{rng.choice(names)}=!{rng.choice('01')};"
        for _ in range(30)
    )
    return f"!function({','.join(names[:4])}){{{body}}}();"


def _pointer(rng: Random) -> str:
    return rng.choice(
        [
            f"repo:src/auth/token_store.py#L10-L20@{_sha(rng)}",
            f"repo:billing//lib/Password.java@{_sha(rng, 64)}",
            f"artifact:docs/secrets.md#sec=Rotate/Keys@{_sha(rng)}",
            f"artifact:sha256:{_sha(rng, 64)}",
            f"sam:secret:rotation-policy-{rng.randrange(2000, 2030)}@2024-0{rng.randrange(1, 9)}-11",
            f"diff:config/api_key.py@{_sha(rng)}..{_sha(rng)}",
            f"test:tests/test_token.py::test_expiry@sha256:{_sha(rng, 64)}",
            f"url:https://example.com:8443@sha256:{_sha(rng, 64)}",
            f"url:https://docs.acme.dev/guide?page=2@sha256:{_sha(rng, 64)}",
        ]
    )


_PLACEHOLDERS = (
    "OPENAI_API_KEY=sk" + "-" + "x" * 32,
    "GITHUB_TOKEN=gh" + "p_" + "X" * 36,
    "token: <token>",
    "password: ${DB_PASSWORD}",
    "api_key: {{ vault.api_key }}",
    "AWS_ACCESS_KEY_ID=AKIA" + "IOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMI/" + "K7MDENG/bPxRfiCYEXAMPLEKEY",
    "postgres://user:password@localhost/db",
    "https://user:<password>@host/",
    "redis://:${REDIS_PASSWORD}@cache:6379/0",
    "Authorization: Bearer YOUR_ACCESS_TOKEN_HERE",
    "Authorization: Bearer $TOKEN",
    "password = os.environ['DB_PASSWORD']",
    "secret = config.get('client_secret')",
    "token = self.tokenizer.next_token()",
    "password: str | None = None",
    "max_tokens=1200, token_count=15, tokens: 800",
    "const apiKey = process.env.STRIPE_SECRET_KEY;",
    "password_hash = hash_password(password, rounds=12)",
    "the token is a short-lived credential; the secret: rotate it every 30 days",
    "sk-" + "your-key-here",
    "npm" + "_config_registry=https://registry.npmjs.org",
    "key-" + "0" * 32,
    "ssh://git@github.com:22/acme/repo.git",
    "http://localhost:8080/@scope/package",
)


def _css(rng: Random) -> str:
    return f".sidebar_menu-item__{draw(rng, ALNUM, 5)} {{ --color-token-primary-500: #{_sha(rng, 6)}; }}"


def _pip(rng: Random) -> str:
    return f"click=={rng.randrange(9)}.1.0 \\\n    --hash=sha256:{_sha(rng, 64)} \\\n    --hash=sha256:{_sha(rng, 64)}"


def _go_sum(rng: Random) -> str:
    return f"github.com/pkg/errors v0.9.1 h1:{base64.b64encode(rng.randbytes(32)).decode()}"


_LOOK_ALIKES: dict[str, Callable[[Random], str]] = {
    "git-shas": lambda rng: f"commit {_sha(rng)}\nFixed in {_sha(rng, 12)} and reverted by {_sha(rng)}.",
    "sha256": lambda rng: f"sha256:{_sha(rng, 64)} and the digest {_sha(rng, 64)} of the body",
    "agents": lambda rng: f"{_ulid(rng)}/coder asked {_ulid(rng)}/reviewer-2; agent: {_ulid(rng)}/tests",
    "ulids": lambda rng: f"engram {_ulid(rng)} confirms {_ulid(rng)}; token_id: {_ulid(rng)}",
    "uuids": lambda rng: (
        f"run {uuid.UUID(int=rng.getrandbits(128), version=4)} ended; request-id {uuid.UUID(int=rng.getrandbits(128))}"
    ),
    "images": _png,
    "image-lines": _png_lines,
    "integrity": _integrity,
    "pip-hashes": _pip,
    "go-sum": _go_sum,
    "minified": _minified,
    "pointers": _pointer,
    "placeholders": lambda rng: rng.choice(_PLACEHOLDERS),
    "css": _css,
    "public-keys": lambda rng: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{draw(rng, BASE64, 43)} ana@laptop",
    "certificates": lambda rng: (
        "-----BEGIN CERTIFICATE-----\n"
        + base64.encodebytes(b"\x30\x82\x03\x10\x30\x82" + rng.randbytes(500)).decode()
        + "-----END CERTIFICATE-----"
    ),
    "constants": lambda rng: (
        f"MAX_{draw(rng, UPPER[:26], 6)}_RETRIES_PER_CONNECTION_{rng.randrange(99)} = {rng.randrange(10**9)}"
    ),
    "identifiers": lambda rng: (
        f"V{rng.randrange(9)}ServiceAccountTokenProjection.readNamespacedSecretV{rng.randrange(9)}Status()"
    ),
}

_SUFFIXES = {
    ".py",
    ".pyi",
    ".js",
    ".json",
    ".md",
    ".rst",
    ".txt",
    ".toml",
    ".css",
    ".html",
    ".h",
    ".c",
    ".yaml",
    ".yml",
    ".cfg",
}


def real_texts(seed: int, max_chars: int) -> Iterator[tuple[Path, str]]:
    """Yield half of the texts of this project and of installed packages, chosen by name."""
    roots = [ROOT / "requirements", ROOT / "docs", ROOT / "src", Path(sysconfig.get_path("purelib"))]
    listed = [path for root in roots for path in root.rglob("*") if path.suffix in _SUFFIXES and path.is_file()]
    listed += [path for path in roots[-1].glob("*.dist-info/**/LICENSE*") if path.is_file()]
    total = 0
    for _, path in sorted((hashlib.sha256(str(path).encode()).hexdigest(), path) for path in listed):
        if zlib.crc32(str(path).encode()) % 2 != seed % 2:
            continue
        text = path.read_text("utf-8", "replace")[:400_000]
        total += len(text)
        yield path, text
        if total > max_chars:
            return
