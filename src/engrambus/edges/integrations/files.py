"""Changing a client's files: only what is ours, whole or not at all, and so that it can be taken back byte for byte.

What was put in is noted beside the keys: where, and what stood there. A file nobody touched since is given back
exactly; in one that was edited our entries are found by what they are and cut out.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from engrambus.edges.integrations import jsonc, toml
from engrambus.edges.integrations.client_config import File, Wish, is_ours
from engrambus.edges.integrations.jsonc import Broken, Edit, Node
from engrambus.errors import ClientEntryTaken, ClientFileBroken, ClientFileChanged

BOM = b"\xef\xbb\xbf"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to a file."""

    after: str
    """The digest of the file as it was left."""
    edits: tuple[Edit, ...]
    """What was changed, one after the other."""
    created: bool
    """Whether there was no file before."""
    folders: tuple[str, ...] = ()
    """Folders made for it, the innermost first."""
    containers: tuple[tuple[str, ...], ...] = ()
    """Objects and lists made for our entries, the innermost first."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of a file."""

    path: Path
    before: bytes | None
    """None when there is no file."""
    after: bytes | None
    """None when there is to be none."""
    note: Note | None = None
    """What to remember of it; none when there is nothing to take back."""


def plan_install(file: File, note: Note | None) -> Change:
    """What puts our entries into a file; nothing of it is done yet."""
    before = _read(file.path)
    text = _decode(file.path, before)
    try:
        if _is_current(file, text):
            return Change(path=file.path, before=before, after=before, note=note)
        bare, kept = _without(file, text, note, before)
        edits, containers, after = _with(file, bare)
    except Broken as problem:
        raise _broken(file.path, text, problem) from None
    data = _encode(after, before)
    made = dict.fromkeys((*containers, *(kept.containers if kept else ())))
    done = Note(
        after=digest(data),
        edits=tuple(edits),
        created=before is None or (note is not None and note.created),
        folders=missing_folders(file.path) if before is None or note is None else note.folders,
        containers=tuple(sorted(made, key=len, reverse=True)),
    )
    return Change(path=file.path, before=before, after=data, note=done)


def plan_uninstall(file: File, note: Note | None) -> Change:
    """What takes our entries out of a file."""
    before = _read(file.path)
    if before is None:
        return Change(path=file.path, before=None, after=None)
    text = _decode(file.path, before)
    try:
        bare, _ = _without(file, text, note, before)
    except Broken as problem:
        raise _broken(file.path, text, problem) from None
    gone = note is not None and note.created and _holds_nothing(file, bare)
    return Change(path=file.path, before=before, after=None if gone else _encode(bare, before), note=note)


def is_installed(file: File) -> bool | None:
    """Whether a file holds exactly what it should; none when it holds nothing of ours."""
    text = _decode(file.path, _read(file.path))
    try:
        if _is_current(file, text):
            return True
        return False if _ours(file, text) else None
    except Broken as problem:
        raise _broken(file.path, text, problem) from None


def write(change: Change) -> None:
    """Carry a change out: the new file takes the old one's place in one step, with its mode, behind its link."""
    if change.after == change.before:
        return
    path = Path(os.path.realpath(change.path))
    if _read(path) != change.before:
        raise ClientFileChanged(f"{path} was changed while it was read.", field=path.name, hint="Try again.")
    if change.after is None:
        path.unlink()
        _remove_folders(change.note)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    mode = stat.S_IMODE(path.stat().st_mode) if change.before is not None else 0o666
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as out:
            if change.before is not None:
                os.fchmod(out.fileno(), mode)
            out.write(change.after)
            out.flush()
            os.fsync(out.fileno())
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def undo(change: Change) -> None:
    """Take a change back, whether it was carried out or stopped half-way."""
    if _read(change.path) == change.after:
        write(Change(path=change.path, before=change.after, after=change.before, note=change.note))
    elif change.before is None:
        _remove_folders(change.note)


