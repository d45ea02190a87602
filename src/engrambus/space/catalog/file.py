"""`.catalog/capabilities.json`: the catalog as people commit it, one yool to a line, always in the same order."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from engrambus.core import canonical, read_json, read_json_with_lines
from engrambus.errors import (
    BodyRefusal,
    CatalogFile,
    CatalogRefusal,
    CommandDeclared,
    EngramBusError,
    YoolContract,
    YoolTwice,
)
from engrambus.space.catalog.catalog import Catalog
from engrambus.space.catalog.names import check_lane, check_not_reserved, parse_name
from engrambus.space.catalog.values import (
    MAX_ABOUT,
    CatalogEntry,
    Contract,
    Terms,
    check_contract,
    read_authority,
    read_terms,
)

CAPABILITIES = "capabilities.json"
SCHEMA = "yool-catalog/v1"
MAX_BYTES = 1 << 28
COMMANDS = frozenset({"command", "cmd", "argv", "args", "run", "exec", "script", "shell", "entrypoint"})
"""Fields that would say how a yool is carried out, and are refused: that comes from code an operator names."""

_REQUIRED = ("yool_id", "authority", "lane")
_KNOWN = frozenset({*_REQUIRED, "agent_terms", "agent", "about", "contract"})
T = TypeVar("T")


def print_catalog(catalog: Catalog) -> str:
    """The file's text: equal catalogs print equal texts, and a changed yool is a changed line."""
    lines = ",\n".join(_line(entry) for entry in catalog)
    return f'{{\n"schema": "{SCHEMA}",\n"yools": [{chr(10) if lines else ""}{lines}{chr(10) if lines else ""}]\n}}\n'


def _line(entry: CatalogEntry) -> str:
    said = entry.printed()
    body = canonical({name: value for name, value in said.items() if name != "yool_id"}).decode()
    return f'{{"yool_id":"{said["yool_id"]}",{body[1:]}'


def parse_catalog(text: str) -> Catalog:
    """The catalog a text holds, or a refusal that names field and line."""
    try:
        said = read_json(text.encode("utf-8", "surrogatepass"), max_bytes=MAX_BYTES)
        return _catalog(said)
    except (BodyRefusal, CatalogRefusal) as problem:
        raise _located(problem, text) from None


def _located(problem: EngramBusError, text: str) -> CatalogFile | CatalogRefusal:
    """The refusal with the line its field stands on; only now is it worth finding."""
    try:
        _, lines = read_json_with_lines(text, max_bytes=MAX_BYTES)
    except EngramBusError as broken:
        detail = broken.detail.replace("The body", "The catalog file")
        return CatalogFile(
            detail, field=broken.field, line=broken.line, hint="Write it anew from AGENTS.md: engrambus catalog build."
        )
    field = problem.field or ""
    while field and field not in lines:
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    problem.line = lines.get(field)
    return problem if isinstance(problem, CatalogRefusal) else CatalogFile(problem.detail, line=problem.line)


def _catalog(said: Any) -> Catalog:
    if not isinstance(said, dict) or said.get("schema") != SCHEMA:
        raise CatalogFile(f"The file does not say that it is a '{SCHEMA}'.", field="schema", limit=SCHEMA)
    for name in said.keys() - {"schema", "yools"}:
        raise CatalogFile(f"'{name[:40]}' is not known here.", field=name[:80])
    if not isinstance(said.get("yools"), list):
        raise CatalogFile("'yools' is not a list.", field="yools")
    entries: dict[str, CatalogEntry] = {}
    for position, each in enumerate(said["yools"]):
        entry = _within(f"yools[{position}]", lambda each=each: read_entry(each))  # type: ignore[misc]
        if entries.setdefault(entry.full_name, entry) is not entry:
            raise YoolTwice(
                f"'{entry.full_name}' stands twice.", field=f"yools[{position}].yool_id", used=entry.full_name
            )
    return Catalog(entries.values())


def _within(where: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except CatalogRefusal as problem:
        problem.field = f"{where}.{problem.field}" if problem.field else where
        raise


def read_entry(said: Any) -> CatalogEntry:
    """The entry an object says."""
    if not isinstance(said, Mapping):
        raise CatalogFile("A yool is an object.")
    for name in _REQUIRED:
        if name not in said:
            raise CatalogFile(f"'{name}' is missing.", field=name)
    for name in sorted(said.keys() - _KNOWN):
        if name in COMMANDS:
            raise CommandDeclared(field=name)
        raise CatalogFile(f"'{name[:40]}' is not known here.", field=name[:80])
    for name in ("yool_id", "lane", "agent", "about"):
        if name in said and not isinstance(said[name], str):
            raise CatalogFile(f"'{name}' is not a text.", field=name)
    if len(said.get("about", "")) > MAX_ABOUT:
        raise CatalogFile("'about' is too long.", field="about", limit=MAX_ABOUT, used=len(said["about"]))
    base, version = parse_name(said["yool_id"], "yool_id")
    check_not_reserved(base, "yool_id")
    return CatalogEntry(
        name=base,
        version=version or 1,
        authority=read_authority(said["authority"]),
        lane=check_lane(said["lane"]),
        terms=read_terms(said["agent_terms"]) if "agent_terms" in said else Terms(),
        contract=_contract(said["contract"]) if "contract" in said else Contract(),
        agent=said.get("agent"),
        about=said.get("about", ""),
    )


def _contract(said: Any) -> Contract:
    if isinstance(said, dict):
        for name in sorted(said.keys() - set(Contract.__struct_fields__)):
            if name in COMMANDS:
                raise CommandDeclared(field=f"contract.{name}")
            raise YoolContract(f"'{name[:40]}' is not part of a contract.", field=f"contract.{name[:80]}")
    try:
        return check_contract(msgspec.convert(said, Contract))
    except msgspec.ValidationError as problem:
        says, _, path = str(problem).partition(" - at `$")
        raise YoolContract(f"{says}.", field=f"contract{path.removesuffix('`')}") from None


def read_catalog(path: Path) -> Catalog:
    """The catalog a file holds."""
    if not path.is_file():
        raise CatalogFile(f"'{path}' is not a regular file.", field="file")
    try:
        return parse_catalog(path.read_bytes().decode())
    except UnicodeDecodeError as problem:
        raise CatalogFile(f"The catalog file is not UTF-8 at byte {problem.start}.") from None


def write_catalog(path: Path, catalog: Catalog) -> int:
    """Write the file whole or not at all, and only if it changes; the size it has then.

    Nothing is written that could not be read again; a link stays one, and what it leads to is written.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise CatalogFile(f"'{path}' is not a regular file.", field="output")
    printed = print_catalog(catalog)
    text = printed.encode()
    with suppress(FileNotFoundError):
        if path.read_bytes() == text:
            return len(text)
    parse_catalog(printed)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with draft.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return len(text)
