"""The SDK: one `Bus`, in process or remote, with a method for every operation."""

from stigmergy.edges.client.bus import Bus, Way

__all__ = ["Bus", "Way"]
