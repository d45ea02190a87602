"""Pointers as people write them, as links other tools open, and back: GitHub permalinks, SWHIDs, editor links."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urlsplit

from engrambus.core import is_digest, is_hex
from engrambus.errors import PointerRevision, PointerSpan, PointerSyntax
from engrambus.evidence.pointers.addresses import DiffAddress, Pointer, RepoAddress
from engrambus.evidence.pointers.grammar import MAX_LINE, check_path, check_revision, parse_lines, parse_ref
from engrambus.evidence.pointers.short_refs import SHORT_REVISION_CHARS, short_address

_GITHUB = "https://github.com/"
_REPO_REF = re.compile(r"\brepo:((?:(?!//)[^\s#@:])+)#L(\d+)-L(\d+)@([0-9a-f]{7})[0-9a-f]{33,57}\b")


def shorten_refs(text: str) -> str:
    """Return a text with the refs to lines of this repository as people write them."""
    return _REPO_REF.sub(r"\1:\2-\3@\4", text)


def short_ref(pointer: Pointer) -> str:
    """Return a pointer as people write it, `src/x.py:10-20@3a4c4fe`; `engrambus deref` accepts it."""
    ref = pointer.ref
    if pointer.type in ("repo", "diff"):
        address = parse_ref(ref)
        if isinstance(address, RepoAddress | DiffAddress) and address.repository is None:
            return short_address(address)
    target, mark, pin = ref.rpartition("@")
    if mark and is_hex(pin, 40, 64):
        return f"{target}@{pin[:SHORT_REVISION_CHARS]}"
    if mark and is_digest(pin):
        return f"{target}@{pin[: len('sha256:') + SHORT_REVISION_CHARS]}…"
    return ref


def github_link(address: RepoAddress, origin: str) -> str | None:
    """Return the permalink `https://github.com/o/r/blob/<sha>/path#L10-L20`, if the origin is on GitHub."""
    name = _github_name(origin)
    if name is None:
        return None
    lines = f"#L{address.lines[0]}-L{address.lines[1]}" if address.lines else ""
    return f"{_GITHUB}{name}/blob/{address.revision}/{quote(address.path, safe='/')}{lines}"


def github_section_link(address: RepoAddress, origin: str) -> str | None:
    """Return the permalink to lines of a document, which GitHub shows with `?plain=1` only."""
    link = github_link(address, origin)
    path, mark, lines = (link or "").partition("#")
    return f"{path}?plain=1#{lines}" if mark else link


def github_compare_link(address: DiffAddress, path: str, origin: str) -> str | None:
    """Return the link to the change of a file between two commits; `path` is the file's after the change."""
    name = _github_name(origin)
    if name is None:
        return None
    # Two dots compare the commits themselves, as the pointer does; three would compare with where they parted.
    anchor = hashlib.sha256(path.encode()).hexdigest()
    return f"{_GITHUB}{name}/compare/{address.base}..{address.head}#diff-{anchor}"


def parse_github_link(url: str, field: str = "url") -> RepoAddress:
    """Return the address a permalink names; a link to a branch is refused, because it names no commit."""
    if not url.startswith(_GITHUB):
        raise PointerSyntax("This is not a link to GitHub.", field=field, hint=f"{_GITHUB}o/r/blob/<sha>/path#L10-L20")
    path_text, mark, fragment = url.removeprefix(_GITHUB).partition("#")
    parts = path_text.partition("?")[0].split("/", 4)
    if len(parts) < 5 or parts[2] not in ("blob", "blame", "raw"):
        raise PointerSyntax("The link names no file.", field=field, hint=f"{_GITHUB}o/r/blob/<sha>/path#L10-L20")
    path = check_path(_unquote(parts[4], field), field)
    return RepoAddress(
        path=path, revision=check_revision(parts[3], field), lines=parse_lines(fragment, field) if mark else None
    )


