"""The bus over HTTP, for this machine only: operations, OpenAPI, event streams, the page and MCP."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.edges.http.server import serve
    from engrambus.edges.http.sessions import SignInCodes

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "server": "serve",
        "sessions": "SignInCodes",
    })

__all__ = [
    "SignInCodes", "serve",
]
