"""A request for an archive that is there, as by a retry of a task whose driver died after its summary was written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import JobError
from tests.lab.workload.groups import commit_offsets
from tests.spark.backlog.test_archive_backlog import Archive, archive, snapshot
from tests.spark.kafka import add, fill

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

__all__ = ["archive"]

TOPIC, GROUPS = "repeated", ["--group", "repeated-a", "--group", "repeated-b"]


@pytest.fixture
def first(kafka: str, archive: Archive, tmp_path: Path) -> dict[str, Any]:
    """Return the summary of an archive of two groups."""
    fill(kafka, {(TOPIC, 0): 3, (TOPIC, 1): 2})
    commit_offsets(kafka, {"repeated-a": {(TOPIC, 0): 1, (TOPIC, 1): 0}, "repeated-b": {(TOPIC, 0): 3}})
    snapshot(kafka, tmp_path, "repeated-a", "repeated-b")
    return archive(*GROUPS)


@pytest.fixture
def place(tmp_path: Path, first: dict[str, Any]) -> Path:
    """Return its file."""
    (path,) = (tmp_path / "c" / "summaries" / "archives").glob("*.json")
    assert json.loads(path.read_text()) == first
    return path


def test_the_same_request_finds_the_archive_and_says_so(
    kafka: str, archive: Archive, first: dict[str, Any], place: Path
) -> None:
    add(kafka, {(TOPIC, 0): 1})
    again = archive(*GROUPS[2:], *GROUPS[:2])
    lacks, said = again["warnings"]
    assert first["warnings"] == [lacks], "nobody has read what the driver that died had to say"
    assert "a group has no commit in a partition with records" in lacks
    assert f"{place} is of the same request, and its archive is complete: nothing was archived now" in said
    assert again == {**first, "warnings": [lacks, said]}
    assert json.loads(place.read_text()) == first
    assert len(list(place.parents[2].glob("tables/archives/archive_id=*"))) == 1, "nothing else was written"


def edited(**changes: Any) -> Callable[[Path, dict[str, Any]], None]:
    def edit(place: Path, summary: dict[str, Any]) -> None:
        place.write_text(json.dumps(summary | changes))

    return edit


def damaged(place: Path, summary: dict[str, Any]) -> None:
    files = sorted(place.parents[2].glob("tables/archives/archive_id=*/**/*.parquet"))
    pq.write_table(pq.read_table(files[0])[:1], files[0])
    files[0].with_name(f".{files[0].name}.crc").unlink()


def lost(place: Path, summary: dict[str, Any]) -> None:
    shutil.rmtree(next(place.parents[2].glob("tables/archives/archive_id=*/by_group=*")))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edited(request=7), "is no summary of an archive"),
        (edited(partitions=[]), "has rows of group 'repeated-a'"),
        (edited(records=3), "is not what .* says"),
        (damaged, "is not what .* says"),
        (lost, "is not what .* says"),
    ],
)
@pytest.mark.safety
def test_an_archive_that_is_not_what_its_summary_says_is_no_success(
    archive: Archive, first: dict[str, Any], place: Path, change: Callable[[Path, dict[str, Any]], None], said: str
) -> None:
    change(place, first)
    with pytest.raises(JobError, match=said):
        archive(*GROUPS)


@pytest.mark.usefixtures("first")
def test_another_request_for_the_same_place_is_refused(kafka: str, archive: Archive, tmp_path: Path) -> None:
    output = ["--output", str(tmp_path / "out")]
    archive(*GROUPS, *output)
    assert archive(*GROUPS, *output)["warnings"]
    for more, name in (
        (["--isolation-level", "read_uncommitted"], "isolation_level"),
        (["--on-data-loss", "skip-to-start"], "on_data_loss"),
        (["--group", "repeated-c"], "archive"),
    ):
        with pytest.raises(
            JobError, match=rf"out.json exists, and is of another request \(its {name}\): an archive is nev"
        ):
            archive(*GROUPS, *output, *more)
    snapshot(kafka, tmp_path, "repeated-a", "repeated-b")
    with pytest.raises(JobError, match=r"of another request \(its archive\)"):
        archive(*GROUPS, *output)
    (tmp_path / "out.json").unlink()
    with pytest.raises(JobError, match="out exists: an archive is never overwritten"):
        archive(*GROUPS, *output)
