"""The SDK: one `Bus`, in process or remote, with a method for every operation; and a `Worker`."""

from typing import TYPE_CHECKING

from stigmergy.doors import opened_late

if TYPE_CHECKING:
    from stigmergy.edges.client.bus import Bus, Way
    from stigmergy.edges.client.worker import Worker
else:
    __getattr__ = opened_late(
        __name__,
        {
            "bus": "Bus Way",
            "worker": "Worker",
        },
    )

__all__ = ["Bus", "Way", "Worker"]
