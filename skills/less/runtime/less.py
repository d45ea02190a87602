"""The tools of this skill from a shell: a dotted name and its arguments as JSON, the answer as one line of JSON.

python runtime/less.py less.query_engrams '{"q": "refund approval"}' --as 01K7Z3V5QX0000000000000000/main-abcdefgh

It speaks to the project around the current folder, or to the gateway at ENGRAMBUS_URL with ENGRAMBUS_TOKEN. Exit 0
done, 1 refused with the problem on stderr, 2 not a call.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

MANIFEST = Path(__file__).parents[1] / "manifest.json"
LESS_CODES = ("BUDGET_EXCEEDED", "DEREF_DENIED")
"""Codes that the tools of LESS prefix with `LESS_`, here as over MCP."""


def main() -> int:
    """Carry out one call."""
    tools = {tool["name"]: tool for tool in json.loads(MANIFEST.read_text("utf-8"))["tools"]}
    call = argparse.ArgumentParser(prog="less.py", description="Call a tool of the LESS skill.")
    call.add_argument("tool", choices=sorted(tools), metavar="TOOL", help=", ".join(tools))
    call.add_argument("arguments", nargs="?", default="{}", help="its arguments, as a JSON object")
    call.add_argument("--as", dest="speak_as", help="the agent to act as")
    given = call.parse_args()
    try:
        from engrambus import Bus, EngramBusError, Settings
    except ImportError:
        print("engrambus is not installed here: uv run --with engrambus python runtime/less.py …", file=sys.stderr)
        return 2
    import msgspec

    from engrambus.knowledge.engrams import less_export

    settings = Settings.from_environment()
    try:
        arguments = json.loads(given.arguments)
        if not isinstance(arguments, dict):
            call.error("the arguments are one JSON object")
        if settings.url is not None:
            bus = Bus.connect(settings.url, token=settings.token, as_=given.speak_as)
        else:
            bus = Bus.open(token=settings.token, run=settings.run, as_=given.speak_as, settings=settings)
        with bus:
            answer = getattr(bus, tools[given.tool]["operation"])(**arguments)
    except (ValueError, TypeError) as problem:
        call.error(str(problem))
    except EngramBusError as refusal:
        members = refusal.problem()
        if given.tool.startswith("less.") and refusal.code in LESS_CODES:
            members["code"] = f"LESS_{refusal.code}"
        print(json.dumps(members, ensure_ascii=False), file=sys.stderr)
        return 1
    print(msgspec.json.encode(less_export(msgspec.to_builtins(answer))).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
