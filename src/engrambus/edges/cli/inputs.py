"""Inputs named at the command line: files, standard input, lines by path or link, and modules to import."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from engrambus.errors import BadText, BodyTooLarge, EngramBusError, InputNotAFile, PointerPath, ReservationPath

if TYPE_CHECKING:
    from engrambus.evidence.pointers import FileSpan, GitRepository, PointerCompleter

STDIN = "-"
MAX_TEXT_BYTES = 1_048_576


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


def completer_in(folder: Path, top: Path) -> PointerCompleter:
    """Return what completes pointers as people type them in a folder: paths from there, and short revisions."""
    from engrambus.evidence.pointers import PointerCompleter

    def expand(revision: str) -> str:
        with closing(_repository(top)) as repository:
            return repository.expand(revision, top)

    def snapshot(path: str) -> str:
        return take_snapshot(top, [path])

    def head() -> str:
        from engrambus.evidence.pointers import checked_out_commit

        return checked_out_commit(top) or expand("HEAD")

    return PointerCompleter(
        expand,
        head,
        snapshot=snapshot,
        from_top=lambda span, field: path_from_top(span, folder, top, field),
        short_revisions=True,
    )


def take_snapshot(top: Path, paths: Iterable[str]) -> str:
    """Commit the files of a checkout as they are on disk, with these untracked ones, and return the commit."""
    with closing(_repository(top)) as repository:
        return repository.snapshot(top, [path for path in paths if (top / path).is_file()])


def path_from_top(span: FileSpan, folder: Path, top: Path, field: str) -> FileSpan:
    """Return a span given from a folder with its path from the top of the checkout."""
    path = folder.resolve() / span.path
    # Symbolic links on the way are followed; if the file itself is one, the gateway decides about it.
    full = Path(os.path.realpath(path.parent)) / path.name if path.name not in ("", "..") else path.resolve()
    if not full.is_relative_to(top):
        raise PointerPath(f"'{span.path}' is outside the repository at {top}.", field=field)
    return span._replace(path=full.relative_to(top).as_posix())


def place_from_top(text: str, folder: Path, top: Path, field: str) -> str:
    """Return `path:10-20` with its path from the top of the checkout; a ref or a link as it is."""
    from engrambus.evidence.pointers import is_ref, parse_file_span

    if is_ref(text) or "://" in text:
        return text
    span = parse_file_span(text)
    return path_from_top(span, folder, top, field).path + text[len(span.path) :]


def pattern_from_top(text: str, folder: Path, top: Path, field: str) -> str:
    """Return a path or a pattern given from a folder from the top of the checkout."""
    # Not resolved: a pattern names files that need not exist.
    full = os.path.normpath(os.path.join(folder, text))
    if Path(full) != top and not Path(full).is_relative_to(top):
        raise ReservationPath(f"'{text}' is outside the repository at {top}.", field=field)
    return os.path.relpath(full, top)


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


def import_modules(modules: Sequence[str], root: Path) -> None:
    """Import the modules that `--import` names, also from the project's folder; an error names file and line."""
    from importlib import import_module

    from engrambus.space.catalog import describe_problem, user_line

    if modules and str(root) not in sys.path:
        sys.path.append(str(root))  # last, so that a project's queue.py does not hide the standard library's
    for name in modules:
        if not name or name.startswith("."):
            raise _import_error(f"'{name}' is not the full name of a module.")
        try:
            import_module(name)
        except EngramBusError as refusal:  # the module declares a yool that is not valid
            refusal.hint = " ".join(filter(None, (f"It stands in '{name}'{user_line(refusal)}.", refusal.hint)))
            raise
        except (Exception, SystemExit) as problem:
            text = str(problem) if isinstance(problem, ImportError) else describe_problem(problem)
            raise _import_error(f"'{name}' cannot be imported{user_line(problem)}: {text}") from None


def _import_error(text: str) -> click.BadParameter:
    return click.BadParameter(text, param_hint="'--import'")
