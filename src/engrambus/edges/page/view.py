"""Rendering a view of the page: all of it, or the one part that a script asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2

from engrambus.core import age, print_dollars, short_id
from engrambus.edges.page.assets import static_folder
from engrambus.edges.page.drawer import PARAMS as DRAWER_PARAMS
from engrambus.edges.page.drawer import load_drawer
from engrambus.edges.page.messages import count_unseen
from engrambus.edges.page.panels import PANELS
from engrambus.edges.page.session import Address, PageSession
from engrambus.edges.page.template_filters import (
    escape_invisible,
    format_count,
    format_duration,
    format_time,
    pointer_label,
    to_json,
)
from engrambus.errors import EngramBusError, RouteNotFound
from engrambus.evidence.pointers import describe_state
from engrambus.knowledge.engrams import describe_readers

PREFIX = "/page/"
PAGE_PARAMS = frozenset({"run", *DRAWER_PARAMS, *(name for panel in PANELS.values() for name in panel.params)})
"""Every parameter an address of the page may have."""

_FEED_PARTS = {"rows": "feed-list.html", "feed-more": "feed-rows.html"}
"""Parts of the feed that are reloaded alone, by the id of their element: a visitor may be typing in the filter."""


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("engrambus.edges.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=escape_invisible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static"] = static_folder()
    environment.filters |= {
        "age": age,
        "count": format_count,
        "dollars": print_dollars,
        "duration": format_duration,
        # Not jinja's `tojson`: its result counts as safe HTML, and a quote in it would end an attribute.
        "json": to_json,
        "label": pointer_label,
        "readers": describe_readers,
        "short_id": short_id,
        "state_words": describe_state,
        "time": format_time,
    }
    return environment


_templates = _environment()


class PageView:
    """One view of the page for one visitor."""

    # decision 16: the server renders every view; scripts only insert it.

    def __init__(
        self,
        session: PageSession,
        address: Address,
        *,
        notice: str = "",
        refusal: EngramBusError | None = None,
        sent: Mapping[str, str] | None = None,
    ) -> None:
        """`sent` is the form that was refused, so that what was typed is not lost."""
        self._session = session
        self._address = address
        self._status = {"notice": notice, "refusal": refusal, "sent": sent or {}}
        self._main = address.path.removeprefix(PREFIX) if address.path.startswith(PREFIX) else ""
        if self._main and self._main not in PANELS:
            raise RouteNotFound

    def render(self) -> str:
        """Render the whole view, for the shell."""
        visible = [panel for panel in PANELS.values() if (panel.name == self._main if self._main else panel.start)]
        panels = {panel.name: self._render_panel(panel.name) for panel in visible}
        return self._render("view.html", panels=panels, drawer=self._render_drawer(), visible=visible, **self._bar())

    def render_part(self, element_id: str) -> str | None:
        """Render one part by the id of its element; return None if there is no such part."""
        if element_id == "drawer":
            return self._render_drawer()
        if element_id == "bar":
            return self._render("bar.html", **self._bar())
        if element_id in _FEED_PARTS:
            return self._render(_FEED_PARTS[element_id], **PANELS["feed"].load(self._session, self._address.params))
        name = element_id.removeprefix("panel-")
        if not element_id.startswith("panel-") or name not in PANELS:
            return None
        text = self._render_panel(name)
        # Not with the whole view: the panels are loaded again at once, and what is new would look old.
        if name == self._main and (on_shown := PANELS[name].on_shown) is not None:
            on_shown(self._session)
        return text

    def _bar(self) -> dict[str, Any]:
        """Return the variables of the bar: the page's title, and the number of items that wait for an answer."""
        panel = f"{PANELS[self._main].title} · " if self._main else ""
        panels = {name: PANELS[name].load(self._session, {}) for name in ("requests", "review")}
        lists = ("rows", "promotions", "contradictions")
        waiting = {name: sum(len(data.get(rows, ())) for rows in lists) for name, data in panels.items()}
        # On its own panel mail counts as seen, though the bar may be loaded a moment before the panel.
        waiting["messages"] = count_unseen(self._session) if self._main != "messages" else 0
        total = sum(waiting.values())
        title = f"{panel}{self._session.run.goal} · Engram Bus"
        return {"title": f"({total}) {title}" if total else title, "waiting": waiting}

    def _render_drawer(self) -> str:
        return self._render("drawer.html", **load_drawer(self._session, self._address.params))

    def _render_panel(self, name: str) -> str:
        panel = PANELS[name]
        in_rail = not self._main and panel.start == "rail"
        data = panel.load(self._session, self._address.params)
        return self._render(f"{name}.html", panel=panel, in_rail=in_rail, **data)

    def _render(self, template: str, **variables: Any) -> str:
        return _templates.get_template(template).render(
            session=self._session,
            address=self._address,
            url=self._address.link,
            main=self._main,
            all_panels=PANELS,
            **{**self._status, **variables},
        )


def error_view(refusal: EngramBusError) -> str:
    """Render the view of an address that cannot be shown."""
    return _templates.get_template("error.html").render(refusal=refusal)
