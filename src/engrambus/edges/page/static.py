"""The files of the page that are the same for everybody: a stylesheet, scripts, an icon."""

from __future__ import annotations

from importlib import resources

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FILES = (
    "page.css",
    "page.js",
    "icon.svg",
    "vendor/htmx.min.js",
    "vendor/uplot.min.js",
    "vendor/uplot.min.css",
)


def static_files() -> dict[str, tuple[bytes, str]]:
    """Address, content and type of each."""
    folder = resources.files("engrambus.edges.page") / "static"
    return {f"/static/{name}": (folder.joinpath(name).read_bytes(), TYPES[name[name.rindex(".") :]]) for name in FILES}
