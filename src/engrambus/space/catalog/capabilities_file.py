"""`.catalog/capabilities.json`: the catalog as people commit it, one yool per line, always in the same order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from engrambus.core import canonical, files, read_json, read_json_with_lines
from engrambus.errors import (
    BodyRefusal,
    CatalogFile,
    CatalogRefusal,
    CommandDeclared,
    EngramBusError,
    FileNotOurs,
    YoolContract,
    YoolTwice,
)
from engrambus.space.catalog.catalog import Catalog
from engrambus.space.catalog.entries import (
    MAX_ABOUT,
    CatalogEntry,
    Contract,
    Terms,
    check_contract,
    read_authority,
    read_terms,
)
from engrambus.space.catalog.names import check_not_reserved, parse_name, read_lane
from engrambus.space.catalog.signatures import MAX_PARAMETERS, Signature

CAPABILITIES = "capabilities.json"
SCHEMA = "yool-catalog/v1"
MAX_BYTES = 1 << 28
COMMANDS = frozenset({"command", "cmd", "argv", "args", "run", "exec", "script", "shell", "entrypoint"})
"""Fields that would define how a yool is run. They are refused: only code that an operator names defines that."""

_REQUIRED = ("yool_id", "authority", "lane")
_FIELDS = frozenset({*_REQUIRED, "agent_terms", "agent", "about", "triggers", "contract", "arguments"})
T = TypeVar("T")


def print_catalog(catalog: Catalog) -> str:
    """Return the file's text: equal for equal catalogs, and a changed yool is one changed line."""
    # decision 21: the file has no root digest, which would conflict in every merge and follows from the lines anyway.
    lines = ",\n".join(_line(entry) for entry in catalog)
    newline = "\n" if lines else ""
    return f'{{\n"schema": "{SCHEMA}",\n"yools": [{newline}{lines}{newline}]\n}}\n'


def _line(entry: CatalogEntry) -> str:
    fields = entry.to_fields()
    body = canonical({name: value for name, value in fields.items() if name != "yool_id"}).decode()
    return f'{{"yool_id":"{fields["yool_id"]}",{body[1:]}'


def parse_catalog(text: str) -> Catalog:
    """Parse the text of a catalog file; an error names field and line."""
    try:
        return _catalog(read_json(text.encode("utf-8", "surrogatepass"), max_bytes=MAX_BYTES))
    except (BodyRefusal, CatalogRefusal) as problem:
        raise _with_line(problem, text) from None


def _with_line(problem: EngramBusError, text: str) -> CatalogFile | CatalogRefusal:
    """Return the error with the line of its field; lines are only found for errors, since that parse is slower."""
    try:
        _, lines = read_json_with_lines(text, max_bytes=MAX_BYTES)
    except EngramBusError as broken:
        detail = broken.detail.replace("The body", "The catalog file")
        return CatalogFile(
            detail, field=broken.field, line=broken.line, hint="Write it again from AGENTS.md: engrambus catalog build"
        )
    field = problem.field or ""
    while field and field not in lines:
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    problem.line = lines.get(field)
    return problem if isinstance(problem, CatalogRefusal) else CatalogFile(problem.detail, line=problem.line)


def _catalog(content: Any) -> Catalog:
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise CatalogFile(f"The file has no field 'schema' with the value '{SCHEMA}'.", field="schema", limit=SCHEMA)
    for name in content.keys() - {"schema", "yools"}:
        raise CatalogFile(f"'{name[:40]}' is not a field of a catalog file.", field=name[:80])
    if not isinstance(content.get("yools"), list):
        raise CatalogFile("'yools' is not a list.", field="yools")
    entries: dict[str, CatalogEntry] = {}
    for position, fields in enumerate(content["yools"]):
        entry = _within(f"yools[{position}]", lambda fields=fields: read_entry(fields))  # type: ignore[misc]
        if entries.setdefault(entry.full_name, entry) is not entry:
            raise YoolTwice(
                f"'{entry.full_name}' is declared twice.", field=f"yools[{position}].yool_id", used=entry.full_name
            )
    return Catalog(entries.values())


