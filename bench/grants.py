"""Verifying a grant against Biscuit itself: shown for the first time, and shown again."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from biscuit_auth import AuthorizerBuilder, Biscuit

from bench.measure import Row, at_most, in_turns, microseconds, percentile
from engrambus.evidence.pointers import parse_ref
from engrambus.policy.grants import BlockSpending, GrantKey, GrantUse, attenuate, check_spend, issue_token, verify_token

CHECKS = 2000
DEPTHS = (1, 3, 8)
BAR = 300
"""Microseconds."""
SECRET = bytes(range(32))

_SHA = "0123456789abcdef0123456789abcdef01234567"
_FACTS = """
project("p"); run("r"); now(1); tokens(100); code(0); lineage("dev"); lineage("lead"); pointer({target});
allow if grant($id, $project, $run, $parent, $use);
"""


def grant_rows() -> list[Row]:
    """Signatures, limits and spending of a chain, against Biscuit opening the same token and running its checks."""
    key = GrantKey(SECRET)
    target = f"repo:src/ledger/reservation.py#L1-L220@{_SHA}"
    address = parse_ref(f"repo:src/ledger/reservation.py#L10-L20@{_SHA}")

    def ours(token: str, key: GrantKey) -> None:
        use = GrantUse(pointer=address, lineage=("dev", "lead"), project="p", run="r", now_us=1, tokens=100)
        grant = verify_token(key, token, use)
        check_spend(grant, {block.block_id: BlockSpending(tokens=1, uses=1) for block in grant.blocks}, 100)

    def raw(biscuit: str) -> None:
        builder: Any = AuthorizerBuilder(_FACTS, {"target": target})
        limits = builder.limits()
        limits.max_time = timedelta(seconds=1)
        builder.set_limits(limits)
        builder.build(Biscuit.from_base64(biscuit, key.public)).authorize()

    token = issue_token(
        key,
        grant_id="g",
        project="p",
        run="r",
        parent="lead",
        child="dev",
        pointer=target,
        cap_tokens=500,
        uses=3,
        expires_us=2,
        intended_use="Confirm that reservations are atomic.",
    )
    rows = []
    for depth in range(1, max(DEPTHS) + 1):
        if depth in DEPTHS:
            biscuit = token.rpartition(".")[2]
            ours(token, key)
            raw(biscuit)
            first, again, raw_times = in_turns(
                [partial(ours, token, _new_key()) for _ in range(CHECKS)],
                [partial(ours, token, key)] * CHECKS,
                [partial(raw, biscuit)] * CHECKS,
            )
            comparison = percentile(raw_times, 0.5)
            measured = f"verify, {depth} block{'s' * (depth > 1)}"
            cold, known = percentile(first, 0.5), percentile(again, 0.5)
            theirs, bar = f"Biscuit's own {microseconds(comparison)}", ("≤ 0.3 ms", known <= BAR)
            rows += [
                Row(
                    "grant",
                    f"{measured}, shown first, p50",
                    microseconds(cold),
                    theirs,
                    *at_most(cold / comparison, 1.25),
                ),
                Row(
                    "grant",
                    f"{measured}, shown again, p50",
                    microseconds(known),
                    theirs,
                    f"{known / comparison:.2f} ×",
                    *bar,
                ),
            ]
        token = attenuate(token, child="dev", cap_tokens=500 - depth, uses=2, max_blocks=max(DEPTHS) + 1)
    return rows


def _new_key() -> GrantKey:
    """The same key as a gateway has it that has seen no token yet."""
    key = GrantKey(SECRET)
    _ = key.name  # derived once in a gateway's life
    return key
