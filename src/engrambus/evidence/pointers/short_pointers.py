"""Pointers as people and agents write them, `path:10-20` or `path:10-20@3a4c4fe`, and the full ones they stand for.

decision 57: requests of every edge and the sections of messages are completed here and nowhere else, before anything is
checked or stored; what is stored and shown is the full pointer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from engrambus.core import is_hex
from engrambus.errors import EngramBusError, FileNotFound, PointerSpan, PointerTooLong, SpanNotFound
from engrambus.evidence.pointers.addresses import Address, DiffAddress, Pointer, RepoAddress
from engrambus.evidence.pointers.grammar import MAX_REF, TYPES, check_path, parse_lines, parse_ref, print_address

HEAD = "HEAD"
MAX_TEXT = 4096
"""Characters of a short pointer or a link; the full pointer has a limit of its own."""
_FRAGMENT_LINES = re.compile(r"[#:]L[0-9]+(-L?[0-9]+)?\Z")
"""Lines as the ref of a pointer or a code host writes them: `#L10-L20`."""
_FROM_HEAD = re.compile(r"HEAD(?=[~^]|\Z)")
_POINTER_FIELD = re.compile(r"(?P<owner>(?:.*\.)?)pointers\[(?P<position>\d+)\].*", re.DOTALL)
_HEX = frozenset("0123456789abcdef")
_LINKS = ("https://github.com/", "swh:")
_UNCOMMITTED = "If it is not committed yet: commit it first; an engram can also be put with `snapshot`."


class FileSpan(NamedTuple):
    """Lines of a file as people name them: `path:10-20@revision`."""

    path: str
    lines: str
    """`10-20`, `10`, or empty for the whole file."""
    revision: str
    """A revision as git understands it; HEAD by default."""


def parse_file_span(text: str) -> FileSpan:
    """Split `path:10-20@revision` into its parts; lines and revision are optional."""
    path_and_lines, mark, revision = text.rpartition("@")
    if not mark or "/" in revision or ":" in revision:  # the @ is part of the path
        path_and_lines, revision = text, HEAD
    path, colon, lines = path_and_lines.rpartition(":")
    if not colon or not lines.replace("-", "").isdigit():
        path, lines = path_and_lines, ""
    return FileSpan(path, lines, revision)


def is_ref(text: str) -> bool:
    """True if the text is a pointer's ref, finished or not.

    `test:10` names line 10 of a file called `test`, but `repo:10@<full commit>` the file called `10`.
    """
    kind, colon, _ = text.partition(":")
    if not colon or kind not in TYPES:
        return False
    if parse_file_span(text).path != kind:
        return True
    try:
        parse_ref(text)
    except EngramBusError:
        return False
    return True


class PointerCompleter:
    """Turns the pointers of one call into full ones, and remembers how their author wrote them."""

    def __init__(
        self,
        expand: Callable[[str], str] | None = None,
        head: Callable[[], str] | None = None,
        *,
        snapshot: Callable[[str], str] | None = None,
        from_top: Callable[[FileSpan, str], FileSpan] = lambda span, field: span,
        short_revisions: bool = False,
        spell: Callable[[Address], Address] = lambda address: address,
    ) -> None:
        """`expand` returns the commit of a revision, `head` the one checked out where the caller works.

        Without `expand` there is no repository to look in, and only full pointers are accepted. `snapshot` commits the
        files as they are on disk, with an untracked one that is named, and returns the commit. `from_top` returns a
        span with its path from the top of the repository. With `short_revisions`, a ref may have short ones, too.
        `spell` returns an address with its path as the tree spells it.
        """
        self.on_disk = False
        """True while a path without a revision means the file as it is on disk."""
        self._snapshot = snapshot
        self._expand = expand
        self._head = head
        self._from_top = from_top
        self._short_revisions = short_revisions
        self._spell = spell
        self._commits: dict[str, str] = {}
        self._short: set[str] = set()
        self._pointer_counts: dict[str, int] = {}

    def complete(self, value: Pointer | str, field: str) -> Pointer:
        """Return the pointer that a value stands for; it is not checked any further."""
        if isinstance(value, str):
            # other white space can be part of a file's name
            return self._as_spelled(self._read(value.strip(" \t\r\n"), field))
        if value.type not in ("", "repo") or (value.type and is_ref(value.ref)):
            return self._as_spelled(value)
        full = self._as_spelled(self._read(value.ref, f"{field}.ref"))
        return msgspec.structs.replace(value, type=full.type, ref=full.ref)

    def _as_spelled(self, pointer: Pointer) -> Pointer:
        """Return a pointer with its path as the tree spells it, so that two spellings are one path everywhere."""
        if pointer.ref.isascii() and "%" not in pointer.ref:
            return pointer
        try:
            address = parse_ref(pointer.ref)
        except EngramBusError:  # it is checked later, with its field
            return pointer
        spelled = self._spell(address)
        return pointer if spelled == address else msgspec.structs.replace(pointer, ref=print_address(spelled))

    def merge(self, pointers: Sequence[Any], places: Sequence[Any], owner: str = "") -> list[Any]:
        """Return the pointers of an engram with those given as `at` after them.

        `owner` is the field of the engram, with its dot: `engrams[2].`.
        """
        if places:
            self._pointer_counts[owner] = len(pointers)
        return [*pointers, *places]

    def field_as_sent(self, field: str) -> str:
        """Return the field that its author wrote: `at[0]` for the first pointer after those of `pointers`."""
        match = _POINTER_FIELD.fullmatch(field)
        if match is None or match["owner"] not in self._pointer_counts:
            return field
        position = int(match["position"]) - self._pointer_counts[match["owner"]]
        return f"{match['owner']}at[{position}]" if position >= 0 else field

    def explain(self, refusal: EngramBusError) -> None:
        """Make a refusal name the field that its author wrote, and say how to point at uncommitted lines."""
        if refusal.field is None:
            return
        refusal.field = self.field_as_sent(refusal.field)
        at_head = refusal.field.removesuffix(".ref") in self._short
        if at_head and isinstance(refusal, FileNotFound | SpanNotFound) and _UNCOMMITTED not in (refusal.hint or ""):
            refusal.hint = f"{refusal.hint} {_UNCOMMITTED}" if refusal.hint else _UNCOMMITTED

    def _read(self, text: str, field: str) -> Pointer:
        if len(text) > MAX_TEXT:
            raise PointerTooLong(field=field, limit=MAX_TEXT, used=len(text))
        if text.startswith(_LINKS):
            return _read_link(text, field)
        if is_ref(text):
            return Pointer(type=text.partition(":")[0], ref=self._with_full_revisions(text, field))
        if self._expand is None:
            parse_ref(text, field)  # refuses it and says how a ref is written
        return self._point_at(self._from_top(parse_file_span(text), field), text, field)

    def _with_full_revisions(self, ref: str, field: str) -> str:
        scheme = ref.partition(":")[0]
        target, mark, pin = ref.rpartition("@")
        if not self._short_revisions or not mark or scheme not in ("repo", "artifact", "diff"):
            return ref
        revisions = pin.split("..") if scheme == "diff" else [pin]
        if not all(revisions) or (scheme == "artifact" and not _HEX.issuperset(pin)):  # the version is a tag
            return ref
        return f"{target}@{'..'.join(self._commit(revision, field) for revision in revisions)}"

    def _point_at(self, span: FileSpan, text: str, field: str) -> Pointer:
        path = check_path(span.path, field)
        if not span.lines and _FRAGMENT_LINES.search(path):
            raise PointerSpan("Write lines as path:10-20.", field=field, used=text)
        if ".." in span.revision and not span.lines:
            base, _, head = span.revision.partition("..")
            change = DiffAddress(path=path, base=self._commit(base, field), head=self._commit(head, field))
            return Pointer(type="diff", ref=print_address(change))
        lines = parse_lines(_line_fragment(span.lines, field), field) if span.lines else None
        if self.on_disk and self._snapshot is not None and span.revision == HEAD:
            revision = self._snapshot(path)
        else:
            revision = self._commit(span.revision, field)
        if span.revision == HEAD:
            self._short.add(field.removesuffix(".ref"))
        address = RepoAddress(path=path, lines=lines, revision=revision)
        ref = print_address(address)
        if len(ref) > MAX_REF:
            raise PointerTooLong(field=field, limit=MAX_REF, used=len(ref))
        return Pointer(type="repo", ref=ref)

    def head(self, field: str) -> str:
        """Return the commit that is checked out where the caller works."""
        return self._commit("HEAD", field)

    def _commit(self, revision: str, field: str) -> str:
        """Return the commit of a revision as git understands it, HEAD being the caller's."""
        if is_hex(revision, 40, 64):
            return revision
        commit = self._commits.get(revision)
        if commit is None:
            try:
                commit = self._commits[revision] = self._find_commit(revision)
            except EngramBusError as refusal:
                refusal.field = field
                raise
        return commit

    def _find_commit(self, revision: str) -> str:
        if self._expand is None:
            raise ValueError("this completer has no repository")
        from_head = _FROM_HEAD.match(revision)
        if from_head is None or self._head is None:
            return self._expand(revision)
        steps = revision[from_head.end() :]
        return self._expand(self._checked_out + steps) if steps else self._checked_out

    @cached_property
    def _checked_out(self) -> str:
        return self._head() if self._head is not None else ""


def _read_link(text: str, field: str) -> Pointer:
    from engrambus.evidence.pointers.links import parse_github_link, parse_swhid

    address = parse_swhid(text, field) if text.startswith("swh:") else parse_github_link(text, field)
    return Pointer(type="repo", ref=print_address(address))


def _line_fragment(span: str, field: str) -> str:
    first, dash, last = span.partition("-")
    if not first or (dash and not last):
        raise PointerSpan(field=field, used=span, hint="Write lines as 10 or 10-20.")
    return f"L{first}-L{last or first}"
