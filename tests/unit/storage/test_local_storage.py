"""Files on a local disk, with links to other folders and other disks."""

from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import ArgumentError, StorageError
from tests.histories.judged import judge, write_hour
from tests.histories.lake import CLUSTER
from tests.histories.shorthand import snapshot_id

pytestmark = pytest.mark.safety


def test_two_dots_behind_a_link_replace_no_other_folder_than_was_looked_into(tmp_path: Path) -> None:
    """To Hadoop and Spark, ``link/../out`` is ``out``, wherever the link leads."""
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    write_hour(tmp_path, 0)
    mine = tmp_path / "out" / "mine.csv"
    mine.parent.mkdir()
    mine.write_text("1\n")
    with pytest.raises(ArgumentError, match=r"has mine\.csv, which this job did not write"):
        judge(tmp_path, "--output", f"{tmp_path}/link/../out")
    assert mine.read_text() == "1\n"
    judge(tmp_path, "--output", f"{tmp_path}/link/../new")
    assert list((tmp_path / "new").glob("part-*.parquet"))
    assert (tmp_path / "new.json").exists()


def test_an_entry_that_cannot_be_looked_at_is_not_passed_over(tmp_path: Path) -> None:
    """It may be the manifest of the only snapshot that shows a group in use."""
    for number in (0, 1):
        write_hour(tmp_path, number)
    manifest = tmp_path / CLUSTER / "manifests" / f"{snapshot_id(0)}.json"
    manifest.rename(tmp_path / "manifest")
    manifest.symlink_to(manifest.name)
    with pytest.raises(StorageError, match=r"manifests could not be listed: .*symbolic links"):
        judge(tmp_path)
