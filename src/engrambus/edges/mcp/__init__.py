"""The bus as MCP tools and resources, for agents: over standard input and output, and at `/mcp` over HTTP."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.edges.mcp.agent_calls import LeadTerms
    from engrambus.edges.mcp.http import MCP_METHODS, McpEndpoint
    from engrambus.edges.mcp.server import serve_stdio

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "agent_calls": "LeadTerms",
        "http": "MCP_METHODS McpEndpoint",
        "server": "serve_stdio",
    })

__all__ = [
    "MCP_METHODS", "LeadTerms", "McpEndpoint", "serve_stdio",
]
