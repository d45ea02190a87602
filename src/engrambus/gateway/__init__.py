"""The way into the product: operations are declared and decoded, callers identified, and one gateway runs all calls."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.gateway.caller import HEAD_HEADER, LOCAL_ADMIN, WORKTREE_HEADER, Credential
    from engrambus.gateway.declare import Command, Operation, Route
    from engrambus.gateway.decode import to_request
    from engrambus.gateway.gateway import Call, Gateway, OnWarning
    from engrambus.gateway.lazy_embeddings import LazyEmbeddings
    from engrambus.gateway.lazy_tuple_space import LazyTupleSpace
    from engrambus.gateway.limit_warnings import (
        WARNING_HEADER,
        parse_warning_header,
        warning_header,
        warning_line,
        warning_problem,
    )
    from engrambus.gateway.pointer_fields import complete_fields, find_pointer_fields
    from engrambus.gateway.ports import Store, View
    from engrambus.gateway.project_files import ProjectFiles
    from engrambus.gateway.refusal_texts import hide_secrets_in, hide_secrets_in_faults
    from engrambus.gateway.shared_stores import SharedStores

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "caller": "HEAD_HEADER LOCAL_ADMIN WORKTREE_HEADER Credential",
        "declare": "Command Operation Route",
        "decode": "to_request",
        "gateway": "Call Gateway OnWarning",
        "lazy_embeddings": "LazyEmbeddings",
        "lazy_tuple_space": "LazyTupleSpace",
        "limit_warnings": "WARNING_HEADER parse_warning_header warning_header warning_line warning_problem",
        "pointer_fields": "complete_fields find_pointer_fields",
        "ports": "Store View",
        "project_files": "ProjectFiles",
        "refusal_texts": "hide_secrets_in hide_secrets_in_faults",
        "shared_stores": "SharedStores",
    })

__all__ = [
    "HEAD_HEADER", "LOCAL_ADMIN", "WARNING_HEADER", "WORKTREE_HEADER", "Call", "Command", "Credential", "Gateway",
    "LazyEmbeddings", "LazyTupleSpace", "OnWarning", "Operation", "ProjectFiles", "Route", "SharedStores", "Store",
    "View", "complete_fields", "find_pointer_fields", "hide_secrets_in", "hide_secrets_in_faults",
    "parse_warning_header", "to_request", "warning_header", "warning_line", "warning_problem",
]
