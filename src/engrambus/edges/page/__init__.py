"""The page: what a person opens to see whether the team works. Values in, HTML out; HTTP stands before it."""

from engrambus.edges.page.actions import ACTIONS, Action
from engrambus.edges.page.address import Address
from engrambus.edges.page.desk import Desk
from engrambus.edges.page.page import KNOWN, Page, locked_page, refused_page
from engrambus.edges.page.panels import PANELS, Panel
from engrambus.edges.page.static import static_files

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
