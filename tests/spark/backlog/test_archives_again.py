"""An archive that is asked for again: by the same request, by two jobs at once, or of a topic that was recreated."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient as LibrdkafkaAdmin
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.observe.offset_values import LogEnds, Partition
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.jobs import archive_backlog as job
from airflow_kafka_groups.spark.jobs.archive_backlog import check_archive
from airflow_kafka_groups.spark.session import SPARK_ERRORS, settings_of
from airflow_kafka_groups.spark.snapshots import (
    RECREATED,
    logs_of,
    logs_since,
    read_snapshot,
    rows_of_groups,
    went_backwards,
)
from tests.histories.lake import CLUSTER, write_manifest
from tests.histories.shorthand import ARROW_SCHEMA, seen, snapshot_id
from tests.lab.machine.waiting import until
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import quiet, topic_id_of
from tests.spark.backlog.test_archive_backlog import Archive, archive, snapshot
from tests.spark.kafka import add, behind, committed, fill, write_properties
from tests.spark.rows import snapshot_rows
from tests.unit.storage.test_manifest import MANIFEST

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

__all__ = ["archive"]
TOPIC, GROUPS = "repeated", ["--group", "repeated-a", "--group", "repeated-b"]


@pytest.fixture
def first_archive(kafka: str, archive: Archive, tmp_path: Path) -> dict[str, Any]:
    """Return the summary of an archive of two groups."""
    fill(kafka, {(TOPIC, 0): 3, (TOPIC, 1): 2})
    commit_offsets(kafka, {"repeated-a": {(TOPIC, 0): 1, (TOPIC, 1): 0}, "repeated-b": {(TOPIC, 0): 3}})
    snapshot(kafka, tmp_path, "repeated-a", "repeated-b")
    return archive(*GROUPS)


@pytest.fixture
def place(tmp_path: Path, first_archive: dict[str, Any]) -> Path:
    """Return its file."""
    (path,) = (tmp_path / "c" / "summaries" / "archives").glob("*.json")
    assert json.loads(path.read_text()) == first_archive
    return path


def test_the_same_request_finds_the_archive_and_says_so(
    kafka: str, archive: Archive, first_archive: dict[str, Any], place: Path
) -> None:
    add(kafka, {(TOPIC, 0): 1})
    again = archive(*GROUPS[2:], *GROUPS[:2])
    lacks, said = again["warnings"]
    assert first_archive["warnings"] == [lacks], "nobody has read what the driver that died had to say"
    assert "a group has no commit in a partition with records" in lacks
    assert f"{place} is of the same request, and its archive is complete: nothing was archived now" in said
    assert again == {**first_archive, "warnings": [lacks, said]}
    assert json.loads(place.read_text()) == first_archive
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
    shutil.rmtree(next(place.parents[2].glob("tables/archives/archive_id=*/topic=*")))


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
    archive: Archive,
    first_archive: dict[str, Any],
    place: Path,
    change: Callable[[Path, dict[str, Any]], None],
    said: str,
) -> None:
    change(place, first_archive)
    with pytest.raises(JobError, match=said):
        archive(*GROUPS)


@pytest.mark.usefixtures("first_archive")
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


def test_the_second_does_not_replace_the_summary_of_the_first(
    spark: SparkSession, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was told of the first archive, and deletes folders that no summary names, would lose it."""
    behind(kafka, "two-archives", {("two-archives", 0): (1, 3)})
    snapshot(kafka, tmp_path, "two-archives")
    given = ["--kafka-properties", str(write_properties(tmp_path, kafka)), "--base", tmp_path.as_uri()]
    arguments = job.parse_arguments([*given, "--cluster", "c", "--group", "two-archives"])
    first = list[dict[str, Any]]()

    def slowly(*of: Any) -> dict[str, Any]:
        monkeypatch.setattr(job, "check_archive", check_archive)
        first.append(job.run(spark, arguments))
        return check_archive(*of)

    monkeypatch.setattr(job, "check_archive", slowly)
    with pytest.raises(JobError, match="another job has archived the same meanwhile, and an archive is never overwrit"):
        job.run(spark, arguments)
    (path,) = (tmp_path / "c" / "summaries" / "archives").glob("*.json")
    assert [json.loads(path.read_text())] == first


