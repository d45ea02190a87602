"""The catalog: what can be done, by name, who may have it done, and on which terms."""

from engrambus.space.catalog.agents import AGENTS, AgentsRead, Declared, read_agents
from engrambus.space.catalog.build import build_catalog, in_both
from engrambus.space.catalog.catalog import Catalog, CatalogDiff
from engrambus.space.catalog.commands import fill_argv
from engrambus.space.catalog.file import CAPABILITIES, parse_catalog, print_catalog, read_catalog, write_catalog
from engrambus.space.catalog.introspection import INTROSPECTION, with_introspection, without_introspection
from engrambus.space.catalog.lint import Flaw, lint_change, lint_name
from engrambus.space.catalog.names import Name, check_lane, parse_name
from engrambus.space.catalog.reader import CatalogReader
from engrambus.space.catalog.registry import Registry, Yool
from engrambus.space.catalog.stacks import find_stacks
from engrambus.space.catalog.trie import Sharing, Trie, slots, yool_hash
from engrambus.space.catalog.values import (
    AUTHORITIES,
    EFFECTS,
    TERMS,
    Authority,
    CatalogEntry,
    Contract,
    Effect,
    Terms,
    read_terms,
)

REGISTRY = Registry(INTROSPECTION)
"""What the code imported into this process has registered."""

yool = REGISTRY.yool

__all__ = [
    "AGENTS",
    "AUTHORITIES",
    "CAPABILITIES",
    "EFFECTS",
    "INTROSPECTION",
    "REGISTRY",
    "TERMS",
    "AgentsRead",
    "Authority",
    "Catalog",
    "CatalogDiff",
    "CatalogEntry",
    "CatalogReader",
    "Contract",
    "Declared",
    "Effect",
    "Flaw",
    "Name",
    "Registry",
    "Sharing",
    "Terms",
    "Trie",
    "Yool",
    "build_catalog",
    "check_lane",
    "fill_argv",
    "find_stacks",
    "in_both",
    "lint_change",
    "lint_name",
    "parse_catalog",
    "parse_name",
    "print_catalog",
    "read_agents",
    "read_catalog",
    "read_terms",
    "slots",
    "with_introspection",
    "without_introspection",
    "write_catalog",
    "yool",
    "yool_hash",
]
