"""What the team remembers, as a memory store in the project's folder."""

from engrambus.backends.cortex.writing import CortexFolder

__all__ = ["CortexFolder"]
