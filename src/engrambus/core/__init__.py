"""Words everyone uses: canonical JSON, digests, ids, tokens, money, durations, the clock and the journal."""

from engrambus.core.canonical import canonical
from engrambus.core.clock import SECOND, Clock, ProjectClock, SystemClock, age, parse_time, print_time
from engrambus.core.digest import digest, digest_of, is_digest, is_hex
from engrambus.core.durations import parse_duration
from engrambus.core.ids import Randomness, is_ulid, is_uuid, new_ulid, ulid_time
from engrambus.core.memo import Memo
from engrambus.core.money import MICROS, print_dollars
from engrambus.core.strict_json import check_depth, read_json, read_json_with_lines
from engrambus.core.strict_yaml import read_yaml, read_yaml_with_lines
from engrambus.core.tokens import BYTES_PER_TOKEN, estimate_tokens

__all__ = [
    "BYTES_PER_TOKEN",
    "MICROS",
    "SECOND",
    "Clock",
    "Memo",
    "ProjectClock",
    "Randomness",
    "SystemClock",
    "age",
    "canonical",
    "check_depth",
    "digest",
    "digest_of",
    "estimate_tokens",
    "is_digest",
    "is_hex",
    "is_ulid",
    "is_uuid",
    "new_ulid",
    "parse_duration",
    "parse_time",
    "print_dollars",
    "print_time",
    "read_json",
    "read_json_with_lines",
    "read_yaml",
    "read_yaml_with_lines",
    "ulid_time",
]
