"""The brief: at most thirty lines that say what matters now for one role or agent, built from the store alone."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.brief.layout import MAX_LINES, BriefText
    from engrambus.knowledge.brief.rules import (
        BriefReading,
        brief_diff,
        compose_brief,
        current_version,
        find_version,
        last_role_briefed,
        list_versions,
        read_brief,
        visible_lines,
    )
    from engrambus.knowledge.brief.values import Brief, BriefMade, BriefReads

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "layout": "MAX_LINES BriefText",
        "rules": (
            "BriefReading brief_diff compose_brief current_version find_version last_role_briefed list_versions "
            "read_brief visible_lines "
        ),
        "values": "Brief BriefMade BriefReads",
    })

__all__ = [
    "MAX_LINES", "Brief", "BriefMade", "BriefReading", "BriefReads", "BriefText", "brief_diff", "compose_brief",
    "current_version", "find_version", "last_role_briefed", "list_versions", "read_brief", "visible_lines",
]
