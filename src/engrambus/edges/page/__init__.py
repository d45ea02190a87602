"""The page a person opens in a browser to watch and steer a team of agents."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.edges.page.routes import page_routes

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "routes": "page_routes",
    })

__all__ = [
    "page_routes",
]
