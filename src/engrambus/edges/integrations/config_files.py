"""Adds entries to clients' configuration files and removes them again, byte for byte (decision 19).

A record of each change is stored with the account's state: where, and the text that was replaced. A file that was not
edited since is restored exactly; in an edited file our entries are recognised by their command and cut out.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from engrambus.edges.integrations import jsonc, toml_edit
from engrambus.edges.integrations.client_config import ClientFile, ConfigEntry, runs_engrambus
from engrambus.edges.integrations.jsonc import Edit, Node, ParseFailure
from engrambus.errors import ClientEntryTaken, ClientFileBroken, ClientFileChanged

BOM = b"\xef\xbb\xbf"


class ChangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was made to a file, stored so that it can be undone."""

    new_digest: str
    """Digest of the file after the change."""
    edits: tuple[Edit, ...]
    """The edits, in the order in which they were made."""
    created: bool
    """True if the file did not exist before."""
    folders: tuple[str, ...] = ()
    """Folders created for the file, innermost first."""
    containers: tuple[tuple[str, ...], ...] = ()
    """Paths of objects and lists created for our entries, innermost first."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A planned change of a file."""

    path: Path
    old_content: bytes | None
    """None if the file does not exist."""
    new_content: bytes | None
    """None if the file is to be removed."""
    record: ChangeRecord | None = None
    """The record to store; None if there is nothing to undo."""


def plan_install(file: ClientFile, record: ChangeRecord | None) -> FileChange:
    """Plan the change that adds our entries to a file and removes those of earlier versions."""
    if not file.entries:
        return plan_uninstall(file, record)
    old_content = _read(file.path)
    text = _decode(file.path, old_content)
    try:
        if _is_current(file, text):
            return FileChange(path=file.path, old_content=old_content, new_content=old_content, record=record)
        bare, previous = _without_our_entries(file, text, record, old_content)
        edits, containers, after = _with_our_entries(file, bare)
    except ParseFailure as problem:
        raise _broken(file.path, text, problem) from None
    data = _encode(after, old_content)
    created = dict.fromkeys((*containers, *(previous.containers if previous else ())))
    new_record = ChangeRecord(
        new_digest=digest(data),
        edits=tuple(edits),
        created=old_content is None or (record is not None and record.created),
        folders=missing_folders(file.path) if old_content is None or record is None else record.folders,
        containers=tuple(sorted(created, key=len, reverse=True)),
    )
    return FileChange(path=file.path, old_content=old_content, new_content=data, record=new_record)


def plan_uninstall(file: ClientFile, record: ChangeRecord | None) -> FileChange:
    """Plan the change that removes our entries from a file."""
    old_content = _read(file.path)
    if old_content is None:
        return FileChange(path=file.path, old_content=None, new_content=None)
    text = _decode(file.path, old_content)
    try:
        bare, _ = _without_our_entries(file, text, record, old_content)
    except ParseFailure as problem:
        raise _broken(file.path, text, problem) from None
    # A file that the user created stays, even if nothing is left in it.
    remove = record is not None and record.created and _is_empty(file, bare)
    return FileChange(
        path=file.path,
        old_content=old_content,
        new_content=None if remove else _encode(bare, old_content),
        record=record,
    )


def is_installed(file: ClientFile) -> bool | None:
    """Return True if a file has exactly our current entries, False if it has others of ours, None if it has none."""
    text = _decode(file.path, _read(file.path))
    try:
        if file.entries and _is_current(file, text):
            return True
        return False if _our_entries(file, text) else None
    except ParseFailure as problem:
        raise _broken(file.path, text, problem) from None


def write(change: FileChange) -> None:
    """Write a change atomically, keeping the file's mode and following a symbolic link."""
    if change.new_content == change.old_content:
        return
    # Dotfile managers link these files; replacing the link itself would break them.
    path = Path(os.path.realpath(change.path))
    if _read(path) != change.old_content:
        raise ClientFileChanged(f"{path} was changed while it was read.", field=path.name, hint="Try again.")
    if change.new_content is None:
        path.unlink()
        _remove_folders(change.record)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # A rename within one folder is atomic: the client sees the old file or the new one, never half of it.
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    mode = stat.S_IMODE(path.stat().st_mode) if change.old_content is not None else 0o666
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as out:
            if change.old_content is not None:
                os.fchmod(out.fileno(), mode)
            out.write(change.new_content)
            out.flush()
            os.fsync(out.fileno())
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def undo(change: FileChange) -> None:
    """Undo a change, complete or interrupted."""
    if _read(change.path) == change.new_content:
        write(
            FileChange(
                path=change.path, old_content=change.new_content, new_content=change.old_content, record=change.record
            )
        )
    elif change.old_content is None:
        _remove_folders(change.record)


