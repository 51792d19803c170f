"""The policy of the demo: that of docs/examples/policy.yaml, with days as seconds."""

import re
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "policy.yaml"
SECONDS_A_DAY = 2
IDLE_SECONDS, NOTICE_SECONDS = 4 * SECONDS_A_DAY, 2 * SECONDS_A_DAY
"""What each rule that deletes demands."""
_DAYS = re.compile(r"(?<=: )(\d+)d$", re.MULTILINE)


def write_policy(path: Path) -> Path:
    """Write the example with a day as two seconds; everything else is as documented. Return the path."""
    text, replaced = _DAYS.subn(lambda days: f"{int(days[1]) * SECONDS_A_DAY}s", EXAMPLE.read_text())
    if not replaced:
        raise ValueError(f"{EXAMPLE} has no days")
    path.write_text(text)
    return path
