"""The version, where any room can read it without walking through the door."""

__version__ = "0.1.0"
