"""Our MCP tools, as plain data for hooks: whether a permission prompt must stay, or the actions for which it must.

Generated from the `@operation` declarations by tools/generate.py.
"""

from __future__ import annotations

# fmt: off
TOOLS: dict[str, bool | tuple[str, ...]] = {
    "catalog_list_by_lane": False,
    "catalog_lookup": False,
    "contribute": False,
    "inherit": False,
    "less_anchor": False,
    "less_brief": False,
    "less_deref_pointer": False,
    "less_inbox": ("approve", "confirm", "decline", "promote"),
    "less_issue_grant": False,
    "less_message": False,
    "less_put_engram": False,
    "less_query_engrams": False,
    "less_request_deref": False,
    "less_store_artifact": False,
    "memory_read": False,
    "receipt_get": False,
    "task": (),
    "tuple_dispatch": False,
    "tuple_observe": False,
}