def _remove_folders(note: Note | None) -> None:
    """Remove the folders made for a file, as far as nothing else has come to stand in them."""
    for folder in map(Path, note.folders if note else ()):
        if folder.is_dir():
            if any(folder.iterdir()):
                break
            folder.rmdir()


def _is_current(file: File, text: str) -> bool:
    """Whether exactly our wishes stand there, each once and nothing of ours besides."""
    structured = [wish for wish in file.wishes if isinstance(wish.value, dict)]
    plain = [wish for wish in file.wishes if not isinstance(wish.value, dict)]
    return _ours(file, text) == sorted(map(_written, structured)) and all(
        _held(file, text, wish.path) is not None for wish in plain
    )


def _ours(file: File, text: str) -> list[str]:
    """Every entry of ours in a text, under the paths we use."""
    found = []
    for path, item in dict.fromkeys((wish.path, wish.item) for wish in file.wishes):
        held = _held(file, text, path)
        for value in held if item and isinstance(held, list) else [held]:
            if is_ours(value):
                found.append(_written(Wish(path, value, item)))
    return sorted(found)


def _held(file: File, text: str, path: tuple[str, ...]) -> Any:
    if file.format == "toml":
        held: Any = toml.read(text)
    else:
        node = _root(text)
        held = node.value if node else {}
    for name in path:
        held = held.get(name) if isinstance(held, dict) else None
    return held


def _written(wish: Wish) -> str:
    return msgspec.json.encode([wish.path, wish.item, wish.value], order="sorted").decode()


def _without(file: File, text: str, note: Note | None, data: bytes | None) -> tuple[str, Note | None]:
    """A text without what is ours, and the note of it when the folders and containers it names are still ours."""
    if note is not None and data is not None and digest(data) == note.after:
        for edit in reversed(note.edits):
            text = edit.undo(text)
        return text, msgspec.structs.replace(note, containers=())
    made = note.containers if note else ()
    if file.format == "toml":
        for wish in file.wishes:
            if is_ours(_held(file, text, wish.path)):
                inserted = note.edits[0].inserted if note and len(note.edits) == 1 else ""
                whole = inserted and text.count(inserted) == 1 and not note.edits[0].removed if note else False
                text = text.replace(inserted, "") if whole else toml.remove(text, (wish.path[0], wish.path[1]))
        return text, note
    while (found := _first_of_ours(file, text)) is not None:
        container, entry = found
        text = jsonc.remove(text, container, entry)
    for path in (*made, *made):  # what stood beside a container may be alone once that has gone
        text = _without_container(text, path, note is not None and note.created)
    return text, note


def _first_of_ours(file: File, text: str) -> tuple[Node, jsonc.Entry] | None:
    root = _root(text)
    for wish in file.wishes if root else ():
        container = _down(root, wish.path if wish.item else wish.path[:-1])
        for entry in (container.entries if container else None) or ():
            mine = wish.item or entry.key == wish.path[-1]
            if container and mine and is_ours(entry.value.value):
                return container, entry
    return None


def _without_container(text: str, path: tuple[str, ...], created: bool) -> str:
    """A text without a container we made, if nothing has come to stand in it.

    A plain value, the version a file has to name, stays in a file we created as long as somebody else uses that.
    """
    root = _root(text)
    outer = _down(root, path[:-1]) if root else None
    entry = outer.member(path[-1]) if outer else None
    if outer is None or entry is None:
        return text
    if entry.value.entries is not None:
        needed = bool(text[entry.value.start + 1 : entry.value.end - 1].strip())
    else:
        needed = created and len(outer.entries or ()) > 1
    return text if needed else jsonc.remove(text, outer, entry)


def _with(file: File, text: str) -> tuple[list[Edit], list[tuple[str, ...]], str]:
    """What puts our wishes into a text that has none of them, the containers made for it, and the text."""
    edits: list[Edit] = []
    made: list[tuple[str, ...]] = []
    for wish in file.wishes:
        if file.format == "toml":
            _check_free(file, wish, _held(file, text, wish.path))
            new = [toml.insert(text, (wish.path[0], wish.path[1]), wish.value)]
        else:
            new = _wish_edits(file, text, wish, made)
        for edit in new:
            text = edit.apply(text)
        edits += new
    return edits, sorted(made, key=len, reverse=True), text


