"""A machine whose clock is wrong, as its user meets it on the command line (decision 91)."""

from __future__ import annotations

import re

import pytest

from engrambus.core import SECOND_US, SystemClock
from tests.cli.runner import Shell

DAY_US = 86_400 * SECOND_US
PUT = ("put", "The parser trusts its input.", "--at", "src/parser.py:1-2", "--ttl", "P7D")
OTHER = ("put", "The parser reads one byte at a time.", "--at", "src/parser.py:3-4", "--ttl", "P30D")


class Machine:
    """A machine whose clock and boot can be moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset_us = 0
        self.boot = "0000aaaa"
        real = SystemClock()
        now, since_boot = real.now, real.since_boot
        monkeypatch.setattr(SystemClock, "now", lambda clock: now() + self.offset_us)
        monkeypatch.setattr(SystemClock, "since_boot", lambda clock: since_boot()._replace(boot=self.boot))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine whose clock a test moves."""
    return Machine(monkeypatch)


def claims(shell: Shell) -> list[str]:
    """Return the claims that a query finds."""
    return [engram["claim"] for engram in shell.ok("query", "parser", "--json").json["engrams"]]


def test_a_clock_that_is_a_century_ahead_ends_nothing(shell: Shell, machine: Machine) -> None:  # BX-03
    shell.ok(*PUT)
    machine.offset_us = 100 * 365 * DAY_US
    refused = shell.run(*OTHER)
    assert refused.code == 1
    assert "CLOCK_AHEAD" in refused.err
    assert "recover --clock --accept" in refused.err
    assert claims(shell) == ["The parser trusts its input."]
    assert shell.run("doctor").out.count("CLOCK_AHEAD") == 1
    problem = shell.run("recover", "--clock", "--json").problem
    assert problem["code"] == "CLOCK_AHEAD"
    machine.offset_us = 0
    shell.ok(*OTHER)
    assert len(claims(shell)) == 2


def test_a_person_accepts_the_new_time(shell: Shell, machine: Machine) -> None:
    shell.ok(*PUT)
    shell.ok(*OTHER)
    machine.offset_us = 10 * DAY_US
    accepted = shell.ok("recover", "--clock", "--accept", "--json").json
    assert [journal["change"] for journal in accepted["journals"]] == ["accepted"]
    assert claims(shell) == ["The parser reads one byte at a time."]
    again = shell.ok("recover", "--clock", "--accept")
    assert again.out == "The clock and the journals agree: there is nothing to correct.\n"


def test_the_time_is_corrected_after_a_clock_was_ahead(shell: Shell, machine: Machine) -> None:
    shell.ok(*PUT)
    shell.ok("agent", "add", "lead", "--role", "architect")
    machine.boot, machine.offset_us = "0000bbbb", 300 * DAY_US
    shell.ok(*OTHER)
    assert claims(shell) == ["The parser reads one byte at a time."]
    machine.offset_us = 0
    assert "nothing expires until the clock catches up" in shell.run("doctor").out
    corrected = shell.ok("recover", "--clock")
    assert re.search(r"the time was \S+ and is \S+ from now on", corrected.out)
    assert "tokens and grants are revoked" in corrected.out
    assert sorted(claims(shell)) == ["The parser reads one byte at a time.", "The parser trusts its input."]
    assert shell.ok("token", "list", "--json").json["tokens"] == []
    assert shell.ok("verify").code == 0
