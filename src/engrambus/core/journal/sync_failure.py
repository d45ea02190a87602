"""The note that a sync of a journal has failed: every process finds it next to the journal and writes nothing more.

After a failed sync it is unknown what reached the disk, and the system may call pages clean that were never written. So
the note ends only with the machine's next boot, when what is read comes from the disk, or with `engrambus recover`,
which writes the journal into a new file (decision 98).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from engrambus.core import files
from engrambus.core.clock import boot_id, print_time
from engrambus.errors import StoreReadOnly

ENDING = ".sync-failed"
MAX_NOTE_BYTES = 4096
RECOVER_HINT = "Check the disk (`dmesg` names its errors), then run `engrambus recover` or restart the machine."


class SyncFailure(msgspec.Struct, frozen=True, kw_only=True):
    """When, where and why a sync failed."""

    at: str
    boot: str
    """The machine's boot in which it failed."""
    pid: int
    program: str
    """The name of the program whose sync it was."""
    reason: str
    """The system's text for the error."""
    cut_to: int | None = None
    """Offset at which the lines begin that were refused because of it; None if none were."""


_decoder = msgspec.json.Decoder(SyncFailure)


def note_path(journal: Path) -> Path:
    """Return the path of the note of a journal."""
    return journal.with_name(journal.name + ENDING)


def record_failure(journal: Path, problem: OSError, *, now_us: int, cut_to: int | None) -> SyncFailure:
    """Write the note of a journal, as far as the disk allows; return what it says."""
    failure = SyncFailure(
        at=print_time(now_us),
        boot=boot_id(),
        pid=os.getpid(),
        program=Path(sys.argv[0]).name[:100],
        reason=problem.strerror or str(problem),
        cut_to=cut_to,
    )
    with suppress(OSError):  # the caller also cuts the refused lines off, and has read-only state of its own
        files.replace_file(note_path(journal), msgspec.json.encode(failure))
        with suppress(OSError):
            files.sync_folder(journal.parent)
    return failure


def find_failure(journal: Path) -> SyncFailure | None:
    """Return the sync of a journal that failed in this boot of the machine; None if none did."""
    failure = read_note(journal)
    return failure if failure is not None and failure.boot == boot_id() else None


def read_note(journal: Path) -> SyncFailure | None:
    """Return what the note of a journal says, of this boot or an earlier one; None if there is none."""
    try:
        with files.open_reader(note_path(journal)) as file:
            return _decoder.decode(file.read(MAX_NOTE_BYTES))
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError):
        # The disk may have damaged the note too; that there is one says enough.
        return SyncFailure(at="an unknown time", boot=boot_id(), pid=0, program="", reason="its note is unreadable")


def remove_note(journal: Path) -> None:
    """Delete the note of a journal, durably."""
    files.remove(note_path(journal))
    files.sync_folder(journal.parent)


def refusal(journal: Path, failure: SyncFailure) -> StoreReadOnly:
    """Return the refusal of a write because of a failed sync."""
    process = f"by process {failure.pid} ({failure.program}) " if failure.pid else ""
    return StoreReadOnly(
        f"Syncing {journal.name} {process}failed at {failure.at}: {failure.reason}. Nothing has been stored since.",
        field=str(journal),
        hint=RECOVER_HINT,
    )
