"""The catalog: every yool by name, with its authorities, lane, terms and contract."""

from engrambus.space.catalog.agents_file import AGENTS, AgentsContent, read_agents
from engrambus.space.catalog.build import build_catalog, combine_entries, find_stacks
from engrambus.space.catalog.capabilities_file import (
    CAPABILITIES,
    parse_catalog,
    print_catalog,
    read_catalog,
    write_catalog,
)
from engrambus.space.catalog.catalog import Catalog, CatalogDiff
from engrambus.space.catalog.code_sources import describe_problem, load_entry_points, user_line
from engrambus.space.catalog.entries import (
    TERMS,
    CatalogEntry,
    Contract,
    Effect,
    Terms,
    read_terms,
)
from engrambus.space.catalog.introspection import (
    INTROSPECTION,
    CatalogReader,
    without_introspection,
)
from engrambus.space.catalog.lint import LintFlaw, lint_change, lint_contract, lint_name
from engrambus.space.catalog.names import RESERVED, nearest_names, parse_name, read_lane
from engrambus.space.catalog.registry import Registry, Yool, fill_argv
from engrambus.space.catalog.signatures import Parameter, Signature, check_arguments, describe_signature

REGISTRY = Registry(INTROSPECTION)
"""The yools registered by the code that this process has imported."""

yool = REGISTRY.yool

__all__ = [
    "AGENTS",
    "CAPABILITIES",
    "INTROSPECTION",
    "REGISTRY",
    "RESERVED",
    "TERMS",
    "AgentsContent",
    "Catalog",
    "CatalogDiff",
    "CatalogEntry",
    "CatalogReader",
    "Contract",
    "Effect",
    "LintFlaw",
    "Parameter",
    "Registry",
    "Signature",
    "Terms",
    "Yool",
    "build_catalog",
    "check_arguments",
    "combine_entries",
    "describe_problem",
    "describe_signature",
    "fill_argv",
    "find_stacks",
    "lint_change",
    "lint_contract",
    "lint_name",
    "load_entry_points",
    "nearest_names",
    "parse_catalog",
    "parse_name",
    "print_catalog",
    "read_agents",
    "read_catalog",
    "read_lane",
    "read_terms",
    "user_line",
    "without_introspection",
    "write_catalog",
    "yool",
]
