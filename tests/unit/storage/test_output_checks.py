"""What the ``--output`` of a judgement may replace: its own files, and what was left of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import ArgumentError
from airflow_kafka_groups.storage.file_storage import LocalStorage
from airflow_kafka_groups.storage.job_outputs import ReplacedFolder
from tests.histories.judged import judge, verdict_folder, write_hour

pytestmark = pytest.mark.safety

REFUSED = "which this job did not write and would delete"


def test_a_table_of_another_format_is_not_replaced_though_its_log_is_hidden(tmp_path: Path) -> None:
    """A Delta table of verdicts: with the log, every version of it would be gone."""
    write_hour(tmp_path, 0)
    judge(tmp_path)
    place = verdict_folder(tmp_path, 0)
    (place / "_delta_log").mkdir()
    (place / "_delta_log" / "0.json").write_text("{}")
    with pytest.raises(ArgumentError, match=f"has _delta_log, {REFUSED}"):
        judge(tmp_path, "--output", str(place))
    assert (place / "_delta_log" / "0.json").exists()


def test_a_file_is_no_folder_to_replace(tmp_path: Path) -> None:
    write_hour(tmp_path, 0)
    for name in ("mine.csv", "part-0-mine.parquet", "_mine", ".mine"):
        mine = tmp_path / name
        mine.write_text("1\n")
        for place in (str(mine), mine.as_uri()):
            with pytest.raises(ArgumentError, match=f"--output .*has {name}, {REFUSED}"):
                judge(tmp_path, "--output", place)
        assert mine.read_text() == "1\n"


def test_what_a_killed_job_left_on_s3_is_replaced(tmp_path: Path) -> None:
    """The committer for S3 that Hadoop recommends writes in a folder of this name."""
    write_hour(tmp_path, 0)
    place = tmp_path / "verdicts"
    (place / "__magic_job-0a1b").mkdir(parents=True)
    judge(tmp_path, "--output", str(place))
    assert not (place / "__magic_job-0a1b").exists()


@pytest.mark.parametrize(("sizes", "files"), [((2, 2, 1), [4, 1]), ((3, 3), [3, 3]), ((), [0]), ((0, 1), [1])])
def test_a_folder_has_files_of_so_many_rows_and_at_least_one(
    tmp_path: Path, sizes: Sequence[int], files: list[int]
) -> None:
    schema = pa.schema({"n": pa.int64()})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "before.parquet").write_text("")
    folder = ReplacedFolder(LocalStorage(), f"{tmp_path.as_uri()}/out")
    folder.write(schema, (pa.table({"n": pa.array(range(size), pa.int64())}) for size in sizes), rows_of_a_file=3)
    names = folder.verify("rows", "wrote")
    assert [pq.read_metadata(tmp_path / "out" / name).num_rows for name in names] == files
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
