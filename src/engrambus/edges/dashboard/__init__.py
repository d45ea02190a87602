"""The page: what a person opens to see whether the team works. Values in, HTML out; HTTP stands before it."""

from engrambus.edges.dashboard.actions import ACTIONS, Action
from engrambus.edges.dashboard.address import Address
from engrambus.edges.dashboard.desk import Desk
from engrambus.edges.dashboard.page import KNOWN, Page, locked_page, refused_page
from engrambus.edges.dashboard.panels import PANELS, Panel
from engrambus.edges.dashboard.static import static_files

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
