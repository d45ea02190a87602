"""The SDK: one `Bus`, in process or remote, with a method for every operation; and a `Worker`."""

from stigmergy.edges.client.bus import Bus, Way
from stigmergy.edges.client.worker import Worker

__all__ = ["Bus", "Way", "Worker"]
