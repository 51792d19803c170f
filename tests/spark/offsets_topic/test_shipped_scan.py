"""The scan of a partition as tasks run it: where this package is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyspark import cloudpickle

from airflow_kafka_groups.observe.offsets_topic.scan import CARRIED, scan_batches
from airflow_kafka_groups.spark.frames import by_value
from tests.histories.offset_records import commit_key, commit_value, group_key


def test_executors_need_no_copy_of_this_package(tmp_path: Path) -> None:
    """What tasks run is shipped by value: here it runs where the package cannot be imported."""
    (tmp_path / "function").write_bytes(cloudpickle.dumps(by_value(scan_batches, *CARRIED)))
    program = """
import pickle, sys
sys.modules["airflow_kafka_groups"] = None
import pyarrow as pa
function = pickle.load(open("function", "rb"))
times = pa.array([0, 0], pa.timestamp("us", tz="UTC"))
key = pa.array([bytes.fromhex(text) for text in sys.argv[1].split()])
value = pa.array([bytes.fromhex(sys.argv[2]), b""])
batch = pa.RecordBatch.from_arrays(
    [key, value, pa.array([0, 0], pa.int32()), pa.array([1, 2]), times],
    names=["key", "value", "partition", "offset", "timestamp"],
)
print(sorted((row["kind"], row["group_id"], row["name"], row["number"]) for part in function([batch])
    for row in part.to_pylist() if row["number"] != 0))
"""
    keys = f"{commit_key('g', 't', 0).hex()} {group_key('g').hex()}"
    command = [sys.executable, "-c", program, keys, commit_value(4, 3).hex()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "('commit', 'g', None, None)" in done.stdout
    assert "'corrupt', 1" in done.stdout
