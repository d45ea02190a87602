"""The command line. Nothing is loaded before it is needed: `stig --help` reads a table, not the product."""

from __future__ import annotations

import sys

INTERRUPTED = 130
BROKEN_PIPE = 141


def main() -> None:
    """Run `stig`: exit 0 done, 1 refused, 2 not a command."""
    sys.exit(_run(sys.argv[1:]))


def _run(words: list[str]) -> int:
    from stigmergy.edges.cli.root import stig

    try:
        code = stig.main(words, prog_name="stig", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        _hush()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as problem:
        import click

        if isinstance(problem, click.Abort):
            return INTERRUPTED
        if not isinstance(problem, click.ClickException):
            raise
        problem.show()
        return problem.exit_code


def _hush() -> None:
    """Whoever read our output has gone: let nothing more be written to it, not even on the way out."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


__all__ = ["main"]
