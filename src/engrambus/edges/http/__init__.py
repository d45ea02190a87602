"""The bus over HTTP: operations, OpenAPI, event streams, the page and MCP."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.edges.http.exposure import Exposure, check_exposure
    from engrambus.edges.http.server import serve
    from engrambus.edges.http.server_limits import DEFAULT_LIMITS, TEAM_CALLS_PER_MINUTE
    from engrambus.edges.http.sessions import SignInCodes

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "exposure": "Exposure check_exposure",
        "server": "serve",
        "server_limits": "DEFAULT_LIMITS TEAM_CALLS_PER_MINUTE",
        "sessions": "SignInCodes",
    })

__all__ = [
    "DEFAULT_LIMITS", "TEAM_CALLS_PER_MINUTE", "Exposure", "SignInCodes", "check_exposure", "serve",
]
