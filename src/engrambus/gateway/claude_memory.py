"""Reading the memory that Claude Code keeps of a project, in the user's own folder and not in the repository.

It is private, so it is read only if the user asks for it, and only the folder that belongs to the project's path. Links
are not followed. What claims quote is stored as an artifact, because no pointer leads outside of the project.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec

from engrambus.core import digest, files
from engrambus.errors import EngramBusError
from engrambus.gateway.repository_reader import ReadRepository
from engrambus.knowledge.learning import Draft, MemoryFile, SourceFile, memory_notes
from engrambus.knowledge.messages import artifact_body
from engrambus.policy.secrets import find_secrets
from engrambus.visible_text import find_invisible

MAX_FILES = 100
MAX_FILE_BYTES = 65_536
_SUFFIX = ".md"
_FIRST = "MEMORY.md"
_NOT_IN_NAME = re.compile("[^A-Za-z0-9]")


class ClaudeMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What Claude noted about a project."""

    folder: Path
    files: list[MemoryFile]
    unread: dict[str, int]
    """Files that were not read, by reason."""


def memory_folder(claude_home: Path, project: Path) -> Path:
    """Return the folder in which Claude Code keeps its memory of the project in a folder; it may not be there."""
    # The folders above are the user's own; from Claude's folder on, a link could lead to another project's memory.
    home = claude_home.parent.resolve() / claude_home.name
    return home / "projects" / _NOT_IN_NAME.sub("-", str(project.resolve())) / "memory"


def read_claude_memory(folder: Path) -> ClaudeMemory | None:
    """Return the files of a memory, `MEMORY.md` first; None if there are none. A file with a secret is left out."""
    try:
        names = sorted(files.folder_names(folder), key=lambda name: (name != _FIRST, name))
    except (OSError, EngramBusError):
        return None
    found: list[MemoryFile] = []
    unread: Counter[str] = Counter()
    for name in names:
        if not name.endswith(_SUFFIX) or not name.isprintable():
            continue
        text, problem = _read(folder / name) if len(found) < MAX_FILES else ("", "too many files")
        if problem:
            unread[problem] += 1
        else:
            found.append(MemoryFile(name=name, text=text))
    if not found and not unread:
        return None
    return ClaudeMemory(folder=folder, files=found, unread=dict(sorted(unread.items())))


def add_memory(read: ReadRepository, memory: ClaudeMemory) -> ReadRepository:
    """Return what was read of a repository with what Claude noted."""
    drafts: list[Draft] = []
    bodies: dict[str, str] = {}
    for file in memory.files:
        # Lines are counted in the text that is stored, which has no blank lines around it.
        body = artifact_body(file.text)
        bodies[file.name] = digest(body)
        drafts += memory_notes(SourceFile(path=file.name, lines=tuple(body.decode().split("\n"))))
    unread = dict(sorted((Counter(read.unread) + Counter(memory.unread)).items()))
    return msgspec.structs.replace(read, drafts=[*read.drafts, *drafts], bodies=bodies, unread=unread)


def _read(path: Path) -> tuple[str, str]:
    """Return the text of a file, or why it is not read."""
    try:
        with files.open_reader(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except EngramBusError:
        return "", "link"
    except OSError:
        return "", "unreadable"
    if len(data) > MAX_FILE_BYTES:
        return "", "too large"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "", "not UTF-8"
    if find_secrets(text):
        return "", "secret"
    return (text, "") if find_invisible(text) is None else ("", "invisible text")
