"""The SDK: one `Bus`, in process or remote, with a method for every operation; and a `Worker`."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.edges.sdk.bus import Bus, LimitWarning, Transport
    from engrambus.edges.sdk.worker import Worker

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "bus": "Bus LimitWarning Transport",
        "worker": "Worker",
    })

__all__ = [
    "Bus", "LimitWarning", "Transport", "Worker",
]
