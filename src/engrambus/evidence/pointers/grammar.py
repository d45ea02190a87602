"""The grammar of pointers: each address has exactly one canonical text.

    repo:[name//]path[#L10-L20]@<40 or 64 hex>      lines of a file at a commit, or the whole file
    artifact:[name//]NAME[#sec=Heading/Path]@<sha|version>
                                                    a section of a document at a commit or a tag; Heading[2] is the
                                                    second of several equal headings under one parent
    artifact:sha256:<64 hex>[#L10-L20]              a stored body, or lines of it
    sam:<kind>:<slug>@<date|version>                an entry of the episodic store
    diff:[name//]path@<base>..<head>                how a file changed between two commits
    test:<node id>@sha256:<64 hex>                  a case in a test receipt
    url:https://…@sha256:<64 hex>                   a page, pinned by its digest

`name//` is the repository, where it is not the project's own: one that `project.yaml` configures under that name.
The pin (commit, version or digest) follows the last `@`. In names, `%`, `#`, `@` and spaces are percent-encoded;
letters outside ASCII stay as they are. `parse_ref` accepts needless encodings and raw spaces, `print_address` never
writes them. A heading that itself ends in [2] is written with %5B2%5D. Parsing takes time in proportion to the text,
because refs come from agents that may be hostile.
"""

from __future__ import annotations

import re
from datetime import date

import msgspec

from engrambus.core import is_digest, is_hex
from engrambus.errors import (
    PointerDisagrees,
    PointerNotPinned,
    PointerPath,
    PointerRevision,
    PointerSpan,
    PointerSyntax,
    PointerTooLong,
)
from engrambus.evidence.pointers.addresses import (
    Address,
    ArtifactAddress,
    BodyAddress,
    DiffAddress,
    Pointer,
    RepoAddress,
    SamAddress,
    TestAddress,
    UrlAddress,
)
from engrambus.visible_text import make_visible

MAX_REF = 300
MAX_LINE = 10_000_000
MAX_VERSION = 64
TYPES = ("repo", "artifact", "sam", "diff", "test", "url")

_NUMBERED = re.compile(r"(.+)\[([1-9][0-9]{0,6})\]", re.DOTALL)
"""A heading with its number among equal ones."""
_DIGITS = frozenset("0123456789")
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_VERSION = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-")
_HOST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")
_SHA_HINT = "Write the full commit id: 40 or 64 lower-case hex digits (git rev-parse HEAD)."


def parse_ref(ref: str, field: str = "ref") -> Address:
    """Return the address a ref names, or refuse it with the reason."""
    if len(ref) > MAX_REF:
        raise PointerTooLong(field=field, limit=MAX_REF, used=len(ref))
    if not ref.isascii():
        _check_unicode(ref, field)
    scheme, colon, body = ref.partition(":")
    reader = _READERS.get(scheme) if colon else None
    if reader is None:
        raise PointerSyntax(
            "A ref starts with its type and a colon.",
            field=field,
            limit=", ".join(TYPES),
            hint="For lines of a file: repo:src/parser.py#L10-L20@<the full commit id>.",
        )
    return reader(body, field)


def print_address(address: Address) -> str:
    """Return the canonical text of an address."""
    match address:
        case RepoAddress():
            lines = f"#{print_lines(address.lines)}" if address.lines else ""
            return f"repo:{_qualifier(address.repository)}{_encode(address.path)}{lines}@{address.revision}"
        case ArtifactAddress():
            section = ""
            if address.section is not None:
                section = f"#sec={print_section(address.section, address.numbers)}"
            # The colon is encoded so that no name can be mistaken for the digest of a body.
            name = f"{_qualifier(address.repository)}{_encode(address.name)}".replace(":", "%3A")
            return f"artifact:{name}{section}@{address.version}"
        case BodyAddress():
            return f"artifact:{address.digest}" + (f"#{print_lines(address.lines)}" if address.lines else "")
        case SamAddress():
            return f"sam:{_encode(address.kind).replace(':', '%3A')}:{_encode(address.slug)}@{address.version}"
        case DiffAddress():
            return f"diff:{_qualifier(address.repository)}{_encode(address.path)}@{address.base}..{address.head}"
        case TestAddress():
            return f"test:{_encode(address.node)}@{address.receipt}"
        case UrlAddress():
            return f"url:{address.url}@{address.digest}"


