"""What the limits costs: a full message judged and stored, next to reading its YAML and syncing a line of its size."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import yaml

from bench.corpus import FILES, Corpus
from bench.measure import Row, microseconds, percentile, sample
from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway
from engrambus.operations import OPERATIONS
from engrambus.operations.admin import ApplyPolicy
from engrambus.operations.messages import SendMessage
from engrambus.operations.runs import AddAgent

MESSAGES = 150
ENGRAMS = 12
BAR = 10_000
"""Microseconds."""


def message_rows(gateway: Gateway, corpus: Corpus, refs: list[str], scratch: Path) -> list[Row]:
    """A child's message of twelve engrams with one short claim each, in process."""
    ample = ApplyPolicy(policy={"engrams_per_minute": 1_000_000, "inline": {"max_inline_tokens": 1_200}})
    gateway.call(OPERATIONS["apply_policy"], ample, LOCAL_ADMIN)
    agent = gateway.call(OPERATIONS["add_agent"], AddAgent(name="bench-child"), LOCAL_ADMIN)
    child = Credential(token=agent.token)
    rows = []
    for measured, texts in (
        ("spans pointed at before", [_message(corpus, refs, number) for number in range(MESSAGES)]),
        ("12 files, new spans", [_message(corpus, _new_spans(refs, number), 0) for number in range(MESSAGES)]),
    ):
        calls = [partial(gateway.call, OPERATIONS["send_message"], SendMessage(text=text), child) for text in texts]
        times = sample(calls[10:], warm_up=calls[:10])
        read = sample([partial(yaml.load, text, Loader=yaml.CSafeLoader) for text in texts])
        append = _append_times(scratch, texts)
        p95 = percentile(times, 0.95)
        raw = percentile(read, 0.95) + percentile(append, 0.95)
        measured = f"{estimate_tokens(texts[-1])} tokens, {ENGRAMS} engrams, {measured}, p95"
        yaml_time, append_time = (microseconds(percentile(each, 0.95)) for each in (read, append))
        comparison = f"raw YAML {yaml_time} + synced append {append_time}"
        rows.append(
            Row("message", measured, microseconds(p95), comparison, f"{p95 / raw:.2f} ×", "≤ 10 ms", p95 <= BAR)
        )
    return rows


def _append_times(scratch: Path, texts: list[str]) -> list[float]:
    """How long a line takes to be written and synced that is as long as what a message leaves in the journal."""
    descriptor = os.open(scratch / "messages.raw", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    times = sample([partial(_synced, descriptor, text.encode() * 3) for text in texts])
    os.close(descriptor)
    return times


def _new_spans(refs: list[str], number: int) -> list[str]:
    """One span in each of twelve files, none of them pointed at before."""
    spans = len(refs) // FILES
    chosen = (refs[(number * ENGRAMS + at) * spans % len(refs)] for at in range(ENGRAMS))
    return [ref.replace("#L1-L20@", f"#L{number + 2}-L{number + 30}@") for ref in chosen]


def _message(corpus: Corpus, refs: list[str], number: int) -> str:
    lines = ["ROLE: programmer", "TASK_STATUS: in_progress", "ENGRAMS:"]
    for at in range(ENGRAMS):
        ref = refs[(number * ENGRAMS + at) % len(refs)]
        lines += ["  - kind: fact", f'    claim: "{_short_claim(corpus)}"', f'    pointers: ["{ref}"]']
    lines += ["OUTPUT:", f'  summary: "Report {number}: twelve findings, all anchored."']
    return "\n".join(lines) + "\n"


def _short_claim(corpus: Corpus) -> str:
    """Return the first clause of a claim: twelve whole ones are more than a message may hold."""
    return corpus.claim().partition(" before ")[0] + "."


def _synced(descriptor: int, data: bytes) -> None:
    os.write(descriptor, data)
    os.fdatasync(descriptor)
