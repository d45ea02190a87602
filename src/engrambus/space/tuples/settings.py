"""How a space behaves, with the defaults the specification publishes."""

from __future__ import annotations

import msgspec

from engrambus.core import SECOND


class SpaceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How work is queued, held, tried again and paid for."""

    lane_concurrency: int = 32
    """YOOL_TUPLE_LANE_CONCURRENCY: how many tuples of a lane a worker works on at once, unless told."""
    max_lane_concurrency: int = 64
    """YOOL_TUPLE_MAX_LANE_CONCURRENCY, or YOOL_MAX_LANE_CONCURRENCY: how many it may be told."""
    cpu_quota_pct: int = 95
    """YOOL_TUPLE_CPU_QUOTA_PCT: the share of a core a step gets when nobody says; 100 is one core."""
    queue_maxsize: int = 8192
    """YOOL_TUPLE_QUEUE_MAXSIZE: how many tuples may wait in a lane."""
    compression_threshold: int = 1024
    """YOOL_TUPLE_COMPRESSION_THRESHOLD: from how many leaves on a batch is kept folded."""
    max_retries: int = 2
    """YOOL_TUPLE_MAX_RETRIES: how often a tuple is tried again when its terms do not say."""
    lease: int = 30 * SECOND
    """YOOL_TUPLE_LEASE_SECONDS: how long a claim is held without a sign of life."""
    backoff: int = 1 * SECOND
    """YOOL_TUPLE_BACKOFF_SECONDS: how long the first retry waits; each next one twice as long."""
    max_backoff: int = 300 * SECOND
    alarm_pct: int = 80
    """YOOL_TUPLE_ALARM_PCT: the share of a budget at which an alarm tuple is put; 0 for none."""
    alarm_lane: str = "alarm"
    """YOOL_TUPLE_ALARM_LANE: where alarm tuples are put."""
    indexed: tuple[str, ...] = ()
    """YOOL_TUPLE_INDEXED: fields, by path, that patterns find tuples by as fast as by lane."""
    salt: str = ""
    """YOOL_TUPLE_CACHE_SALT: results made under another salt are no hits."""
