"""The SDK: one `Bus`, in process or remote, with a method for every operation; and a `Worker`."""

from typing import TYPE_CHECKING

from engrambus.doors import opened_late

if TYPE_CHECKING:
    from engrambus.edges.client.bus import Bus, Way
    from engrambus.edges.client.worker import Worker
else:
    __getattr__ = opened_late(
        __name__,
        {
            "bus": "Bus Way",
            "worker": "Worker",
        },
    )

__all__ = ["Bus", "Way", "Worker"]
