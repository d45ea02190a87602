"""The page: what a person opens to see whether the team works. Values in, HTML out; HTTP stands before it."""

from stigmergy.edges.dashboard.actions import ACTIONS, Action
from stigmergy.edges.dashboard.address import Address
from stigmergy.edges.dashboard.desk import Desk
from stigmergy.edges.dashboard.page import KNOWN, Page, locked_page, refused_page
from stigmergy.edges.dashboard.panels import PANELS, Panel
from stigmergy.edges.dashboard.static import static_files

__all__ = [
    "ACTIONS",
    "KNOWN",
    "PANELS",
    "Action",
    "Address",
    "Desk",
    "Page",
    "Panel",
    "locked_page",
    "refused_page",
    "static_files",
]
