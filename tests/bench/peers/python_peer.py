"""What the Python peers share: JSON lines on stdin and stdout, one command after the other.

``{"op": …, "groups": <file with ids>}`` -> ``{"seconds": …, "read_seconds": …, "groups": n, "offsets": n, …}``. The
clock runs from before the client is made (at the first command) until the whole result is in memory. Reading every
offset through the peer's own types is timed apart: some decode early, others late.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

CALL_TIMEOUT_S = 300.0

_Client = TypeVar("_Client")


@dataclass(slots=True)
class Tally:
    """Count what a result holds; ``error`` is the first one met."""

    groups: int = 0
    offsets: int = 0
    checksum: int = 0
    errors: int = 0
    error: str = ""

    def fail(self, error: object) -> None:
        """Count one group (or call) that failed."""
        self.errors += 1
        self.error = self.error or f"{type(error).__name__}: {error}"[:300]


Reading = Callable[[Tally], None]


def each(outcomes: Iterable[tuple[object, bool]]) -> Reading:
    """Return what counts groups by their outcomes: the error, if there was one, and whether the answer is right."""

    def read(tally: Tally) -> None:
        for error, is_right in outcomes:
            if error:
                tally.fail(error)
            else:
                tally.groups += is_right

    return read


def serve(
    make_client: Callable[[], _Client],
    calls: Mapping[str, Callable[[_Client, list[str]], Reading]],
    requests: Callable[[], int] = int,
) -> None:
    """Answer commands until stdin ends.

    :param requests: returns how many requests were sent so far. Default: they are not counted.
    """
    client: _Client | None = None
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        group_ids = Path(asked["groups"]).read_text().split()
        call = calls[asked["op"]]
        tally, before = Tally(), requests()
        begin = time.perf_counter()
        try:
            if client is None:
                client = make_client()
            reading: Reading | None = call(client, group_ids)
        except Exception as error:  # noqa: BLE001  # whatever a client raises is its answer
            tally.fail(error)
            reading = None
        called = time.perf_counter()
        if reading is not None:
            reading(tally)
        done = time.perf_counter()
        del reading  # the result must not be there twice during the next call
        answer = {"seconds": called - begin, "read_seconds": done - called, **asdict(tally)}
        answer["requests"] = requests() - before
        print(json.dumps(answer), flush=True)