def _remove_folders(record: ChangeRecord | None) -> None:
    """Remove the folders created for a file, up to the first that is not empty."""
    for folder in map(Path, record.folders if record else ()):
        if folder.is_dir():
            if any(folder.iterdir()):
                break
            folder.rmdir()


def _is_current(file: ClientFile, text: str) -> bool:
    """True if the text has each of our entries once and no others of ours."""
    structured = [entry for entry in file.entries if isinstance(entry.value, dict)]
    plain = [entry for entry in file.entries if not isinstance(entry.value, dict)]
    return _our_entries(file, text) == sorted(map(_printed, structured)) and all(
        _value_at(file, text, entry.path) is not None for entry in plain
    )


def _our_entries(file: ClientFile, text: str) -> list[str]:
    """Return every entry of ours in a text, under the paths that we use."""
    entries = []
    for path, is_item in _places(file):
        value = _value_at(file, text, path)
        for item in value if is_item and isinstance(value, list) else [value]:
            if runs_engrambus(item):
                entries.append(_printed(ConfigEntry(path, item, is_item)))
    return sorted(entries)


def _places(file: ClientFile) -> list[tuple[tuple[str, ...], bool]]:
    """Return the paths at which our entries are, or were in earlier versions, and whether they are items of a list."""
    current = [(entry.path, entry.is_item) for entry in file.entries]
    return list(dict.fromkeys([*current, *((path, True) for path in file.former)]))


def _value_at(file: ClientFile, text: str, path: tuple[str, ...]) -> Any:
    if file.format == "toml":
        value: Any = toml_edit.read(text)
    else:
        node = _root(text)
        value = node.value if node else {}
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _printed(entry: ConfigEntry) -> str:
    return msgspec.json.encode([entry.path, entry.is_item, entry.value], order="sorted").decode()


def _without_our_entries(
    file: ClientFile, text: str, record: ChangeRecord | None, data: bytes | None
) -> tuple[str, ChangeRecord | None]:
    """Return a text without our entries, and the record if its folders and containers are still ours."""
    if record is not None and data is not None and digest(data) == record.new_digest:
        # Offsets of later edits are relative to the text after the earlier ones.
        for edit in reversed(record.edits):
            text = edit.undo(text)
        return text, msgspec.structs.replace(record, containers=())
    if file.format == "toml":
        return _without_our_table(file, text, record), record
    while (match := _first_of_ours(file, text)) is not None:
        container, entry = match
        text = jsonc.remove(text, container, entry)
    containers = record.containers if record else ()
    # Twice: a container may be empty only after the containers inside it are removed.
    for path in (*containers, *containers):
        text = _without_empty_container(text, path, record is not None and record.created)
    return text, record


def _without_our_table(file: ClientFile, text: str, record: ChangeRecord | None) -> str:
    for entry in file.entries:
        if runs_engrambus(_value_at(file, text, entry.path)):
            edit = record.edits[0] if record and len(record.edits) == 1 else None
            if edit is not None and edit.inserted and not edit.removed and text.count(edit.inserted) == 1:
                text = text.replace(edit.inserted, "")
            else:
                text = toml_edit.remove(text, (entry.path[0], entry.path[1]))
    return text


def _first_of_ours(file: ClientFile, text: str) -> tuple[Node, jsonc.NodeEntry] | None:
    root = _root(text)
    for path, is_item in _places(file) if root else ():
        container = _descend(root, path if is_item else path[:-1])
        for entry in (container.entries if container else None) or ():
            matches = is_item or entry.key == path[-1]
            if container and matches and runs_engrambus(entry.value.value):
                return container, entry
    return None


