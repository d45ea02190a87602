"""The shell and the static files of the page, and the paths they are served at."""

from __future__ import annotations

from functools import cache
from importlib import resources

from engrambus.core import digest

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
STATIC_FILES = (
    "page.css",
    "early.js",
    "session.js",
    "events.js",
    "plots.js",
    "page.js",
    "icon.svg",
    "vendor/htmx.min.js",
    "vendor/uplot.min.js",
    "vendor/uplot.min.css",
)


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Return content and media type of each static file by its name."""
    return {name: (_read(name), CONTENT_TYPES[name[name.rindex(".") :]]) for name in STATIC_FILES}


@cache
def static_folder() -> str:
    """Return the folder of the static files on the server. It is named by their content, so browsers may keep them."""
    # decision 64: the shell can show nothing before its scripts are there, so no visit asks whether each has changed.
    contents = b"".join(body for body, _ in static_files().values())
    return f"/static/{digest(contents)[7:23]}"


def shell() -> bytes:
    """Return the document that every visitor gets."""
    return _read("shell.html").replace(b"/static/", f"{static_folder()}/".encode())


def _read(name: str) -> bytes:
    return (resources.files("engrambus.edges.page") / "static" / name).read_bytes()