def check_pointer(pointer: Pointer | str, field: str = "pointer") -> tuple[Pointer, Address]:
    """Return the pointer in canonical form, with its span moved into `ref`, and the address it names.

    A text is the ref of a pointer alone.
    """
    if isinstance(pointer, str):
        pointer = Pointer(type=pointer.partition(":")[0], ref=pointer)
    address = parse_ref(pointer.ref, f"{field}.ref")
    scheme = pointer.ref.partition(":")[0]
    if pointer.type != scheme:
        if pointer.type not in TYPES:
            raise PointerSyntax("There is no such type of pointer.", field=f"{field}.type", hint=", ".join(TYPES))
        raise PointerDisagrees("The type is not the one the ref starts with.", field=f"{field}.type", limit=scheme)
    if pointer.span is not None:
        address = _with_span(address, pointer.span, f"{field}.span")
    if pointer.digest is not None:
        _check_digest(address, pointer.digest, f"{field}.digest")
    ref = print_address(address)
    if len(ref) > MAX_REF:
        raise PointerTooLong(
            "The pointer is too long once encoded.", field=f"{field}.ref", limit=MAX_REF, used=len(ref)
        )
    if ref == pointer.ref and pointer.span is None:  # the usual case; nothing new is built
        return pointer, address
    return Pointer(type=pointer.type, ref=ref, digest=pointer.digest), address


def print_lines(lines: tuple[int, int]) -> str:
    """Return a line span as a fragment: `L10-L20`."""
    return f"L{lines[0]}-L{lines[1]}"


def print_section(section: tuple[str, ...], numbers: tuple[int, ...] = ()) -> str:
    """Return a heading path as a fragment; a slash inside a heading is encoded.

    `numbers` tells which of several equal headings is meant, for each heading; 0 where only its text counts.
    """
    return "/".join(map(_print_heading, section, numbers or (0,) * len(section)))


def _print_heading(heading: str, number: int) -> str:
    text = _encode(heading).replace("/", "%2F")
    if number:
        return f"{text}[{number}]"
    literal = _NUMBERED.fullmatch(text)
    return f"{literal[1]}%5B{literal[2]}%5D" if literal else text


def parse_lines(text: str, field: str = "span") -> tuple[int, int]:
    """Return the first and last line that `L10-L20` or `L10` names."""
    first, dash, last = text.partition("-")
    start = _line(first, field)
    end = _line(last, field) if dash else start
    if end < start:
        raise PointerSpan("The span ends before it starts.", field=field, hint=f"L{end}-L{start}")
    return start, end


def check_path(path: str, field: str = "path") -> str:
    """Return the path if it stays inside its tree and can be written on one line; refuse it otherwise."""
    if not path:
        raise PointerPath("The path is missing.", field=field)
    if "\\" in path or _has_control(path):
        raise PointerPath("A path contains no backslash and no control character.", field=field)
    if path[0] == "/":
        raise PointerPath("A path is relative to the top of its tree.", field=field)
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            raise PointerPath("A path has no empty, `.` or `..` segment.", field=field)
    return path


def check_name(text: str, field: str = "name") -> str:
    """Return the text if it can name a repository: one segment of a path."""
    if "/" in check_path(text, field):
        raise PointerPath("A name is one segment, without slashes.", field=field)
    return text


def check_revision(text: str, field: str = "revision") -> str:
    """Return the revision if it is a full commit id; refuse it otherwise."""
    if not text:
        raise PointerNotPinned(field=field, hint=_SHA_HINT)
    if not is_hex(text, 40, 64):
        raise PointerRevision(field=field, hint=_SHA_HINT)
    return text