def _without_empty_container(text: str, path: tuple[str, ...], created: bool) -> str:
    """Return a text without a container that we created, if it is empty.

    A plain value, such as a file's version number, stays in a file that we created as long as the file has others.
    """
    root = _root(text)
    outer = _descend(root, path[:-1]) if root else None
    entry = outer.member(path[-1]) if outer else None
    if outer is None or entry is None:
        return text
    if entry.value.entries is not None:
        needed = bool(text[entry.value.start + 1 : entry.value.end - 1].strip())
    else:
        needed = created and len(outer.entries or ()) > 1
    return text if needed else jsonc.remove(text, outer, entry)


def _with_our_entries(file: ClientFile, text: str) -> tuple[list[Edit], list[tuple[str, ...]], str]:
    """Return the edits that add our entries, the containers they create, and the resulting text."""
    edits: list[Edit] = []
    created: list[tuple[str, ...]] = []
    for entry in file.entries:
        if file.format == "toml":
            _check_free(file, entry, _value_at(file, text, entry.path))
            entry_edits = [toml_edit.insert(text, (entry.path[0], entry.path[1]), entry.value)]
        else:
            entry_edits = _json_edits(file, text, entry, created)
        for edit in entry_edits:
            text = edit.apply(text)
        edits += entry_edits
    return edits, sorted(created, key=len, reverse=True), text


def _json_edits(file: ClientFile, text: str, entry: ConfigEntry, created: list[tuple[str, ...]]) -> list[Edit]:
    root = _root(text)
    if root is None:
        end = len(text.rstrip())
        newline = "\r\n" if "\r\n" in text else "\n"
        begin = Edit(end, text[end:], f"{newline if end else ''}{{}}{newline}")
        return [begin, *_json_edits(file, begin.apply(text), entry, created)]
    *outer, last = entry.path
    node: Node = root
    for depth, name in enumerate([*outer, last] if entry.is_item else outer):
        member = node.member(name)
        if member is None:
            missing = entry.path[depth + 1 :]
            value: Any = [entry.value] if entry.is_item else entry.value
            for inner_name in reversed(missing):
                value = {inner_name: value}
            count = len(missing) + (1 if entry.is_item else 0)
            created += [entry.path[: depth + 1 + offset] for offset in range(count)]
            return jsonc.insert(text, node, name, value)
        node = member.value
        wants_list = entry.is_item and depth == len(outer)
        if not isinstance(node.value, list if wants_list else dict):
            raise ParseFailure(
                f"'{'.'.join(entry.path[: depth + 1])}' is not {'a list' if wants_list else 'an object'}", node.start
            )
    if entry.is_item:
        return jsonc.insert(text, node, None, entry.value)
    existing = node.member(last)
    if existing is not None:
        if not isinstance(entry.value, dict):
            return []  # a plain value of the user's stays
        _check_free(file, entry, existing.value.value)
    elif not isinstance(entry.value, dict):
        created.append(entry.path)
    return jsonc.insert(text, node, last, entry.value)


def _check_free(file: ClientFile, entry: ConfigEntry, existing: Any) -> None:
    if existing is not None:
        name = ".".join(entry.path)
        raise ClientEntryTaken(
            f"{file.path} already has a '{name}' that does not run Engram Bus.",
            field=name,
            hint="Rename or remove it, then install again.",
        )


def _root(text: str) -> Node | None:
    root = jsonc.read(text)
    if root is not None and not isinstance(root.value, dict):
        raise ParseFailure("the top level is not an object", root.start)
    return root


def _descend(node: Node | None, path: tuple[str, ...]) -> Node | None:
    for name in path:
        entry = node.member(name) if node else None
        node = entry.value if entry else None
    return node


def _is_empty(file: ClientFile, text: str) -> bool:
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


def _encode(text: str, old_content: bytes | None) -> bytes:
    return (BOM if old_content is not None and old_content.startswith(BOM) else b"") + text.encode()


def _broken(path: Path, text: str, problem: ParseFailure) -> ClientFileBroken:
    return ClientFileBroken(
        f"{path} cannot be read: {problem.reason}.",
        field=path.name,
        line=text.count("\n", 0, problem.offset) + 1,
        hint="Nothing was changed. Correct the file and try again.",
    )


def missing_folders(path: Path) -> tuple[str, ...]:
    """Return the folders that must be created for a file, innermost first."""
    return tuple(str(folder) for folder in Path(os.path.realpath(path)).parents if not folder.exists())


def digest(data: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(data).hexdigest()
