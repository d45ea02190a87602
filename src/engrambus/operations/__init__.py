"""Everything one can do. Each operation is declared once; every edge is made from the declarations."""

from typing import TYPE_CHECKING

from engrambus.doors import opened_late

if TYPE_CHECKING:
    from engrambus.operations.declare import Command, Operation, Route
    from engrambus.operations.decode import to_request
    from engrambus.operations.gateway import LOCAL_ADMIN, Call, Credential, Gateway
    from engrambus.operations.gc import pointed_at
    from engrambus.operations.ports import Store, View
    from engrambus.operations.sam import SamResolver
    from engrambus.operations.shared import SharedStores
    from engrambus.operations.table import OPERATIONS
    from engrambus.operations.workbench import Workbench
    from engrambus.operations.workplace import Place, Workplace, is_ref, split_place
else:
    __getattr__ = opened_late(
        __name__,
        {
            "declare": "Command Operation Route",
            "decode": "to_request",
            "gateway": "LOCAL_ADMIN Call Credential Gateway",
            "gc": "pointed_at",
            "ports": "Store View",
            "sam": "SamResolver",
            "shared": "SharedStores",
            "table": "OPERATIONS",
            "workbench": "Workbench",
            "workplace": "Place Workplace is_ref split_place",
        },
    )

__all__ = [
    "LOCAL_ADMIN",
    "OPERATIONS",
    "Call",
    "Command",
    "Credential",
    "Gateway",
    "Operation",
    "Place",
    "Route",
    "SamResolver",
    "SharedStores",
    "Store",
    "View",
    "Workbench",
    "Workplace",
    "is_ref",
    "pointed_at",
    "split_place",
    "to_request",
]
