"""Inputs named at the command line: files, standard input, lines by path or link, and modules to import."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from engrambus.core import is_hex
from engrambus.errors import BadText, BodyTooLarge, EngramBusError, InputNotAFile, PointerPath

if TYPE_CHECKING:
    from engrambus.evidence.pointers import GitRepository, Pointer
    from engrambus.gateway import FileSpan

STDIN = "-"
MAX_TEXT_BYTES = 1_048_576
_HEX = frozenset("0123456789abcdef")


@contextmanager
def open_input(name: str, option: str) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file, or standard input for `-`; yield it with its size, 0 if that is not known.

    `option` is the option or argument that named the file. A device or a pipe is refused: it may never end.
    """
    if name == STDIN:
        yield sys.stdin.buffer, 0
        return
    try:
        _check_regular(os.stat(name), name)
        # Non-blocking, so that a pipe put in the file's place since cannot hold us.
        with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            _check_regular(status, name)
            yield file, status.st_size
    except FileNotFoundError:
        raise click.BadParameter(f"There is no file '{name}'.", param_hint=f"'{option}'") from None


def _check_regular(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InputNotAFile(f"'{name}' is not a regular file.", field="file", hint="To read standard input, give -.")


def read_text_file(name: str, option: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the text of a file, or of standard input for `-`; `option` is the option or argument that named it."""
    with open_input(name, option) as (file, _):
        data = file.read(max_bytes + 1)  # one byte too many is enough to know
    if len(data) > max_bytes:
        raise BodyTooLarge(field="file", limit=max_bytes)
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError:
        raise BadText(f"'{name}' is not UTF-8.", field="file") from None


def full_ref(text: str, folder: Path, field: str) -> str:
    """Return the full ref for a pointer with short revisions, a link, or a path from a folder."""
    from engrambus.evidence.pointers import Repositories
    from engrambus.gateway import ProjectFiles, is_ref, parse_file_span

    linked = pointer_of_link(text, field)
    if linked is not None:
        return linked.ref
    top = find_worktree(folder)
    if is_ref(text):
        return text if top is None else _with_full_revisions(text, text.partition(":")[0], top)
    if top is None:
        return text  # the gateway explains what is wrong with it
    with closing(_repository(top)) as repository:
        span = path_from_top(parse_file_span(text), folder, top, field)
        return ProjectFiles(top, Repositories(repository)).point_at(print_span(span), field).ref


def pointer_of_link(text: str, field: str) -> Pointer | None:
    """Return the pointer of a GitHub permalink or a Software Heritage id; None if the text is neither."""
    from engrambus.evidence.pointers import Pointer, parse_github_link, parse_swhid, print_address

    if text.startswith("https://github.com/"):
        return Pointer(type="repo", ref=print_address(parse_github_link(text, field)))
    if text.startswith("swh:"):
        return Pointer(type="repo", ref=print_address(parse_swhid(text, field)))
    return None


def find_worktree(folder: Path) -> Path | None:
    """Return the top folder of the checkout that a folder belongs to; None outside of git."""
    folder = folder.resolve()
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def path_from_top(span: FileSpan, folder: Path, top: Path, field: str) -> FileSpan:
    """Return a span given from a folder with its path from the top of the checkout."""
    path = folder.resolve() / span.path
    # Symbolic links on the way are followed; if the file itself is one, the gateway decides about it.
    full = Path(os.path.realpath(path.parent)) / path.name if path.name not in ("", "..") else path.resolve()
    if not full.is_relative_to(top):
        raise PointerPath(f"'{span.path}' is outside the repository at {top}.", field=field)
    return span._replace(path=full.relative_to(top).as_posix())


def print_span(span: FileSpan) -> str:
    """Return a span in one word: `src/x.py:10-20@HEAD`."""
    lines = f":{span.lines}" if span.lines else ""
    return f"{span.path}{lines}@{span.revision}"


def linked_head(top: Path) -> str | None:
    """Return the commit checked out in a linked worktree; None in the main one, whose HEAD the gateway sees itself."""
    if (top / ".git").is_dir():
        return None
    with closing(_repository(top)) as repository:
        return repository.head(top)


def _repository(top: Path) -> GitRepository:
    from engrambus.evidence.pointers import GitRepository

    folder = top / ".git"  # in a linked worktree this is a file
    return GitRepository(folder if folder.is_dir() else top)


def _with_full_revisions(ref: str, scheme: str, top: Path) -> str:
    target, mark, pin = ref.rpartition("@")
    if not mark or scheme not in ("repo", "artifact", "diff"):
        return ref
    if scheme == "artifact" and not _HEX.issuperset(pin):
        return ref  # a tag
    pins = pin.split("..") if scheme == "diff" else [pin]
    if all(is_hex(revision, 40, 64) for revision in pins) or not all(pins):
        return ref
    with closing(_repository(top)) as repository:
        return f"{target}@{'..'.join(repository.expand(revision, top) for revision in pins)}"


def import_modules(modules: Sequence[str], root: Path) -> None:
    """Import the modules that `--import` names, also from the project's folder; an error names file and line."""
    from importlib import import_module

    if modules and str(root) not in sys.path:
        sys.path.append(str(root))  # last, so that a project's queue.py does not hide the standard library's
    for name in modules:
        if not name or name.startswith("."):
            raise _import_error(f"'{name}' is not the full name of a module.")
        try:
            import_module(name)
        except EngramBusError as refusal:  # the module declares a yool that is not valid
            refusal.hint = " ".join(filter(None, (f"It stands in '{name}'{_user_line(refusal)}.", refusal.hint)))
            raise
        except ImportError as problem:
            raise _import_error(f"'{name}' cannot be imported{_user_line(problem)}: {problem}") from None
        except SyntaxError as problem:
            line = f" ({problem.filename}, line {problem.lineno})" if problem.filename else ""
            raise _import_error(f"'{name}' cannot be imported{line}: {type(problem).__name__}: {problem.msg}") from None
        except (Exception, SystemExit) as problem:
            text = f"{type(problem).__name__}: {problem}"
            raise _import_error(f"'{name}' cannot be imported{_user_line(problem)}: {text}") from None


def _import_error(text: str) -> click.BadParameter:
    return click.BadParameter(text, param_hint="'--import'")


def _user_line(problem: BaseException) -> str:
    """Return the innermost line of the traceback that is neither ours nor the import system's."""
    from traceback import extract_tb

    import engrambus

    ours = str(Path(engrambus.__file__).parent)
    frames = [
        frame
        for frame in extract_tb(problem.__traceback__)
        if not frame.filename.startswith((ours, "<frozen")) and "importlib" not in frame.filename
    ]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
