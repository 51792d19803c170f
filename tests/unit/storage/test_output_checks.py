"""What the ``--output`` of a job may replace: its own files, and what was left of them."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import ArgumentError, StorageError
from airflow_kafka_groups.storage.file_storage import LocalStorage
from airflow_kafka_groups.storage.job_outputs import ReplacedFolder, footer_of, require_replaceable

pytestmark = pytest.mark.safety

REFUSED = "which this job did not write and would delete"


def require(place: str) -> None:
    require_replaceable(LocalStorage(), place, ["group_id"])


def test_a_table_of_another_format_is_not_replaced_though_its_log_is_hidden(tmp_path: Path) -> None:
    """A Delta table: with the log, every version of it would be gone."""
    pq.write_table(pa.table({"group_id": ["g"]}), tmp_path / "part-00000-1.parquet")
    require(str(tmp_path))
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(ArgumentError, match=f"has _delta_log, {REFUSED}"):
        require(str(tmp_path))


def test_a_file_is_no_folder_to_replace(tmp_path: Path) -> None:
    for name in ("mine.csv", "part-0-mine.parquet", "_mine", ".mine"):
        mine = tmp_path / name
        mine.write_text("1\n")
        for place in (str(mine), mine.as_uri()):
            with pytest.raises(ArgumentError, match=f"--output .*has {name}, {REFUSED}"):
                require(place)


def test_what_a_killed_job_left_on_s3_is_replaced(tmp_path: Path) -> None:
    """The committer for S3 that Hadoop recommends writes in a folder of this name."""
    (tmp_path / "__magic_job-0a1b").mkdir()
    require(str(tmp_path))


def test_two_dots_behind_a_link_lead_to_no_other_folder_than_hadoop_finds(tmp_path: Path) -> None:
    """To Hadoop and Spark, ``link/../out`` is ``out``, wherever the link leads."""
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.csv").write_text("1\n")
    with pytest.raises(ArgumentError, match=r"has mine\.csv, which this job did not write"):
        require(f"{tmp_path}/link/../out")


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


def test_of_a_large_file_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of commits has gigabytes, and what says how many rows there are is behind them."""
    names, read, real = [f"c{number}" for number in range(3)], list[int](), LocalStorage.read
    table = pa.table({name: list(range(100)) for name in names} | {"more": pa.array([bytes(30_000)] * 100)})
    pq.write_table(table, tmp_path / "x.parquet", compression="none", use_dictionary=False)

    def noted(storage: LocalStorage, path: str, *part: int) -> bytes | None:
        content = real(storage, path, *part)
        read.append(len(content or b""))
        return content

    monkeypatch.setattr(LocalStorage, "read", noted)
    assert footer_of(LocalStorage(), f"{tmp_path}/x.parquet") == ({*names, "more"}, 100)
    assert read == [1 << 20]


def test_what_is_no_parquet_has_no_footer(tmp_path: Path) -> None:
    for content in (b"", b"PAR1", b"x" * 100_000, b"\xff" * 100_000):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(StorageError, match="x could not be read: ArrowInvalid"):
            footer_of(LocalStorage(), f"{tmp_path}/x")
