"""Values and formats that every layer uses: canonical JSON, digests, ids, costs, time, strict readers, the journal."""

from engrambus.core.canonical_json import canonical, digest, digest_of, is_digest, is_hex
from engrambus.core.clock import (
    SECOND_US,
    BootTime,
    Clock,
    SystemClock,
    age,
    boot_id,
    parse_duration,
    parse_time,
    print_duration,
    print_second,
    print_time,
)
from engrambus.core.costs import (
    MICROS_PER_DOLLAR,
    check_fits,
    check_tokens_fit,
    fits,
    print_dollars,
    print_micros,
    take_within,
)
from engrambus.core.ids import (
    MIN_PREFIX_CHARS,
    Randomness,
    canonical_id,
    is_ulid,
    new_ulid,
    only_beginning,
    short_id,
    ulid_time,
)
from engrambus.core.lru_cache import LruCache
from engrambus.core.project_clock import ProjectClock, ProjectTime, Stamp, TimeReads, fixed_time
from engrambus.core.strict_json import check_depth, read_json, read_json_with_lines
from engrambus.core.strict_yaml import read_yaml, read_yaml_with_lines
from engrambus.core.text_check import check_visible, nfc
from engrambus.core.tokens import MAX_BYTES_PER_TOKEN, estimate_tokens

__all__ = [
    "MAX_BYTES_PER_TOKEN",
    "MICROS_PER_DOLLAR",
    "MIN_PREFIX_CHARS",
    "SECOND_US",
    "BootTime",
    "Clock",
    "LruCache",
    "ProjectClock",
    "ProjectTime",
    "Randomness",
    "Stamp",
    "SystemClock",
    "TimeReads",
    "age",
    "boot_id",
    "canonical",
    "canonical_id",
    "check_depth",
    "check_fits",
    "check_tokens_fit",
    "check_visible",
    "digest",
    "digest_of",
    "estimate_tokens",
    "fits",
    "fixed_time",
    "is_digest",
    "is_hex",
    "is_ulid",
    "new_ulid",
    "nfc",
    "only_beginning",
    "parse_duration",
    "parse_time",
    "print_dollars",
    "print_duration",
    "print_micros",
    "print_second",
    "print_time",
    "read_json",
    "read_json_with_lines",
    "read_yaml",
    "read_yaml_with_lines",
    "short_id",
    "take_within",
    "ulid_time",
]
