"""The command line. Nothing is loaded before it is needed: `stig --help` reads a table, not the product."""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def main() -> None:
    """Run `stig`: exit 0 done, 1 refused, 2 not a command."""
    sys.exit(_run(sys.argv[1:]))


def _run(words: list[str]) -> int:
    if words == ["hook"]:  # started for every event of a client, who waits: the rest of the command line stays away
        import os

        from stigmergy.edges.clients.hook import main as answer_hook

        os._exit(answer_hook())  # everything is written and closed; taking the interpreter apart costs 12 ms more
    import click

    from stigmergy.edges.cli.root import stig

    try:
        code = stig.main(words, prog_name="stig", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.Abort:
        return _INTERRUPTED
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code


__all__ = ["main"]
