"""The command line. `engrambus --help` reads a generated table and loads nothing else of the product."""

from __future__ import annotations

import gc
import os
import sys

_COLLECT_AFTER = 50_000
"""Objects made before the first garbage collection: a command that calls once and ends needs none."""


def main() -> None:
    """Run `engrambus`: exit 0 if done, 1 if refused, 2 if the command line is wrong."""
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    code = _run(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # the reader closed the pipe; the ordinary exit handles that
        sys.exit(code)
    os._exit(code)  # everything is written and closed; taking the interpreter apart would cost 12 ms more


def _run(words: list[str]) -> int:
    # decision 31: a coding agent waits for every hook, so the rest of the command line is not even loaded
    if words == ["hook"]:
        from engrambus.edges.integrations.hook_process import main as answer_hook

        return answer_hook()
    from engrambus.edges.cli.root import engrambus

    return engrambus.main(words, prog_name="engrambus", standalone_mode=False)


__all__ = ["main"]
