"""Judge many small clusters in an object store that takes a while for each request, as a task does without Spark.

``python -m tests.bench_spark.fleet --clusters 60 --snapshots 30`` prints the seconds and the requests of a first
judgement and of a second one as JSON.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.dags.airflow_env import prepare_airflow
from tests.histories.judged import hour_rows
from tests.histories.lake import CLUSTER, write_snapshot
from tests.lab.servers.object_store import BUCKET, ObjectStore, attach_s3, reached


def write_fleet(base: Path, clusters: int, snapshots: int) -> None:
    """Write clusters of three groups each."""
    with tempfile.TemporaryDirectory(dir=base.parent) as made:
        for number in range(clusters):
            for hour in range(snapshots):
                write_snapshot(Path(made), hour, hour_rows(hour), cluster=f"c{number:03}")
            (Path(made) / CLUSTER).rename(base / f"c{number:03}")


def count_requests() -> list[str]:
    """Return the names of the requests that are made to S3 from now on."""
    from aiobotocore.client import AioBaseClient  # type: ignore[import-untyped]

    asked, call = list[str](), AioBaseClient._make_api_call

    async def counted(client: Any, operation_name: str, api_params: Any) -> Any:
        asked.append(operation_name)
        return await call(client, operation_name, api_params)

    AioBaseClient._make_api_call = counted
    return asked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=60)
    parser.add_argument("--snapshots", type=int, default=30)
    parser.add_argument("--latency", type=float, default=0.02, help="seconds of each request")
    options = parser.parse_args()
    prepare_airflow()
    from airflow.sdk import ObjectStoragePath

    from airflow_kafka_groups.hooks.plain_jobs import run_plain_job

    with ObjectStore() as store, reached(store):
        base = store.folder / "s3" / BUCKET / "fleet"
        base.mkdir(parents=True)
        write_fleet(base, options.clusters, options.snapshots)
        store.restart()  # it has now what is on its disk
        store.let_fail("", "slow", count=10**9, seconds=options.latency)
        asked = count_requests()
        attach_s3(skip_instance_cache=True)
        found: dict[str, list[float]] = {"seconds": [], "requests": []}
        place = ObjectStoragePath(f"s3://{BUCKET}/fleet")
        for _ in range(2):
            asked.clear()
            began = time.monotonic()
            arguments = ["judge_staleness", "--base", str(place), "--cluster", "*", "--min-idle", "1h"]
            summary = run_plain_job(arguments, place, "it is measured")
            found["seconds"].append(round(time.monotonic() - began, 1))
            found["requests"].append(len(asked))
            assert summary["groups"] == 3 * options.clusters, summary
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