def _repo(body: str, field: str) -> RepoAddress:
    target, revision = _pin(body, field)
    target, mark, fragment = target.partition("#")
    revision = check_revision(revision, field)
    repository, path = _place(target, field)
    lines = parse_lines(fragment, field) if mark else None
    return RepoAddress(path=path, revision=revision, lines=lines, repository=repository)


def _artifact(body: str, field: str) -> ArtifactAddress | BodyAddress:
    if body.startswith("sha256:"):
        body, mark, fragment = body.partition("#")
        if not is_digest(body):
            raise PointerRevision("The body's digest is not sha256: and 64 lower-case hex digits.", field=field)
        return BodyAddress(digest=body, lines=parse_lines(fragment, field) if mark else None)
    target, version = _pin(body, field)
    target, mark, fragment = target.partition("#")
    version = _version(version, field)
    repository, name = _place(target, field)
    if not mark:
        return ArtifactAddress(name=name, version=version, repository=repository)
    kind, equals, headings = fragment.partition("=")
    if kind != "sec" or not equals:
        raise PointerSpan("An artifact's fragment names a section.", field=field, hint="#sec=Heading")
    section, numbers = _section(headings, field)
    return ArtifactAddress(name=name, version=version, section=section, numbers=numbers, repository=repository)


def _sam(body: str, field: str) -> SamAddress:
    target, version = _pin(body, field)
    kind, colon, slug = target.partition(":")
    if not colon or not kind or not slug:
        raise PointerSyntax(
            "A sam pointer names a kind and an entry.", field=field, hint="sam:decision:publish-domain@…"
        )
    version = _version(version, field)
    return SamAddress(kind=_segment(kind, field), slug=_segment(slug, field), version=version)


def _diff(body: str, field: str) -> DiffAddress:
    target, revisions = _pin(body, field)
    base, dots, head = revisions.partition("..")
    if not revisions or not dots:
        raise (PointerRevision if revisions else PointerNotPinned)(
            "A diff names two commits.", field=field, hint="diff:path@<base>..<head>"
        )
    base, head = check_revision(base, field), check_revision(head, field)
    if len(base) != len(head):
        raise PointerRevision("The two commits are not of one repository.", field=field)
    if "#" in target:
        raise PointerSpan("A diff has no fragment.", field=field)
    repository, path = _place(target, field)
    return DiffAddress(path=path, base=base, head=head, repository=repository)


def _test(body: str, field: str) -> TestAddress:
    target, receipt = _pin(body, field)
    if not receipt:
        raise PointerNotPinned("A test pointer names its receipt.", field=field, hint="@sha256:<64 hex>")
    if not is_digest(receipt):
        raise PointerRevision("The receipt is not sha256: and 64 lower-case hex digits.", field=field)
    if "#" in target:
        raise PointerSpan("A test has no fragment.", field=field)
    node = _decode(target, field, in_path=False)
    if not node or _has_control(node):
        raise PointerSyntax("A test's node id is one line of text.", field=field)
    return TestAddress(node=node, receipt=receipt)


def _url(body: str, field: str) -> UrlAddress:
    url, pin, hexes = body.rpartition("@sha256:")
    if not pin:
        raise PointerNotPinned("A url pointer ends with the digest of its page.", field=field, hint="@sha256:<64 hex>")
    if not is_hex(hexes, 64):
        raise PointerRevision("The digest is not sha256: and 64 lower-case hex digits.", field=field)
    if not url.startswith("https://"):
        raise PointerSyntax("Only https URLs can be pointed at.", field=field)
    if not url.isascii() or " " in url or _has_control(url):
        raise PointerSyntax("A URL is written in ASCII, other characters percent-encoded.", field=field)
    if "#" in url:
        raise PointerSpan("A URL's fragment never reaches its server.", field=field)
    if "\\" in url:
        raise PointerPath("A URL contains no backslash.", field=field)
    authority, _, path_and_query = url.removeprefix("https://").partition("/")
    if "?" in authority:
        raise PointerSyntax("A URL has a path before its query.", field=field)
    path, mark, query = path_and_query.partition("?")
    for segment in path.split("/"):
        if segment.lower().replace("%2e", ".") in (".", ".."):
            raise PointerPath("A URL's path has no `.` or `..` segment.", field=field)
    escaped = _upper_escapes(f"/{path}{mark}{query}", field)
    return UrlAddress(url=f"https://{_authority(authority, field)}{escaped}", digest=f"sha256:{hexes}")