GROUP, NEW_TOPIC = "recreated", "recreated-t"


@pytest.fixture
def left_unread(kafka: str, tmp_path: Path) -> Path:
    """Return the manifest of a snapshot in which a group has 3 of 5 records unread."""
    behind(kafka, GROUP, {(NEW_TOPIC, 0): (2, 5)})
    path = tmp_path / "c" / "manifests" / f"{snapshot(kafka, tmp_path, GROUP)}.json"
    view = {"topic_ids": {NEW_TOPIC: topic_id_of(kafka, NEW_TOPIC)}}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"view": view}))
    return path


@pytest.mark.parametrize(("records", "knows_ids"), [(4, False), (9, True)])
def test_records_of_a_topic_that_was_recreated_are_not_archived_as_those_of_the_one_before(
    kafka: str, archive: Archive, left_unread: Path, records: int, knows_ids: bool
) -> None:
    if not knows_ids:  # it is in no sample: a shorter log than before gives it away
        left_unread.write_text(json.dumps(json.loads(left_unread.read_text()) | {"view": None}))
    fill(kafka, {(NEW_TOPIC, 0): records})
    said = rf"{NEW_TOPIC}\[0\] was recreated or truncated since it was committed at 2. Decide by --on-beyond-end from-"
    with pytest.raises(JobError, match=said):
        archive("--group", GROUP)
    skipped = archive("--group", GROUP, "--on-beyond-end", "skip", "--output", str(left_unread.parent / "skipped"))
    assert (skipped["records"], len(skipped["decided"])) == (0, 1)
    whole = archive("--group", GROUP, "--on-beyond-end", "from-start", "--output", str(left_unread.parent / "whole"))
    assert whole["records"] == records


def test_of_a_topic_without_an_id_in_the_snapshot_the_commits_that_are_gone_tell(
    kafka: str, archive: Archive, left_unread: Path
) -> None:
    """Brokers remove the commits of a topic that is deleted. A longer log than before gave nothing away."""
    left_unread.write_text(json.dumps(json.loads(left_unread.read_text()) | {"view": None}))
    fill(kafka, {(NEW_TOPIC, 0): 9})
    until(lambda: committed(kafka, GROUP, (NEW_TOPIC, 0)) == [-1001])  # brokers do so at their leisure
    said = (
        rf"{NEW_TOPIC}\[0\] was committed at 2, and none of these groups has a commit in its topic any more.* --on-bey"
    )
    with pytest.raises(JobError, match=said):
        archive("--group", GROUP)
    skipped = archive("--group", GROUP, "--on-beyond-end", "skip", "--output", str(left_unread.parent / "skipped"))
    assert (skipped["records"], len(skipped["decided"])) == (0, 1)


@pytest.mark.parametrize("knows_ids", [True, False])
def test_the_archive_of_a_group_that_is_gone_goes_on_where_the_topic_is_known_to_be_the_same(
    kafka: str, archive: Archive, tmp_path: Path, knows_ids: bool
) -> None:
    """By its id, or by the commit of another group of the archive, which a new topic would not have."""
    name = f"{NEW_TOPIC}-{uuid4().hex}"  # brokers may remove the commits of a former topic of that name late
    fill(kafka, {(name, 0): 5})
    commit_offsets(kafka, {f"{name}-gone": {(name, 0): 2}, f"{name}-there": {(name, 0): 4}})
    path = tmp_path / "c" / "manifests" / f"{snapshot(kafka, tmp_path, f'{name}-gone', f'{name}-there')}.json"
    view = {"topic_ids": {name: topic_id_of(kafka, name)}} if knows_ids else None
    path.write_text(json.dumps(json.loads(path.read_text()) | {"view": view}))
    admin = LibrdkafkaAdmin(quiet(kafka))  # its futures fail once it is gone
    admin.delete_consumer_groups([f"{name}-gone"])[f"{name}-gone"].result(60)
    groups = ["--group", f"{name}-gone", *([] if knows_ids else ["--group", f"{name}-there"])]
    assert archive(*groups)["records"] == (3 if knows_ids else 4)


