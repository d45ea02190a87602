"""One catalog from what people declared and what code registered."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from engrambus.errors import AuthorityInvalid
from engrambus.space.catalog.agents import Declared
from engrambus.space.catalog.catalog import Catalog
from engrambus.space.catalog.names import RESERVED
from engrambus.space.catalog.registry import Yool
from engrambus.space.catalog.values import CatalogEntry, Terms


def build_catalog(declared: Iterable[Declared], code: Iterable[Yool] = ()) -> Catalog:
    """The catalog of both. A yool in both has the lane and terms people gave it and the contract its code keeps."""
    entries = {yool.entry.full_name: yool.entry for yool in code if yool.entry.name.partition(".")[0] != RESERVED}
    for each in declared:
        known = entries.get(each.entry.full_name)
        entries[each.entry.full_name] = each.entry if known is None else _both(each, known)
    return Catalog(entries.values())


def _both(declared: Declared, code: CatalogEntry) -> CatalogEntry:
    entry = in_both(declared.entry, code)
    if not entry.authority:
        declared_for, admitted = ", ".join(declared.entry.authority), ", ".join(code.authority)
        raise AuthorityInvalid(
            f"'{entry.full_name}' is declared for {declared_for}; its code admits {admitted}.",
            field="authority",
            limit=admitted,
            line=declared.line,
        )
    return entry


def in_both(declared: CatalogEntry, code: CatalogEntry) -> CatalogEntry:
    """A yool as it is declared and as its code has it: a file can take authority away from it, and cannot add any."""
    return msgspec.structs.replace(
        declared,
        authority=tuple(each for each in declared.authority if each in code.authority),
        terms=_terms(declared.terms, code.terms),
        contract=code.contract,
        about=declared.about or code.about,
    )


def _terms(said: Terms, default: Terms) -> Terms:
    given = {name: value for name, value in msgspec.structs.asdict(said).items() if value is not None}
    return msgspec.structs.replace(default, **given)
