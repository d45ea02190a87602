"""Pointers: addresses of evidence, how they are written, and how they are read."""

from stigmergy.evidence.pointers.addresses import (
    Address,
    ArtifactAddress,
    BodyAddress,
    DiffAddress,
    Pointer,
    RepoAddress,
    SamAddress,
    TestAddress,
    UrlAddress,
)
from stigmergy.evidence.pointers.git import GitRepository, find_repository
from stigmergy.evidence.pointers.grammar import MAX_REF, TYPES, check, check_path, parse, parse_lines, print_address
from stigmergy.evidence.pointers.repo import RepoResolver, Repositories
from stigmergy.evidence.pointers.resolve import Content, Evidence, Resolver

__all__ = [
    "MAX_REF",
    "TYPES",
    "Address",
    "ArtifactAddress",
    "BodyAddress",
    "Content",
    "DiffAddress",
    "Evidence",
    "GitRepository",
    "Pointer",
    "RepoAddress",
    "RepoResolver",
    "Repositories",
    "Resolver",
    "SamAddress",
    "TestAddress",
    "UrlAddress",
    "check",
    "check_path",
    "find_repository",
    "parse",
    "parse_lines",
    "print_address",
]