@pytest.mark.usefixtures("left_unread")
def test_a_topic_that_is_recreated_while_it_is_read_fails_the_archive(
    kafka: str, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = check_archive

    def recreated(spark: SparkSession, *of: Any) -> dict[str, Any]:
        fill(kafka, {(NEW_TOPIC, 0): 5})
        return check(spark, *of)

    monkeypatch.setattr("airflow_kafka_groups.spark.jobs.archive_backlog.check_archive", recreated)
    with pytest.raises(JobError, match=f"topic '{NEW_TOPIC}' was recreated while it was read"):
        archive("--group", GROUP)


@pytest.mark.parametrize(
    ("start", "end", "differs"), [(3, 9, False), (9, 20, False), (0, 9, True), (3, 8, True), (0, 0, True)]
)
def test_a_log_that_went_on_is_the_same(start: int, end: int, differs: bool) -> None:
    here, gone, new = Partition("t", 0), Partition("t", 1), Partition("new", 0)
    then = {here: LogEnds(3, 9), gone: LogEnds(0, 1)}
    assert went_backwards(then, {here: LogEnds(start, end), new: LogEnds(0, 0)}) == ({here} if differs else set())


def test_of_a_snapshot_s_partitions_the_driver_gets_those_only_that_it_asks_about(spark: SparkSession) -> None:
    """A snapshot has a million of them, and a report without lag, or an archive of one group, needs few."""
    made = [row for end in (90, 100) for row in seen(1, offsets={("t", n): 10 for n in range(50)}, log_end=end)]
    rows = snapshot_rows(spark, [*made, *seen(1, log_end=None)])
    here, other = Partition("t", 3), Partition("t", 4)
    logs = {here: LogEnds(0, 99), other: LogEnds(0, 100), Partition("new", 0): LogEnds(0, 1)}
    assert logs_of(rows, logs) == {here: LogEnds(0, 100), other: LogEnds(0, 100)}
    admin = MagicMock(**{"topic_ids.return_value": {}, "partitions.return_value": {*logs, Partition("t", 5)}})
    admin.log_ends = lambda wanted, *, read_committed: {where: logs[where] for where in wanted}
    assert logs_since(admin, MANIFEST, rows, logs.keys()) == (logs, {here: RECREATED}, {})
    assert logs_since(admin, MANIFEST, rows, set()) == ({}, {}, {})


IGNORING = {"spark.sql.files.ignoreCorruptFiles": "true", "spark.sql.files.ignoreMissingFiles": "true"}


@pytest.fixture
def ignoring(spark: SparkSession) -> Iterator[SparkSession]:
    with settings_of(spark, IGNORING):
        yield spark


def test_a_damaged_snapshot_does_not_cut_what_is_archived(ignoring: SparkSession, tmp_path: Path) -> None:
    rows = seen(1, offsets={("t", number): number for number in range(2_000)})
    name = snapshot_id(1)
    folder = tmp_path / CLUSTER / "data" / name
    folder.mkdir(parents=True)
    part = folder / "part-00000.parquet"
    # The footer is whole, so that its rows can be counted; the second half cannot be read.
    table = pa.Table.from_pylist(rows, ARROW_SCHEMA)
    pq.write_table(
        table, part, compression="zstd", write_page_checksum=True, row_group_size=1_000, use_dictionary=False
    )
    write_manifest(tmp_path, name, len(rows))
    column = pq.read_metadata(part).row_group(1).column(ARROW_SCHEMA.get_field_index("committed_offset"))
    content = bytearray(part.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 0x10
    part.write_bytes(content)
    history = find_history(storage_of(ignoring, tmp_path.as_uri()), tmp_path.as_uri(), CLUSTER)
    stored, _ = read_snapshot(ignoring, history)
    with pytest.raises(SPARK_ERRORS):
        rows_of_groups(stored, {"g"})
