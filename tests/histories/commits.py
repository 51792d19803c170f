"""The output of ``commit_history``, without a run of it."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

LAST_SCHEMA = "group_id string, last_commit_at timestamp, last_record_at timestamp"
"""The columns of the groups that a judgement reads."""


def describe_commits(folder: Path, **changes: Any) -> None:
    """Write the summary of the groups in ``groups/run_id=r``, as the job does after it has written them."""
    files = sorted((folder / "groups").glob("run_id=r/part-*.parquet"))
    summary = {
        "kafka_cluster_id": "kafka-1",
        "run_id": "r",
        "groups": sum(pq.read_metadata(file).num_rows for file in files),
        "files": [f"run_id=r/{file.name}" for file in files],
        "read_until": None,
        "records": {},
    }
    (folder / "summary.json").write_text(json.dumps(summary | changes))
