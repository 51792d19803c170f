"""Records of the group coordinator, of each type and version, written by Kafka's own classes."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_kafka_groups.observe.offsets_topic.scan import scan_batches
from tests.lab import jars
from tests.lab.machine.java import find_java

PROGRAM = Path(__file__).with_name("GroupRecords.java")
GROUP = "grüppe"
AT = datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
COMMITS, EPOCHS = {0, 1}, {3, 11, 17}


def records_of(version: str) -> list[tuple[int, int, bytes, bytes]]:
    command = [str(find_java()), "-cp", f"{jars.fetch(version)}/*", str(PROGRAM)]
    made = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    rows = (line.split(" ") for line in made.splitlines())
    return [(int(kind), int(value), bytes.fromhex(key), bytes.fromhex(data)) for kind, value, key, data in rows]


def scanned(key: bytes, value: bytes) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    columns = {
        "key": pa.array([key], pa.binary()),
        "value": pa.array([value], pa.binary()),
        "partition": pa.array([0], pa.int32()),
        "offset": pa.array([0], pa.int64()),
        "timestamp": pa.array([AT], pa.timestamp("us", tz="UTC")),
    }
    rows = [row for batch in scan_batches([pa.record_batch(columns)]) for row in batch.to_pylist()]
    counts = {row["name"]: row["number"] for row in rows if row["kind"] == "count" and row["number"]}
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in ("commit", "group", "record")}
    return by_kind, counts


@pytest.mark.safety
@pytest.mark.parametrize("version", ["4.1.0", "4.4.0"])
def test_every_record_that_kafka_s_own_classes_write_is_a_sign_of_life_of_its_group(version: str) -> None:
    records = records_of(version)
    assert {(kind, value) for kind, value, *_ in records} >= {(2, each) for each in range(5)} | {(5, 0), (16, 0)}
    for kind, value_version, key, value in records:
        rows, counts = scanned(key, value)
        where = f"type {kind}, version {value_version}"
        assert not {"corrupt", "future"} & counts.keys(), where
        assert not [name for name in counts if "unknown" in name], where
        if kind in COMMITS:
            (commit,) = rows["commit"]
            assert (commit["group_id"], commit["topic"], commit["partition"]) == (GROUP, "setTopic", 7), where
            assert (commit["metadata"], commit["committed_at"], rows["record"]) == ("setMetadata", AT, []), where
            continue
        assert [(row["group_id"], row["recorded_at"]) for row in rows["record"]] == [(GROUP, AT)], where
        found = [(row["generation"], row["members"], row["leader"], row["state_changed_at"]) for row in rows["group"]]
        if kind == 2:
            assert found == [(7, 1, "setLeader", AT if value_version >= 2 else None)], where
        else:
            assert found == ([(7, None, None, None)] if kind in EPOCHS else []), where
