"""How work moves: the catalog of what can be done."""

from stigmergy.space import catalog

__all__ = ["catalog"]