def _within(path: str, read: Callable[[], T]) -> T:
    """Call a function; put `path` in front of the field of an error it raises."""
    try:
        return read()
    except CatalogRefusal as problem:
        problem.field = f"{path}.{problem.field}" if problem.field else path
        raise


def read_entry(fields: Any) -> CatalogEntry:
    """Parse one yool of a catalog file."""
    if not isinstance(fields, Mapping):
        raise CatalogFile("A yool is an object.")
    for name in _REQUIRED:
        if name not in fields:
            raise CatalogFile(f"'{name}' is missing.", field=name)
    for name in sorted(fields.keys() - _FIELDS):
        if name in COMMANDS:
            raise CommandDeclared(field=name)
        raise CatalogFile(f"'{name[:40]}' is not a field of a yool.", field=name[:80])
    for name in ("yool_id", "lane", "agent", "about", "triggers"):
        if name in fields and not isinstance(fields[name], str):
            raise CatalogFile(f"'{name}' is not a text.", field=name)
    for name in ("about", "triggers"):
        if len(fields.get(name, "")) > MAX_ABOUT:
            raise CatalogFile(f"'{name}' is too long.", field=name, limit=MAX_ABOUT, used=len(fields[name]))
    base, version = parse_name(fields["yool_id"], "yool_id")
    check_not_reserved(base, "yool_id")
    return CatalogEntry(
        name=base,
        version=version or 1,
        authority=read_authority(fields["authority"]),
        lane=read_lane(fields["lane"]),
        terms=read_terms(fields["agent_terms"]) if "agent_terms" in fields else Terms(),
        contract=_contract(fields["contract"]) if "contract" in fields else Contract(),
        agent=fields.get("agent"),
        about=fields.get("about", ""),
        triggers=fields.get("triggers", ""),
        arguments=_arguments(fields["arguments"]) if "arguments" in fields else None,
    )


def _arguments(fields: Any) -> Signature:
    try:
        signature = msgspec.convert(fields, Signature)
    except msgspec.ValidationError as problem:
        message, _, path = str(problem).partition(" - at `$")
        raise CatalogFile(f"{message}.", field=f"arguments{path.removesuffix('`')}") from None
    if len(signature.parameters) > MAX_PARAMETERS:
        raise CatalogFile(field="arguments.parameters", limit=MAX_PARAMETERS, used=len(signature.parameters))
    return signature


def _contract(fields: Any) -> Contract:
    if isinstance(fields, dict):
        for name in sorted(fields.keys() - set(Contract.__struct_fields__)):
            if name in COMMANDS:
                raise CommandDeclared(field=f"contract.{name}")
            raise YoolContract(f"'{name[:40]}' is not a field of a contract.", field=f"contract.{name[:80]}")
    try:
        return check_contract(msgspec.convert(fields, Contract))
    except msgspec.ValidationError as problem:
        message, _, path = str(problem).partition(" - at `$")
        raise YoolContract(f"{message}.", field=f"contract{path.removesuffix('`')}") from None


def read_catalog(path: Path) -> Catalog:
    """Read and parse a catalog file."""
    try:
        return parse_catalog(files.read_file(path).decode())
    except (FileNotOurs, FileNotFoundError, IsADirectoryError):
        raise CatalogFile(f"'{path}' is not a regular file.", field="file") from None
    except UnicodeDecodeError as problem:
        raise CatalogFile(f"The catalog file is not UTF-8 at byte {problem.start}.") from None


def write_catalog(path: Path, catalog: Catalog) -> int:
    """Write the file atomically, only if it changes; return its size in bytes.

    A text that could not be read again is never written.
    """
    text = print_catalog(catalog)
    data = text.encode()
    try:
        if files.read_file(path) == data:
            return len(data)  # an unchanged file keeps its time, and build tools have nothing to do
    except FileNotFoundError:
        files.make_folder(path.parent, files.COMMITTED_FOLDER)
    except (FileNotOurs, IsADirectoryError):
        raise CatalogFile(f"'{path}' is not a regular file.", field="output") from None
    parse_catalog(text)
    files.replace_file(path, data, files.COMMITTED_FILE, synced=True)
    return len(data)
