"""Yools that are commands: a list of arguments, never a line for a shell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from engrambus.errors import YoolArguments, YoolContract

_PLACE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
MAX_ARGUMENT = 32_768


def check_argv(argv: Sequence[Any], field: str = "argv") -> tuple[str, ...]:
    """The command, if it is a program and its arguments; `${name}` stands for an argument of the step."""
    if not argv or not all(isinstance(each, str) and "\0" not in each for each in argv) or not argv[0]:
        raise YoolContract("A command is a list of texts: a program and its arguments.", field=field)
    if _PLACE.search(argv[0]):
        raise YoolContract("The program itself cannot be an argument.", field=f"{field}[0]", used=argv[0][:200])
    return tuple(argv)


def fill_argv(argv: Sequence[str], args: Mapping[str, Any]) -> list[str]:
    """The command with a step's arguments put in: each stays one argument, and none can pass for an option."""
    wanted = {name for each in argv for name in _PLACE.findall(each)}
    for name in sorted(wanted - args.keys()):
        raise YoolArguments(f"The argument '{name}' is missing.", field=f"args.{name}")
    for name in sorted(args.keys() - wanted):
        raise YoolArguments(
            f"The command takes no argument '{str(name)[:40]}'.",
            field=f"args.{str(name)[:40]}",
            limit=", ".join(sorted(wanted)) or "none",
        )
    texts = {name: _text(name, args[name]) for name in wanted}
    return [_filled(each, texts) for each in argv]


def _filled(template: str, texts: Mapping[str, str]) -> str:
    filled = _PLACE.sub(lambda found: texts[found[1]], template)
    if filled.startswith("-") and not template.startswith("-"):
        name = _PLACE.findall(template)[0]
        raise YoolArguments("An argument that begins with '-' would be an option.", field=f"args.{name}", used=filled)
    return filled


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise YoolArguments(f"'{name}' is not a text or a number.", field=f"args.{name}")
    text = str(value)
    if "\0" in text or len(text) > MAX_ARGUMENT:
        raise YoolArguments(f"'{name}' cannot be an argument.", field=f"args.{name}", limit=MAX_ARGUMENT)
    return text
