"""Memory stores as files."""

from stigmergy.backends.episodes.stores import FileStores

__all__ = ["FileStores"]
