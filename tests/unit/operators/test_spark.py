"""A group's offsets for Spark, and the commit of what a job processed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    GroupsFailedError,
    KafkaGroupsError,
    MaintenanceError,
    SnapshotError,
)
from airflow_kafka_groups.kafka.models import GroupState, TopicPartition
from airflow_kafka_groups.operators.spark import CommitGroupBacklogOperator, GroupOffsetsToSparkOperator
from tests.fakes.groups import CLUSTER_ID, FakeGroup, broker_error
from tests.unit.operators import scene
from tests.unit.operators.scene import Site

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BACKLOG = "20260131T235959Z-0a1b2c3d"
CONNECTION = "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT"


def prepare(storage: Path, group_id: str = "a", **arguments: Any) -> dict[str, Any]:
    return scene.run(GroupOffsetsToSparkOperator, storage, group_id=group_id, **arguments)


def commit(storage: Path, backlog_id: str, result_path: str, **arguments: Any) -> dict[str, Any]:
    given = {"backlog_id": backlog_id, "result_path": result_path, **arguments}
    return scene.run(CommitGroupBacklogOperator, storage, **given)


def row(partition: int, offset: int) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, "offset": offset, "leader_epoch": 3, "metadata": ""}


def result(path: str, **changes: Any) -> None:
    content = {
        "job": "process_group_backlog",
        "format": 1,
        "backlog_id": BACKLOG,
        "group_id": "a",
        "outcome": "processed",
        "kafka_cluster_id": CLUSTER_ID,
        "before": [row(0, 5), row(1, 10)],
        "to_commit": [row(0, 9)],
        "ends": [{"topic": "t", "partition": 0, "offset": 9}, {"topic": "t", "partition": 1, "offset": 10}],
        "processed": [{"topic": "t", "partition": 0, "start": 5, "end": 9}],
        "committed": 0,
    }
    Path(path).write_text(json.dumps(content | changes))


def test_the_offsets_of_one_group_are_written(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 5, T1: 10}), "b": FakeGroup({T0: 1})}
    site.admin.log = (2, 10)
    snapshot_id = site.take_snapshot()
    found = prepare(site.storage)
    assert found == prepare(site.storage, snapshot_id=snapshot_id) | {
        name: found[name] for name in ("backlog_id", "path", "result_path", "output_path")
    }
    assert (found["partitions"], found["offsets"], found["snapshot_id"]) == (2, 5, snapshot_id)
    content = json.loads(Path(found["path"]).read_text())
    assert content["partitions"] == [
        {
            **{"topic": "t", "partition": partition, "committed_offset": offset, "leader_epoch": 3},
            **{"metadata": "", "log_start": 2, "log_end": 10},
        }
        for partition, offset in ((0, 5), (1, 10))
    ]
    assert (content["backlog_id"], content["kafka_cluster_id"]) == (found["backlog_id"], CLUSTER_ID)
    assert found["path"] == str(site.folder / "backlogs" / f"{found['backlog_id']}.json")


@pytest.mark.parametrize(
    ("group_id", "error", "said"),
    [
        ("away", ConfigurationError, "is not in snapshot"),
        ("", ConfigurationError, "did its template render to nothing"),
        ("live", SnapshotError, r"was Stable, with 1 member\(s\): stop its consumers"),
        ("torn", SnapshotError, "could not be read"),
        ("none", SnapshotError, "has no committed offsets"),
    ],
)
def test_a_group_that_cannot_be_taken_over_is_refused(
    site: Site, group_id: str, error: type[Exception], said: str
) -> None:
    site.admin.groups = {
        "live": FakeGroup(state=GroupState.STABLE, members=1),
        "torn": FakeGroup(),
        "none": FakeGroup({}),
    }
    site.admin.errors["torn"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    site.take_snapshot()
    with pytest.raises(error, match=said):
        prepare(site.storage, group_id)
    assert not (site.folder / "backlogs").exists()


def test_what_was_processed_is_committed_and_can_be_waited_for(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 5, T1: 10})}
    path = str(site.storage / "result.json")
    result(path)
    assert commit(site.storage, BACKLOG, path, dry_run=True)["counts"]["would_change"] == 1
    assert site.admin.groups["a"].positions == {T0: 5, T1: 10}
    found = commit(site.storage, BACKLOG, path)
    assert site.admin.groups["a"].positions == {T0: 9, T1: 10}
    assert (found["counts"]["changed"], found["targets"]) == (1, {"a": {"t": {"0": 9, "1": 10}}})
    page = (site.folder / "reports" / f"{BACKLOG}.html").read_text()
    assert "4 offsets of 1 partition were processed. Committed." in page
    assert "<bdi>t-0</bdi></code><span>4</span>" in page
    changes = site.folder / "changes"
    assert [len(list(changes.glob(f"*-{name}.json"))) for name in ("before", "result")] == [1, 2]


def test_nothing_to_commit_is_no_failure(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 5, T1: 10})}
    path = str(site.storage / "result.json")
    result(path, to_commit=[])
    assert commit(site.storage, BACKLOG, path)["counts"]["unchanged"] == 1


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (FakeGroup({T0: 6, T1: 10}), "its offsets moved"),
        (FakeGroup({T0: 5, T1: 10, TopicPartition("u", 0): 1}), "its offsets moved"),
        (FakeGroup({T0: 5, T1: 10}, state=GroupState.STABLE, members=1), r"1 member\(s\)"),
    ],
)
def test_a_group_that_somebody_used_fails_the_task(site: Site, group: FakeGroup, said: str) -> None:
    site.admin.groups = {"a": group}
    offsets = dict(group.offsets)
    path = str(site.storage / "result.json")
    result(path)
    with pytest.raises(GroupsFailedError, match=f"not committed: .*{said}"):
        commit(site.storage, BACKLOG, path)
    assert group.offsets == offsets
    page = (site.folder / "reports" / f"{BACKLOG}.html").read_text()
    assert re.search(rf"4 offsets of 1 partition were processed\. Not committed: .*{said}", page)


@pytest.mark.parametrize("extra", [{"read_only": True}, {"protected_groups": ["a*"]}])
def test_what_the_connection_forbids_is_not_committed(site: Site, extra: dict[str, Any]) -> None:
    site.patch.setenv(CONNECTION, json.dumps({"conn_type": "kafka_groups", "host": "b1", "extra": extra}))
    site.admin.groups = {"a": FakeGroup({T0: 5, T1: 10})}
    path = str(site.storage / "result.json")
    result(path)
    with pytest.raises(KafkaGroupsError, match=r"read-only|protect"):
        commit(site.storage, BACKLOG, path)
    site.take_snapshot()
    with pytest.raises(ConfigurationError, match=r"read-only|protected by"):
        prepare(site.storage)
    assert prepare(site.storage, for_commit=False)["offsets"] == 5
    assert site.admin.groups["a"].positions == {T0: 5, T1: 10}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"backlog_id": "other"}, f"is not the result of process_group_backlog for {BACKLOG}"),
        ({"job": "lag_report"}, f"is not the result of process_group_backlog for {BACKLOG}"),
        ({"committed": 1}, "or has committed itself"),
        ({"outcome": "failed"}, "the job ended as 'failed', or has committed itself, and not with"),
        ({"outcome": "not_committed"}, "the job ended as 'not_committed'"),
        ({"before": None}, "is damaged"),
        ({"format": 2}, "has the format 2"),
    ],
)
def test_the_result_of_another_run_is_refused(site: Site, changes: dict[str, Any], said: str) -> None:
    path = str(site.storage / "result.json")
    with pytest.raises(MaintenanceError, match="the result of the Spark job is missing"):
        commit(site.storage, BACKLOG, path)
    result(path, **changes)
    with pytest.raises(MaintenanceError, match=said):
        commit(site.storage, BACKLOG, path)


@pytest.mark.safety
@pytest.mark.parametrize(
    ("read", "here", "committed"),
    [
        (CLUSTER_ID, CLUSTER_ID, True),
        (None, CLUSTER_ID, False),
        ("another", CLUSTER_ID, False),  # to which cluster linking copies the offsets, too
        (CLUSTER_ID, None, False),  # brokers that start may not know it yet
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_a_result_is_committed_to_the_cluster_that_spark_read(
    site: Site, read: str | None, here: str | None, committed: bool, exists: bool
) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 5, T1: 10})} if exists else {}
    site.admin.cluster = here
    path = str(site.storage / "r.json")
    result(path, kafka_cluster_id=read, **({} if exists else {"before": []}))
    if committed:
        assert commit(site.storage, BACKLOG, path)["counts"]["changed"] == 1
        return
    with pytest.raises(MaintenanceError, match=rf"is of Kafka cluster {read!r}.* to {here!r}: nothing was committed"):
        commit(site.storage, BACKLOG, path)
    assert [group.positions for group in site.admin.groups.values()] == ([{T0: 5, T1: 10}] if exists else [])


@pytest.mark.safety
@pytest.mark.parametrize("where", ["elsewhere", "site/../elsewhere", "site-2"])
def test_a_result_from_another_storage_than_the_site_s_is_not_committed(site: Site, where: str) -> None:
    """Its path comes from an XCom, which users can write: where they can write files, too, any offsets are in it."""
    site.admin.groups = {"a": FakeGroup({T0: 5, T1: 10})}
    own, forged = site.storage / "site", site.storage / where
    site.configure(storage_path=own)
    for folder in (own, forged):
        folder.mkdir(exist_ok=True)
        result(f"{folder}/result.json")
    with pytest.raises(ConfigurationError, match=r"result_path.*in the site's storage"):
        commit(own, BACKLOG, f"{forged}/result.json")
    assert site.admin.groups["a"].positions == {T0: 5, T1: 10}
    assert commit(own, BACKLOG, f"{own}/result.json")["counts"]["changed"] == 1
