"""What each real run ended with, a line of JSON for each: an hour of runs survives being interrupted."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
CODE = ("airflow_kafka_groups", "tests/campaign")


@dataclass(slots=True)
class RealRecord:
    """One run.

    :param code: the code that ran, by ``code_digest``.
    :param found: what was counted, by invariant.
    :param injected: what went wrong, by kind of fault.
    :param problems: the invariants that it broke, in words.
    """

    seed: int
    code: str
    version: str
    storage: str
    deleted: int
    seconds: float
    found: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def code_digest() -> str:
    """Return a digest of the code that runs: results of other code are not counted."""
    digest = hashlib.sha256()
    for folder in CODE:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def write_record(path: Path, record: RealRecord) -> None:
    """Append a run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {each.name: getattr(record, each.name) for each in fields(record)}  # asdict() spoils a Counter before 3.12
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values) + "\n")


def read_records(path: Path, code: str, seeds: Iterable[int]) -> Iterator[RealRecord]:
    """Yield the last run of each of these seeds by this code."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    last = {row["seed"]: row for row in map(json.loads, lines) if row["code"] == code}
    for seed in seeds:
        if seed in last:
            row = last[seed]
            yield RealRecord(**{**row, "found": Counter(row["found"]), "injected": Counter(row["injected"])})
