"""The public keys that a project knows: read from `project.yaml`, and added to it as a person would by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

from engrambus.core import files, read_yaml
from engrambus.errors import EngramBusError, FormatUnknown, PublicKeyExists
from engrambus.policy.project import PROJECT_FILE, read_project_file
from engrambus.policy.signing_keys import check_key_name, check_public_key

_HEAD = re.compile(r"^keys:[ \t]*(?:#.*)?$", re.MULTILINE)


def known_keys(catalog: Path) -> dict[str, str]:
    """Return the names of the public keys that a project knows now, by key."""
    file = catalog / PROJECT_FILE
    keys: dict[str, str] = read_project_file(file).get("keys", {}) if files.is_file(file) else {}
    return {key: name for name, key in keys.items()}


def project_file_state(catalog: Path) -> tuple[int, int, int]:
    """Return what changes whenever `project.yaml` is written."""
    try:
        status = files.status_of(catalog / PROJECT_FILE)
    except FileNotFoundError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def add_known_key(catalog: Path, name: str, key: str) -> bool:
    """List a public key under a name in `project.yaml`; return False if it is listed so already."""
    name, key = check_key_name(name), check_public_key(key)
    known = known_keys(catalog)
    if known.get(key) == name:
        return False
    if key in known:
        raise PublicKeyExists(
            f"The project knows this key as '{known[key]}'.",
            field="name",
            used=name,
            hint=f"Rename it in {PROJECT_FILE}.",
        )
    if name in known.values():
        raise PublicKeyExists(
            f"The project knows another key as '{name}'.",
            field="name",
            used=name,
            hint="Choose another name, such as one with the name of the machine.",
        )
    _write(catalog / PROJECT_FILE, name, key)
    return True


def _write(file: Path, name: str, key: str) -> None:
    """Add a line for a key and leave all others as they are; refuse a file that is written in another style."""
    before = files.read_file(file).decode()
    line = f"  {json.dumps(name, ensure_ascii=False)}: {key}\n"
    text = before if not before or before.endswith("\n") else before + "\n"
    head = _HEAD.search(text)
    text = f"{text}keys:\n{line}" if head is None else f"{text[: head.end() + 1]}{line}{text[head.end() + 1 :]}"
    try:
        settings = read_yaml(text)
        is_written = isinstance(settings, dict) and settings.get("keys", {}).get(name) == key
    except EngramBusError:
        is_written = False
    if not is_written:
        raise FormatUnknown(f"{file} cannot be edited here.", field="keys", hint=f"Add this line below `keys:`: {line}")
    files.replace_file(file, text.encode(), files.COMMITTED_FILE)
