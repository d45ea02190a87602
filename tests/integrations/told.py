"""What clients tell their hooks, as recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PAYLOADS = Path(__file__).with_name("payloads")
RECORDED = Path(__file__).with_name("recorded")


def recorded_event(client: str, event: str, folder: Path, **more: Any) -> bytes:
    """A recorded event of a client that works in a folder."""
    text = (PAYLOADS / client / f"{event}.json").read_text("utf-8").replace("@CWD@", str(folder))
    return json.dumps({**json.loads(text), **more}).encode()