def _wish_edits(file: File, text: str, wish: Wish, made: list[tuple[str, ...]]) -> list[Edit]:
    root = _root(text)
    if root is None:
        at = len(text.rstrip())
        newline = "\r\n" if "\r\n" in text else "\n"
        begin = Edit(at, text[at:], f"{newline if at else ''}{{}}{newline}")
        return [begin, *_wish_edits(file, begin.apply(text), wish, made)]
    *outer, last = wish.path
    node: Node = root
    for depth, name in enumerate([*outer, last] if wish.item else outer):
        entry = node.member(name)
        if entry is None:
            rest = wish.path[depth + 1 :]
            value: Any = [wish.value] if wish.item else wish.value
            for each in reversed(rest):
                value = {each: value}
            made += [wish.path[: depth + 1 + more] for more in range(len(rest) + (1 if wish.item else 0))]
            return jsonc.insert(text, node, name, value)
        node = entry.value
        wants_list = wish.item and depth == len(outer)
        if not isinstance(node.value, list if wants_list else dict):
            raise Broken(
                f"'{'.'.join(wish.path[: depth + 1])}' is not {'a list' if wants_list else 'an object'}", node.start
            )
    if wish.item:
        return jsonc.insert(text, node, None, wish.value)
    there = node.member(last)
    if there is not None:
        if not isinstance(wish.value, dict):
            return []  # a plain value somebody else chose stays
        _check_free(file, wish, there.value.value)
    elif not isinstance(wish.value, dict):
        made.append(wish.path)
    return jsonc.insert(text, node, last, wish.value)


def _check_free(file: File, wish: Wish, there: Any) -> None:
    if there is not None:
        name = ".".join(wish.path)
        raise ClientEntryTaken(
            f"{file.path} already has a '{name}' that does not run Engram Bus.",
            field=name,
            hint="Rename or remove it, then install again.",
        )


def _root(text: str) -> Node | None:
    root = jsonc.read(text)
    if root is not None and not isinstance(root.value, dict):
        raise Broken("the whole is not an object", root.start)
    return root


def _down(node: Node | None, path: tuple[str, ...]) -> Node | None:
    for name in path:
        entry = node.member(name) if node else None
        node = entry.value if entry else None
    return node


def _holds_nothing(file: File, text: str) -> bool:
    if not text.strip():
        return True
    root = _root(text) if file.format == "json" else None
    return root is not None and not root.value and text.strip() == text[root.start : root.end]


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise ClientFileBroken(
            f"{path} cannot be read: {problem.strerror}.", field=path.name, hint="Nothing was changed."
        ) from None


def _decode(path: Path, data: bytes | None) -> str:
    try:
        return (data or b"").removeprefix(BOM).decode()
    except UnicodeDecodeError as problem:
        raise ClientFileBroken(f"{path} is not UTF-8 (byte {problem.start}).", field=path.name) from None


def _encode(text: str, before: bytes | None) -> bytes:
    return (BOM if before is not None and before.startswith(BOM) else b"") + text.encode()


def _broken(path: Path, text: str, problem: Broken) -> ClientFileBroken:
    return ClientFileBroken(
        f"{path} cannot be read: {problem.what}.",
        field=path.name,
        line=text.count("\n", 0, problem.at) + 1,
        hint="Nothing was changed. Mend the file and try again.",
    )


def missing_folders(path: Path) -> tuple[str, ...]:
    """The folders a file would need made, the innermost first."""
    return tuple(str(folder) for folder in Path(os.path.realpath(path)).parents if not folder.exists())


def digest(data: bytes) -> str:
    """What a file is known by."""
    return hashlib.sha256(data).hexdigest()
