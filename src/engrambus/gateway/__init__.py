"""The way into the product: operations are declared and decoded, callers identified, and one gateway runs all calls."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.gateway.caller import LOCAL_ADMIN, Credential
    from engrambus.gateway.declare import Command, Operation, Route
    from engrambus.gateway.decode import to_request
    from engrambus.gateway.gateway import Call, Gateway, OnWarning
    from engrambus.gateway.lazy_tuple_space import LazyTupleSpace
    from engrambus.gateway.limit_warnings import (
        WARNING_HEADER,
        parse_warning_header,
        warning_header,
        warning_line,
        warning_problem,
    )
    from engrambus.gateway.ports import Store, View
    from engrambus.gateway.project_files import FileSpan, ProjectFiles, is_ref, parse_file_span
    from engrambus.gateway.shared_stores import SharedStores

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "caller": "LOCAL_ADMIN Credential",
        "declare": "Command Operation Route",
        "decode": "to_request",
        "gateway": "Call Gateway OnWarning",
        "lazy_tuple_space": "LazyTupleSpace",
        "limit_warnings": "WARNING_HEADER parse_warning_header warning_header warning_line warning_problem",
        "ports": "Store View",
        "project_files": "FileSpan ProjectFiles is_ref parse_file_span",
        "shared_stores": "SharedStores",
    })

__all__ = [
    "LOCAL_ADMIN", "WARNING_HEADER", "Call", "Command", "Credential", "FileSpan", "Gateway", "LazyTupleSpace",
    "OnWarning", "Operation", "ProjectFiles", "Route", "SharedStores", "Store", "View", "is_ref", "parse_file_span",
    "parse_warning_header", "to_request", "warning_header", "warning_line", "warning_problem",
]
