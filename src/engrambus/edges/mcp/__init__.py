"""The bus as MCP tools, for agents."""

from engrambus.edges.mcp.server import serve_stdio

__all__ = ["serve_stdio"]