_READERS = {"repo": _repo, "artifact": _artifact, "sam": _sam, "diff": _diff, "test": _test, "url": _url}


def _pin(body: str, field: str) -> tuple[str, str]:
    target, mark, pin = body.rpartition("@")
    if not mark:
        raise PointerNotPinned(field=field, hint="End the ref with @ and a full commit id, version or digest.")
    if "#" in pin:
        raise PointerRevision("The revision comes last.", field=field, hint="path#L10-L20@<revision>")
    return target, pin


def _version(text: str, field: str) -> str:
    """Return a full commit id, a date, or a version that can name a tag.

    Branches and shortened commit ids are refused: they can come to mean another commit.
    """
    if not text:
        raise PointerNotPinned(field=field, hint="@<full commit id>, or a version such as v1.2.0.")
    if is_hex(text, 40, 64):
        return text
    legal = len(text) <= MAX_VERSION and _VERSION.issuperset(text) and text[0] not in "-.+" and ".." not in text
    part_of_id = _HEX_DIGITS.issuperset(text) and not _DIGITS.issuperset(text)
    if not legal or part_of_id or _DIGITS.isdisjoint(text):
        raise PointerRevision(
            "The revision is neither a full commit id nor a version.",
            field=field,
            limit=MAX_VERSION if len(text) > MAX_VERSION else None,
            hint="A version has a digit and is not a branch or a shortened id: v1.2.0, 2026-01-08.",
        )
    if len(text) == 10 and text[4] == text[7] == "-":
        try:
            date.fromisoformat(text)
        except ValueError:
            raise PointerRevision("There is no such date.", field=field) from None
    return text


def _path(text: str, field: str) -> str:
    return check_path(_decode(text, field, in_path=True), field)


def _place(text: str, field: str) -> tuple[str | None, str]:
    """Return the name of a repository, if there is one, and the path in it."""
    name, double, path = text.partition("//")
    return (_segment(name, field), _path(path, field)) if double else (None, _path(text, field))


def _segment(text: str, field: str) -> str:
    return check_name(_decode(text, field, in_path=True), field)


