"""Two reports on one snapshot at once: figures of a table that lost rows are not reported."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.jobs import lag_report as job
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.job_outputs import ReplacedFolder
from tests.histories.judged import no_session
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import seen, snapshot_id

NAME = f"snapshot_id={snapshot_id(1)}"


@pytest.fixture
def arguments(tmp_path: Path) -> Any:
    write_snapshot(tmp_path, 1, [*seen(1, group="g"), *seen(1, group="h")], groups=2)
    return job.parse_arguments(["--base", str(tmp_path), "--cluster", CLUSTER])


def report(arguments: Any) -> dict[str, Any]:
    with no_session() as session:
        return job.run(session, arguments)


@pytest.mark.parametrize("table", ["partitions", "groups", "topics", "owners"])
def test_what_another_job_deleted_while_it_was_written_is_noticed(
    tmp_path: Path, arguments: Any, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    assert report(arguments)["partitions"] == 2
    folder = tmp_path / CLUSTER / "tables" / f"lag_{table}" / NAME
    verify = ReplacedFolder.verify

    def replaced(written: ReplacedFolder, *said: str) -> list[str]:
        shutil.rmtree(folder, ignore_errors=True)
        return verify(written, *said)

    monkeypatch.setattr(ReplacedFolder, "verify", replaced)
    with pytest.raises(JobError, match=rf"lag_{table}/.* does not have the rows .* written: another job wrote there"):
        report(arguments)
    assert not list((tmp_path / CLUSTER / "summaries" / "lag_partitions").glob("*.json"))


def test_a_job_that_reports_at_the_same_time_is_noticed(
    tmp_path: Path, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files = Storage.files

    def reported_meanwhile(storage: Storage, folder: str) -> list[str]:
        if folder.endswith(f"lag_topics/{NAME}"):
            monkeypatch.setattr(Storage, "files", list_files)
            report(arguments)
        return list_files(storage, folder)

    monkeypatch.setattr(Storage, "files", reported_meanwhile)
    with pytest.raises(JobError, match=r"of another job, which reported at the same time\. Run it again"):
        report(arguments)
    assert report(arguments)["partitions"] == 2
    (file,) = (tmp_path / CLUSTER / "tables" / "lag_partitions" / NAME).iterdir()
    assert pq.read_table(file).num_rows == 2
