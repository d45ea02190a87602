"""Knowledge that people share through git: signed events, one file for each engram (decision 119)."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.sharing.events import (
        ATTRIBUTES,
        ATTRIBUTES_FILE,
        SHARED_FOLDER,
        engram_of_file,
        file_name,
    )
    from engrambus.knowledge.sharing.history import ShareableHistory, SharedEngram, texts_of
    from engrambus.knowledge.sharing.importing import Arrival, Verdict, arrival_of, import_engrams
    from engrambus.knowledge.sharing.merging import ImportableEngram, merge_events
    from engrambus.knowledge.sharing.reading import MAX_FILE_BYTES, MAX_FILES, ExportedFiles, added_lines

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "events": "ATTRIBUTES ATTRIBUTES_FILE SHARED_FOLDER engram_of_file file_name",
        "history": "ShareableHistory SharedEngram texts_of",
        "importing": "Arrival Verdict arrival_of import_engrams",
        "merging": "ImportableEngram merge_events",
        "reading": "MAX_FILES MAX_FILE_BYTES ExportedFiles added_lines",
    })

__all__ = [
    "ATTRIBUTES", "ATTRIBUTES_FILE", "MAX_FILES", "MAX_FILE_BYTES", "SHARED_FOLDER", "Arrival", "ExportedFiles",
    "ImportableEngram", "ShareableHistory", "SharedEngram", "Verdict", "added_lines", "arrival_of", "engram_of_file",
    "file_name", "import_engrams", "merge_events", "texts_of",
]
