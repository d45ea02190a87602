"""The catalog: what can be done, by name, who may have it done, and on which terms."""

from stigmergy.space.catalog.agents import AGENTS, AgentsRead, Declared, read_agents
from stigmergy.space.catalog.build import build_catalog, in_both
from stigmergy.space.catalog.catalog import Catalog, CatalogDiff
from stigmergy.space.catalog.commands import fill_argv
from stigmergy.space.catalog.file import CAPABILITIES, parse_catalog, print_catalog, read_catalog, write_catalog
from stigmergy.space.catalog.introspection import INTROSPECTION, with_introspection, without_introspection
from stigmergy.space.catalog.lint import Flaw, lint_change, lint_name
from stigmergy.space.catalog.names import Name, check_lane, parse_name
from stigmergy.space.catalog.reader import CatalogReader
from stigmergy.space.catalog.registry import Registry, Yool
from stigmergy.space.catalog.stacks import find_stacks
from stigmergy.space.catalog.trie import Sharing, Trie, slots, yool_hash
from stigmergy.space.catalog.values import (
    AUTHORITIES,
    EFFECTS,
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
