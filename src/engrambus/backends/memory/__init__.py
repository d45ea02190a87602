"""The reference back end: plain dictionaries, and a journal that is a list of lines."""

from engrambus.backends.memory.store import MemoryJournal, MemoryStore

__all__ = ["MemoryJournal", "MemoryStore"]
