"""Everything a caller can do. Each operation is declared once; every edge is made from the declarations."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.operations.gc import pinned_by_engrams
    from engrambus.operations.table import OPERATIONS

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "gc": "pinned_by_engrams",
        "table": "OPERATIONS",
    })

__all__ = [
    "OPERATIONS", "pinned_by_engrams",
]
