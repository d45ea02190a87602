"""The bus over HTTP: routes, OpenAPI, published schemas and a page, all on this machine only."""

from stigmergy.edges.http.app import create_app
from stigmergy.edges.http.server import serve
from stigmergy.edges.http.sessions import Codes

__all__ = ["Codes", "create_app", "serve"]
