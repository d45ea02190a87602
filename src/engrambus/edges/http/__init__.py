"""The bus over HTTP: routes, OpenAPI, published schemas and a page, all on this machine only."""

from engrambus.edges.http.app import create_app
from engrambus.edges.http.server import serve
from engrambus.edges.http.sessions import Codes

__all__ = ["Codes", "create_app", "serve"]
