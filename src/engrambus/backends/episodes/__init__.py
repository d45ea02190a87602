"""Memory stores as files."""

from engrambus.backends.episodes.stores import FileStores

__all__ = ["FileStores"]
