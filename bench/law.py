"""What the law costs: a full message judged and stored, next to reading its YAML and syncing a line of its size."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import yaml

from bench.corpus import Corpus
from bench.measure import Row, at_most, microseconds, percentile, sample
from stigmergy.core import estimate_tokens
from stigmergy.operations import LOCAL_ADMIN, OPERATIONS, Credential, Gateway
from stigmergy.operations.messages import SendMessage
from stigmergy.operations.people import AddAgent
from stigmergy.operations.upkeep import ApplyPolicy

MESSAGES = 150
ENGRAMS = 12
BAR = 10_000
"""Microseconds."""


def message_rows(gateway: Gateway, corpus: Corpus, refs: list[str], scratch: Path) -> list[Row]:
    """A child's message of twelve engrams and eight hundred tokens, in process."""
    ample = ApplyPolicy(policy={"engrams_per_minute": 1_000_000, "inline": {"max_inline_tokens": 1_200}})
    gateway.call(OPERATIONS["apply_policy"], ample, LOCAL_ADMIN)
    agent = gateway.call(OPERATIONS["add_agent"], AddAgent(name="bench-child"), LOCAL_ADMIN)
    child = Credential(token=agent.token)
    texts = [_message(corpus, refs, number) for number in range(MESSAGES + 10)]
    send = OPERATIONS["send_message"]
    for text in texts[:10]:
        gateway.call(send, SendMessage(text=text), child)
    times = sample([partial(gateway.call, send, SendMessage(text=text), child) for text in texts[10:]])
    read = sample([partial(yaml.load, text, Loader=yaml.CSafeLoader) for text in texts])
    descriptor = os.open(scratch / "messages.raw", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    append = sample([partial(_synced, descriptor, text.encode() * 3) for text in texts])
    os.close(descriptor)
    p95 = percentile(times, 0.95)
    raw = percentile(read, 0.95) + percentile(append, 0.95)
    what = f"{estimate_tokens(texts[-1])} tokens, {ENGRAMS} engrams, p95"
    beside = f"raw YAML {microseconds(percentile(read, 0.95))} + synced append {microseconds(percentile(append, 0.95))}"
    ratio, _, _ = at_most(p95 / raw, 0)
    return [Row("message", what, microseconds(p95), beside, ratio, "≤ 10 ms", p95 <= BAR)]


def _message(corpus: Corpus, refs: list[str], number: int) -> str:
    lines = ["ROLE: programmer", "TASK_STATUS: in_progress", "ENGRAMS:"]
    for at in range(ENGRAMS):
        ref = refs[(number * ENGRAMS + at) % len(refs)]
        lines += ["  - kind: fact", f'    claim: "{corpus.claim()}"', f'    pointers: ["{ref}"]']
    lines += ["OUTPUT:", f'  summary: "Report {number}: twelve findings, all anchored."']
    return "\n".join(lines) + "\n"


def _synced(descriptor: int, data: bytes) -> None:
    os.write(descriptor, data)
    os.fdatasync(descriptor)
