"""The command line. Nothing is loaded before it is needed: `engrambus --help` reads a table, not the product."""

from __future__ import annotations

import gc
import os
import sys

_INTERRUPTED = 130
_COLLECT_AFTER = 50_000
"""Objects made before the first collection: a command that only starts, asks and ends needs none."""


def main() -> None:
    """Run `engrambus`: exit 0 done, 1 refused, 2 not a command."""
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    code = _run(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads on: the ordinary way out knows what to do
        sys.exit(code)
    os._exit(code)  # everything is written and closed; taking the interpreter apart costs 12 ms more


def _run(words: list[str]) -> int:
    if words == ["hook"]:  # started for every event of a client, who waits: the rest of the command line stays away
        from engrambus.edges.integrations.client_hook import main as answer_hook

        return answer_hook()
    import click

    from engrambus.edges.cli.root import engrambus

    try:
        code = engrambus.main(words, prog_name="engrambus", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.Abort:
        return _INTERRUPTED
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code


__all__ = ["main"]
