"""Putting the page together: the whole of it, or the one part that a script asks for."""

from __future__ import annotations

from typing import Any

import jinja2

from engrambus.core import age, print_dollars
from engrambus.edges.page import drawer
from engrambus.edges.page.address import Address
from engrambus.edges.page.desk import Desk
from engrambus.edges.page.panels import PANELS
from engrambus.edges.page.words import as_json, count, lasting, moment, place, shown
from engrambus.errors import EngramBusError, RouteNotFound
from engrambus.gateway.events import TYPES

PREFIX = "/page/"
KNOWN = frozenset({"run", *drawer.PARAMS, *(name for panel in PANELS.values() for name in panel.params)})
"""Every parameter an address of the page may have."""


_ROWS = {"rows": "feed-list.html", "feed-more": "feed-rows.html"}
"""Parts of the feed that are loaded without the rest of it."""


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("engrambus.edges.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Not `tojson`: that is taken for safe HTML, and would end an attribute.
    environment.filters |= {
        "age": age,
        "count": count,
        "dollars": print_dollars,
        "json": as_json,
        "lasting": lasting,
        "moment": moment,
        "place": place,
    }
    return environment


_templates = _environment()
_START = Address()


class Page:
    """One view of the page, for one visitor."""

    def __init__(
        self, desk: Desk, address: Address, *, theme: str = "", notice: str = "", refusal: EngramBusError | None = None
    ) -> None:
        self._desk = desk
        self._address = address
        self._said = {"theme": theme, "notice": notice, "refusal": refusal}
        self._main = address.path.removeprefix(PREFIX) if address.path.startswith(PREFIX) else ""
        if self._main and self._main not in PANELS:
            raise RouteNotFound

    def whole(self) -> str:
        """The page with everything on it."""
        shown = [panel for panel in PANELS.values() if (panel.name == self._main if self._main else panel.start)]
        panels = {panel.name: self._panel(panel.name) for panel in shown}
        return self._render("page.html", panels=panels, drawer=self.drawer(), shown=shown, **self._bar())

    def part(self, name: str) -> str | None:
        """One part by the id of its element; none if there is no such part."""
        if name == "drawer":
            return self.drawer()
        if name == "bar":
            return self._render("bar.html", **self._bar())
        if name in _ROWS:
            return self._render(_ROWS[name], **PANELS["feed"].load(self._desk, self._address.params))
        panel = name.removeprefix("panel-")
        return self._panel(panel) if name.startswith("panel-") and panel in PANELS else None

    def drawer(self) -> str:
        """What lies open beside the page, if anything does."""
        return self._render("drawer.html", **drawer.load(self._desk, self._address.params))

    def _bar(self) -> dict[str, Any]:
        """What stands above the panels: which run this is, and how many wait for an answer."""
        panel = f"{PANELS[self._main].title} · " if self._main else ""
        waiting = {name: len(PANELS[name].load(self._desk, {})["rows"]) for name in ("requests", "review")}
        return {"title": f"{panel}{self._desk.run.goal} · Engram Bus", "waiting": waiting}

    def _panel(self, name: str) -> str:
        panel = PANELS[name]
        rail = not self._main and panel.start == "rail"
        loaded = panel.load(self._desk, self._address.params)
        return self._render(f"{name}.html", panel=panel, rail=rail, **loaded)

    def _render(self, template: str, **context: Any) -> str:
        return _templates.get_template(template).render(
            desk=self._desk,
            at=self._address,
            url=self._address.to,
            main=self._main,
            all_panels=PANELS,
            event_types=sorted(TYPES),
            **{**self._said, **context},
        )


def locked_page(address: Address = _START, *, refusal: EngramBusError | None = None, theme: str = "") -> str:
    """The page for somebody without a session: how to get one, and then to the address that was asked for."""
    return _templates.get_template("locked.html").render(at=address, refusal=refusal, theme=theme)


def refused_page(refusal: EngramBusError, *, theme: str = "") -> str:
    """The page for an address that cannot be shown."""
    return _templates.get_template("refused.html").render(refusal=refusal, theme=theme)
