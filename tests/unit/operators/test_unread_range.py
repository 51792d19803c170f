"""Commit after success: every try works on the same range, and what was used meanwhile is not committed over."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, JobError, MaintenanceError
from airflow_kafka_groups.kafka.models import GroupState, TopicPartition
from airflow_kafka_groups.operators.unread_range import (
    CommitUnreadRangeOperator,
    FixUnreadRangeOperator,
    commit_after_success,
    read_range,
)
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene
from tests.unit.operators.scene import Site

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(autouse=True)
def group(admin: FakeAdmin) -> None:
    """Two partitions, read up to 5 and 100; the logs end at 100."""
    admin.groups, admin.log = {"a": FakeGroup({T0: 5, T1: 100})}, (0, 100)


def context(run_id: str = "monday", states: dict[str, str] | None = None) -> Any:
    def get_task_states(**asked: Any) -> Any:
        return {run_id: states or {}}

    run = SimpleNamespace(dag_id="d", run_id=run_id, run_after=datetime(2026, 1, 5, tzinfo=UTC))
    ti = SimpleNamespace(dag_id="d", task_id="fix", map_index=-1, try_number=1, get_task_states=get_task_states)
    return {"run_id": run_id, "dag_run": run, "ti": ti}


def fix(storage: Path, run_id: str = "monday", **arguments: Any) -> dict[str, Any]:
    arguments = {"task_id": "fix", "group_id": "a", **arguments}
    return scene.run(FixUnreadRangeOperator, storage, context(run_id), **arguments)


def commit(storage: Path, fixed: dict[str, Any]) -> dict[str, Any]:
    return scene.run(CommitUnreadRangeOperator, storage, context(), range_path=fixed["range_path"])


def test_what_is_fixed_is_read_by_the_tasks_between_and_committed_afterwards(site: Site) -> None:
    fixed = fix(site.storage)
    assert {name: fixed[name] for name in ("group_id", "partitions", "offsets")} == {
        "group_id": "a",
        "partitions": 2,
        "offsets": 95,
    }
    assert [tuple(each) for each in read_range(fixed["range_path"]).ranges] == [("t", 0, 5, 100), ("t", 1, 100, 100)]
    site.admin.log = (0, 200)  # what is written meanwhile is for the next run
    assert commit(site.storage, fixed)["counts"]["changed"] == 1
    assert site.admin.groups["a"].positions == {T0: 100, T1: 100}


def test_a_task_that_is_retried_gets_the_same_range_and_another_run_what_is_unread_then(site: Site) -> None:
    fixed = fix(site.storage)
    site.admin.log = (0, 200)
    assert fix(site.storage) == fixed
    assert fix(site.storage, "tuesday")["offsets"] == 295
    commit(site.storage, fixed)
    assert fix(site.storage) == fixed, "also when the whole run is cleared afterwards"


def test_a_commit_that_is_repeated_commits_nothing(site: Site) -> None:
    fixed = fix(site.storage)
    commit(site.storage, fixed)
    assert commit(site.storage, fixed)["counts"]["unchanged"] == 1


@pytest.mark.parametrize("where", [T0, T1], ids=["a partition of the range", "a partition with nothing to read"])
def test_a_group_that_was_used_meanwhile_is_not_committed_over(site: Site, where: TopicPartition) -> None:
    fixed = fix(site.storage)
    site.admin.commit("a", where.topic, where.partition, 7)
    before = site.admin.groups["a"].positions
    with pytest.raises(GroupsFailedError, match="moved meanwhile"):
        commit(site.storage, fixed)
    assert site.admin.groups["a"].positions == before


def test_nothing_is_fixed_or_committed_while_somebody_consumes(site: Site) -> None:
    fixed = fix(site.storage)
    site.admin.groups["a"].members, site.admin.groups["a"].state = 1, GroupState.STABLE
    with pytest.raises(MaintenanceError, match=r"1 member"):
        fix(site.storage, "tuesday")
    with pytest.raises(GroupsFailedError, match=r"1 member"):
        commit(site.storage, fixed)


def test_a_group_that_does_not_exist_begins_where_it_is_told(site: Site) -> None:
    with pytest.raises(MaintenanceError, match="name the topics"):
        fix(site.storage, group_id="new")
    with pytest.raises(JobError, match="no commit"):
        fix(site.storage, group_id="new", topics=["t"])
    fixed = fix(site.storage, group_id="new", topics=["t"], on_no_commit="from-start")
    assert fixed["offsets"] == 200
    assert commit(site.storage, fixed)["counts"]["changed"] == 1
    assert site.admin.groups["new"].positions == {T0: 100, T1: 100}


def test_what_retention_has_removed_is_skipped_only_if_one_says_so(site: Site) -> None:
    site.admin.log = (50, 100)
    with pytest.raises(JobError, match="its log starts at 50"):
        fix(site.storage)
    assert fix(site.storage, on_data_loss="skip-to-start")["offsets"] == 50


def test_another_cluster_gets_nothing(site: Site) -> None:
    fixed = fix(site.storage)
    site.admin.cluster = "another"
    with pytest.raises(MaintenanceError, match="another"):
        commit(site.storage, fixed)


def test_a_damaged_range_is_an_error_that_names_its_file(tmp_path: Path) -> None:
    fixed = fix(tmp_path)
    path = Path(fixed["range_path"])
    path.write_text(path.read_text().replace('"end": 100', '"end": "100"', 1))
    with pytest.raises(MaintenanceError, match=path.name):
        commit(tmp_path, fixed)
    path.write_text(path.read_text().replace('"end": "100"', '"end": 100').replace("d/monday", "e/monday"))
    with pytest.raises(MaintenanceError, match="start a new DAG run"):
        fix(tmp_path)


@pytest.mark.parametrize(
    "states", [{"work": "failed"}, {"work": "skipped"}, {}, {"work_0": "success", "work_1": "failed"}]
)
def test_a_teardown_does_not_commit_what_was_not_worked_on(site: Site, states: dict[str, str]) -> None:
    teardown = wired(site.storage)
    with pytest.raises(AirflowSkipException, match="work"):
        teardown.execute(context(states=states))
    assert site.admin.groups["a"].positions == {T0: 5, T1: 100}


@pytest.mark.parametrize("states", [{"work": "success"}, {"work_0": "success", "work_1": "success"}])
def test_a_teardown_commits_when_all_work_has_succeeded(site: Site, states: dict[str, str]) -> None:
    teardown = wired(site.storage)
    assert teardown.execute(context(states=states))["counts"]["changed"] == 1


def wired(storage: Path) -> CommitUnreadRangeOperator:
    from airflow.providers.standard.operators.empty import EmptyOperator

    with DAG("d", start_date=datetime(2026, 1, 1)):
        work = EmptyOperator(task_id="work")
        how = {"storage_path": str(storage), "cluster": scene.CLUSTER, "range_path": fix(storage)["range_path"]}
        teardown = CommitUnreadRangeOperator(task_id="commit", **how)
        work >> teardown.as_teardown()
    return teardown


def test_the_decorator_makes_three_tasks() -> None:
    @commit_after_success(group_id="a", storage_path="/x", topics=["t"])
    def load(unread: Any, table: str) -> str:
        return f"{len(unread.ranges)} {table}"

    with DAG("d", start_date=datetime(2026, 1, 1)) as dag:
        load("orders")
    fix, work, commit = (dag.get_task(f"load.{name}") for name in ("fix_range", "load", "commit_range"))
    assert (fix.is_setup, commit.is_teardown, commit.on_failure_fail_dagrun) == (True, True, True)
    assert (work.upstream_task_ids, commit.upstream_task_ids) == ({"load.fix_range"}, {"load.fix_range", "load.load"})


def test_a_wrong_word_fails_when_the_dag_is_parsed() -> None:
    with pytest.raises(ConfigurationError, match="on_no_commit"):
        FixUnreadRangeOperator(task_id="t", storage_path="/x", group_id="a", on_no_commit="earliest")
