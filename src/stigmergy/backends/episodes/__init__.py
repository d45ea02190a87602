"""Memory stores as files."""

from stigmergy.backends.episodes.stores import FileStores
from stigmergy.backends.episodes.writing import CortexFolder

__all__ = ["CortexFolder", "FileStores"]