def swhid(address: RepoAddress, blob: str, origin: str | None = None) -> str:
    """Return the Software Heritage identifier of the pointed lines; `blob` is git's object id of the file."""
    if not is_hex(blob, 40) or not is_hex(address.revision, 40):
        raise PointerRevision("A SWHID names SHA-1 objects; this repository has others.", field="revision")
    public_origin = _public_origin(origin) if origin else None
    qualifiers = [f"origin={quote(public_origin, safe=':/')}"] if public_origin else []
    qualifiers += [f"anchor=swh:1:rev:{address.revision}", f"path=/{quote(address.path, safe='/')}"]
    if address.lines:
        qualifiers.append(f"lines={address.lines[0]}-{address.lines[1]}")
    return ";".join([f"swh:1:cnt:{blob}", *qualifiers])


def parse_swhid(text: str, field: str = "swhid") -> RepoAddress:
    """Return the address a SWHID names; it must have a commit and a path."""
    content, *extras = text.split(";")
    if not content.startswith("swh:1:cnt:") or not is_hex(content.removeprefix("swh:1:cnt:"), 40):
        raise PointerSyntax("This is not the SWHID of a file.", field=field, hint="swh:1:cnt:<40 hex>;anchor=…;path=/…")
    qualifiers: dict[str, str] = {}
    for qualifier in extras:
        name, equals, value = qualifier.partition("=")
        if not equals or name in qualifiers:
            raise PointerSyntax("A qualifier of the SWHID is broken or written twice.", field=field)
        qualifiers[name] = value
    if "bytes" in qualifiers:
        raise PointerSpan("A pointer counts lines, not bytes.", field=field)
    anchor, path = qualifiers.get("anchor", ""), qualifiers.get("path", "")
    if not anchor.startswith("swh:1:rev:") or not path.startswith("/"):
        raise PointerSyntax("The SWHID names no commit or no path.", field=field)
    return RepoAddress(
        path=check_path(_unquote(path[1:], field), field),
        revision=check_revision(anchor.removeprefix("swh:1:rev:"), field),
        lines=_swhid_lines(qualifiers["lines"], field) if "lines" in qualifiers else None,
    )


def editor_link(address: RepoAddress, worktree: Path) -> str:
    """Return the link that opens the file at its first pointed line in VS Code and its relatives."""
    line = f":{address.lines[0]}" if address.lines else ""
    return f"vscode://file{quote(str(worktree.absolute() / address.path), safe='/')}{line}"


def _github_name(origin: str) -> str | None:
    """Return `owner/repository` of an origin in https, ssh or scp form."""
    if "://" not in origin:
        host, colon, path = origin.partition(":")
        if not colon or host.rpartition("@")[2].lower() != "github.com":
            return None
    else:
        try:
            parts = urlsplit(origin)
            host = parts.hostname or ""
        except ValueError:
            return None
        if parts.scheme not in ("https", "http", "ssh", "git") or host not in ("github.com", "ssh.github.com"):
            return None
        path = parts.path
    owner, slash, name = path.strip("/").removesuffix(".git").partition("/")
    if not slash or not owner or not name or "/" in name:
        return None
    return f"{quote(owner, safe='')}/{quote(name, safe='')}"


def _public_origin(origin: str) -> str | None:
    """Return the origin without what others must not learn: user, password, or a path on this machine."""
    name = _github_name(origin)
    if name is not None:
        return _GITHUB + name
    scheme, mark, remainder = origin.partition("://")
    if not mark or scheme not in ("https", "http", "ssh", "git"):
        return None
    authority, slash, path = remainder.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def _swhid_lines(text: str, field: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if len(first) > len(str(MAX_LINE)) or len(last) > len(str(MAX_LINE)):
        raise PointerSpan("The line number is too large.", field=field, limit=MAX_LINE)
    return parse_lines(f"L{first}-L{last}" if dash else f"L{first}", field)


def _unquote(text: str, field: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        raise PointerSyntax("The percent-encoding is not UTF-8.", field=field) from None
