"""A judgement on an object store: files reach the tasks by Hadoop's own client, as on a disk."""

from pathlib import Path

import pytest

from tests.bench_spark.staleness import run_job, write_history
from tests.histories.lake import CLUSTER
from tests.lab.servers.object_store import BUCKET, ObjectStore
from tests.lab.spark.s3a import settings_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

GROUPS, SNAPSHOTS = 100, 2
IDLE = (SNAPSHOTS - 1) * 3600


def test_a_history_on_s3_is_judged_as_on_a_disk(tmp_path: Path) -> None:
    write_history(tmp_path, GROUPS, 5, SNAPSHOTS)
    with ObjectStore() as store:
        there = store.folder / "s3" / BUCKET / "history"
        write_history(there, GROUPS, 5, SNAPSHOTS)
        store.restart()  # with what is in its folder
        found = run_job(f"s3a://{BUCKET}/history", IDLE, 1, conf=settings_of(store)).summary
        written = {path.name for path in (there / CLUSTER / "tables").iterdir()}
    alone = run_job(tmp_path, IDLE, 1, one_machine=True).summary
    same = ("verdicts", "lag", "groups", "snapshots_reduced")
    assert [found[name] for name in same] == [alone[name] for name in same]
    assert written == {"observations", "verdicts"}