def _section(text: str, field: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the headings, and the number of each among equal ones; no numbers at all if none is written."""
    # Before decoding: an encoded bracket belongs to the heading's text.
    parts = [
        (match[1], int(match[2])) if (match := _NUMBERED.fullmatch(part)) else (part, 0) for part in text.split("/")
    ]
    headings = tuple(_decode(part, field, in_path=False) for part, _ in parts)
    if any(not heading.strip() for heading in headings[1:]) or not any(headings) or headings[0].isspace():
        raise PointerSpan(
            "A heading of the section is empty.", field=field, hint="#sec=Heading or #sec=Chapter/Heading"
        )
    if any(map(_has_control, headings)):
        raise PointerSpan("A heading contains no control character.", field=field)
    numbers = tuple(number for _, number in parts)
    return headings, numbers if any(numbers) else ()


def _line(text: str, field: str) -> int:
    digits = text[1:]
    if text[:1] != "L" or not digits or not _DIGITS.issuperset(digits):
        raise PointerSpan(field=field, hint="L10-L20, or L10 for one line.")
    if digits[0] == "0":
        raise PointerSpan("Lines are counted from 1, without leading zeros.", field=field)
    if len(digits) > len(str(MAX_LINE)) or int(digits) > MAX_LINE:
        raise PointerSpan("The line number is too large.", field=field, limit=MAX_LINE)
    return int(digits)


def _with_span(address: Address, span: str, field: str) -> Address:
    """Return the address with the span moved into it; refuse a span that contradicts the ref."""
    if len(span) > MAX_REF:
        raise PointerTooLong(field=field, limit=MAX_REF, used=len(span))
    _check_unicode(span, field)
    match address:
        case RepoAddress() | BodyAddress():
            lines = parse_lines(span, field)
            if address.lines not in (None, lines):
                raise PointerDisagrees("The span is not the ref's fragment.", field=field)
            return msgspec.structs.replace(address, lines=lines)
        case ArtifactAddress():
            section, numbers = _section(span.removeprefix("sec="), field)
            if address.section is not None and (address.section, address.numbers) != (section, numbers):
                raise PointerDisagrees("The span is not the ref's fragment.", field=field)
            return msgspec.structs.replace(address, section=section, numbers=numbers)
        case _:
            raise PointerSpan("This type of pointer has no span.", field=field)


def _check_digest(address: Address, digest: str, field: str) -> None:
    if not is_digest(digest):
        raise PointerSyntax("A digest is sha256: and 64 lower-case hex digits.", field=field)
    if isinstance(address, BodyAddress) and address.lines is not None:
        return  # the ref has the digest of the whole body, `digest` that of the lines
    if isinstance(address, BodyAddress | UrlAddress) and address.digest != digest:
        raise PointerDisagrees("The digest is not the one in the ref.", field=field)


def _authority(text: str, field: str) -> str:
    host, colon, port = text.lower().partition(":")
    labels = host.split(".")
    if not _HOST.issuperset(host) or not all(labels) or any(label[0] == "-" or label[-1] == "-" for label in labels):
        raise PointerSyntax(
            "The URL's host is not a plain name.", field=field, hint="No user, no brackets; xn-- for IDN."
        )
    if not colon or port == "443":
        return host
    if not port or len(port) > 5 or not _DIGITS.issuperset(port) or port[0] == "0" or int(port) > 65535:
        raise PointerSyntax("The URL's port is not a number from 1 to 65535.", field=field, limit=65535)
    return f"{host}:{port}"


# Percent-encoding with one canonical form: only characters that must be encoded are, in upper-case hex.


def _upper_escapes(text: str, field: str) -> str:
    """Return the text with its escapes in upper-case hex, none of them decoded."""
    if "%" not in text:
        return text
    head, *parts = text.split("%")
    for part in parts:
        _hex_pair(part, field)
    return head + "".join(f"%{part[:2].upper()}{part[2:]}" for part in parts)


def _hex_pair(part: str, field: str) -> int:
    pair = part[:2]
    if len(pair) < 2 or not _HEX_DIGITS.issuperset(pair):
        raise PointerSyntax("A % is followed by two hex digits.", field=field, hint="Write % itself as %25.")
    return int(pair, 16)


def _decode(text: str, field: str, *, in_path: bool) -> str:
    if "%" not in text:
        return text
    head, *parts = text.split("%")
    raw = bytearray(head.encode())
    for part in parts:
        value = _hex_pair(part, field)
        # No name in a tree contains one, so encoding it can only be meant to get past a check of the written text.
        if in_path and value in (0x00, 0x2F, 0x5C):
            raise PointerPath("A path contains no encoded slash, backslash or NUL.", field=field)
        raw.append(value)
        raw += part[2:].encode()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise PointerSyntax("The percent-encoding is not UTF-8.", field=field) from None


def _has_control(text: str) -> bool:
    """True if the text contains a control character, such as newline or NUL."""
    return not text.isprintable() and any(char < " " or "\x7f" <= char <= "\x9f" for char in text)


def _check_unicode(text: str, field: str) -> None:
    """Refuse half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PointerSyntax("The text is not valid Unicode.", field=field) from None


def _qualifier(repository: str | None) -> str:
    return f"{_encode(repository)}//" if repository is not None else ""


def _encode(text: str) -> str:
    # decision 72: a file with invisible characters in its name has a pointer that can be read, sent and followed
    return make_visible(text.translate(_ENCODED), _percent)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


_ENCODED = {code: _percent(chr(code)) for code in (*range(0x21), *range(0x7F, 0xA0), ord("%"), ord("#"), ord("@"))}
