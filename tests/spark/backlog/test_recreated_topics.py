"""A topic that was deleted and created again since a snapshot: no group of then left its records unread."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient as LibrdkafkaAdmin
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import LogEnds, Partition
from airflow_kafka_groups.spark.backlog.archive import check_archive
from airflow_kafka_groups.spark.unread.recreated import RECREATED, _logs_of, logs_since, went_backwards
from tests.histories.shorthand import rows_of, seen
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import quiet, topic_id_of
from tests.spark.backlog.test_archive_backlog import Archive, archive, snapshot
from tests.spark.kafka import committed, fill
from tests.unit.storage.test_manifest import MANIFEST

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

__all__ = ["archive"]

GROUP, TOPIC = "recreated", "recreated-t"


@pytest.fixture
def left_unread(kafka: str, tmp_path: Path) -> Path:
    """Return the manifest of a snapshot in which a group has 3 of 5 records unread."""
    fill(kafka, {(TOPIC, 0): 5})
    commit_offsets(kafka, {GROUP: {(TOPIC, 0): 2}})
    path = tmp_path / "c" / "manifests" / f"{snapshot(kafka, tmp_path, GROUP)}.json"
    view = {"topic_ids": {TOPIC: topic_id_of(kafka, TOPIC)}}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"view": view}))
    return path


@pytest.mark.parametrize(("records", "knows_ids"), [(4, False), (9, True)])
def test_records_of_a_topic_that_was_recreated_are_not_archived_as_those_of_the_one_before(
    kafka: str, archive: Archive, left_unread: Path, records: int, knows_ids: bool
) -> None:
    if not knows_ids:  # it is in no sample: a shorter log than before gives it away
        left_unread.write_text(json.dumps(json.loads(left_unread.read_text()) | {"view": None}))
    fill(kafka, {(TOPIC, 0): records})
    said = rf"{TOPIC}\[0\] was recreated or truncated since it was committed at 2. Decide by --on-beyond-end from-start"
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
    fill(kafka, {(TOPIC, 0): 9})
    deadline = time.monotonic() + 30
    while committed(kafka, GROUP, (TOPIC, 0)) != [-1001]:  # brokers do so at their leisure
        assert time.monotonic() < deadline
    said = rf"{TOPIC}\[0\] was committed at 2, and none of these groups has a commit in its topic any more.* --on-bey"
    with pytest.raises(JobError, match=said):
        archive("--group", GROUP)
    skipped = archive("--group", GROUP, "--on-beyond-end", "skip", "--output", str(left_unread.parent / "skipped"))
    assert (skipped["records"], len(skipped["decided"])) == (0, 1)


@pytest.mark.parametrize("knows_ids", [True, False])
def test_the_archive_of_a_group_that_is_gone_goes_on_where_the_topic_is_known_to_be_the_same(
    kafka: str, archive: Archive, tmp_path: Path, knows_ids: bool
) -> None:
    """By its id, or by the commit of another group of the archive, which a new topic would not have."""
    name = f"{TOPIC}-{uuid4().hex}"  # brokers may remove the commits of a former topic of that name late
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
        fill(kafka, {(TOPIC, 0): 5})
        return check(spark, *of)

    monkeypatch.setattr("airflow_kafka_groups.spark.jobs.archive_backlog.check_archive", recreated)
    with pytest.raises(JobError, match=f"topic '{TOPIC}' was recreated while it was read"):
        archive("--group", GROUP)


@pytest.mark.parametrize(
    ("start", "end", "differs"), [(3, 9, False), (9, 20, False), (0, 9, True), (3, 8, True), (0, 0, True)]
)
def test_a_log_that_went_on_is_the_same(start: int, end: int, differs: bool) -> None:
    here, gone, new = Partition("t", 0), Partition("t", 1), Partition("new", 0)
    then = {here: LogEnds(3, 9), gone: LogEnds(0, 1)}
    assert went_backwards(then, {here: LogEnds(start, end), new: LogEnds(0, 0)}) == ({here} if differs else set())


def test_of_a_snapshot_s_partitions_the_driver_makes_objects_of_those_only_that_it_asks_about() -> None:
    """A snapshot has a million of them, and a report without lag, or an archive of one group, needs few."""
    rows = [rows_of(seen(1, offsets={("t", number): 10 for number in range(50)}, log_end=end)) for end in (90, 100)]
    rows.append(rows_of(seen(1, log_end=None)))
    here, other = Partition("t", 3), Partition("t", 4)
    logs = {here: LogEnds(0, 99), other: LogEnds(0, 100), Partition("new", 0): LogEnds(0, 1)}
    assert _logs_of(rows, logs) == {here: LogEnds(0, 100), other: LogEnds(0, 100)}
    admin = MagicMock(**{"topic_ids.return_value": {}, "partitions.return_value": {*logs, Partition("t", 5)}})
    admin.log_ends = lambda wanted, *, read_committed: {where: logs[where] for where in wanted}
    assert logs_since(admin, MANIFEST, rows, logs.keys()) == (logs, {here: RECREATED}, {})
    assert logs_since(admin, MANIFEST, rows, set()) == ({}, {}, {})
