"""A group's offsets for Spark, a job with the connection's settings, and the commit of what it processed."""

from __future__ import annotations

import json
import stat
from collections import UserList
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
from airflow_kafka_groups.models import GroupState, TopicPartition
from airflow_kafka_groups.operators.spark import (
    CommitGroupBacklogOperator,
    GroupOffsetsToSparkOperator,
    KafkaSparkSubmitOperator,
)
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, broker_error
from tests.unit.operators import scene

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONNECTION = "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT"
SECRET = "hunter2-s3cret"
NOT_FOR_JAVA = {
    "conn_type": "kafka_groups",
    "host": "b1:9092",
    "extra": {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"},
}


def prepare(storage: Path, group_id: str = "a", **arguments: Any) -> dict[str, Any]:
    operator = GroupOffsetsToSparkOperator(
        task_id="t", storage_path=str(storage), cluster=scene.CLUSTER, group_id=group_id, **arguments
    )
    found = operator.execute({})
    assert json.loads(json.dumps(found)) == found
    return found


def commit(storage: Path, backlog_id: str, result_path: str, **arguments: Any) -> dict[str, Any]:
    operator = CommitGroupBacklogOperator(
        task_id="t",
        storage_path=str(storage),
        cluster=scene.CLUSTER,
        backlog_id=backlog_id,
        result_path=result_path,
        **arguments,
    )
    found = operator.execute({})
    assert json.loads(json.dumps(found)) == found
    return found


def row(partition: int, offset: int) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, "offset": offset, "leader_epoch": 3, "metadata": ""}


def result(path: str, **changes: Any) -> None:
    content = {
        "job": "process_group_backlog",
        "format": 1,
        "backlog_id": "b",
        "group_id": "a",
        "before": [row(0, 5), row(1, 10)],
        "to_commit": [row(0, 9)],
        "ends": [{"topic": "t", "partition": 0, "offset": 9}, {"topic": "t", "partition": 1, "offset": 10}],
        "committed": 0,
    }
    Path(path).write_text(json.dumps(content | changes))


def test_the_offsets_of_one_group_are_written(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 5, T1: 10}), "b": FakeGroup({T0: 1})}
    admin.log = (2, 10)
    snapshot_id = scene.take_snapshot(tmp_path)
    found = prepare(tmp_path)
    assert found == prepare(tmp_path, snapshot_id=snapshot_id) | {
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
    assert found["path"] == str(tmp_path / scene.CLUSTER / "backlogs" / f"{found['backlog_id']}.json")


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
    admin: FakeAdmin, tmp_path: Path, group_id: str, error: type[Exception], said: str
) -> None:
    admin.groups = {
        "live": FakeGroup(state=GroupState.STABLE, members=1),
        "torn": FakeGroup(),
        "none": FakeGroup({}),
    }
    admin.errors["torn"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    scene.take_snapshot(tmp_path)
    with pytest.raises(error, match=said):
        prepare(tmp_path, group_id)
    assert not (tmp_path / scene.CLUSTER / "backlogs").exists()


def test_a_group_that_two_files_of_a_snapshot_have_is_refused(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 5})}
    snapshot_id = scene.take_snapshot(tmp_path)
    root = tmp_path / scene.CLUSTER
    (file,) = (root / "data" / snapshot_id).iterdir()
    file.with_name("part-00001.parquet").write_bytes(file.read_bytes())
    path = root / "manifests" / f"{snapshot_id}.json"
    manifest = json.loads(path.read_text())
    files = [{"name": name, "rows": 1} for name in (file.name, "part-00001.parquet")]
    path.write_text(json.dumps({**manifest, "rows": 2, "files": files}))
    with pytest.raises(SnapshotError, match="in two files"):
        prepare(tmp_path)


def test_what_was_processed_is_committed_and_can_be_waited_for(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 5, T1: 10})}
    path = str(tmp_path / "result.json")
    result(path)
    assert commit(tmp_path, "b", path, dry_run=True)["counts"]["would_change"] == 1
    assert admin.groups["a"].positions == {T0: 5, T1: 10}
    found = commit(tmp_path, "b", path)
    assert admin.groups["a"].positions == {T0: 9, T1: 10}
    assert (found["counts"]["changed"], found["targets"]) == (1, {"a": {"t": {"0": 9, "1": 10}}})
    changes = tmp_path / scene.CLUSTER / "changes"
    assert [len(list(changes.glob(f"*-{name}.json"))) for name in ("before", "result")] == [1, 2]


def test_nothing_to_commit_is_no_failure(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 5, T1: 10})}
    path = str(tmp_path / "result.json")
    result(path, to_commit=[])
    assert commit(tmp_path, "b", path)["counts"]["unchanged"] == 1


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (FakeGroup({T0: 6, T1: 10}), "its offsets moved"),
        (FakeGroup({T0: 5, T1: 10, TopicPartition("u", 0): 1}), "its offsets moved"),
        (FakeGroup({T0: 5, T1: 10}, state=GroupState.STABLE, members=1), r"1 member\(s\)"),
    ],
)
def test_a_group_that_somebody_used_fails_the_task(
    admin: FakeAdmin, tmp_path: Path, group: FakeGroup, said: str
) -> None:
    admin.groups = {"a": group}
    offsets = dict(group.offsets)
    path = str(tmp_path / "result.json")
    result(path)
    with pytest.raises(GroupsFailedError, match=f"not committed: .*{said}"):
        commit(tmp_path, "b", path)
    assert group.offsets == offsets


@pytest.mark.parametrize("extra", [{"read_only": True}, {"protected_groups": ["a*"]}])
def test_what_the_connection_forbids_is_not_committed(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any]
) -> None:
    monkeypatch.setenv(CONNECTION, json.dumps({"conn_type": "kafka_groups", "host": "b1", "extra": extra}))
    admin.groups = {"a": FakeGroup({T0: 5, T1: 10})}
    path = str(tmp_path / "result.json")
    result(path)
    with pytest.raises(KafkaGroupsError, match=r"read-only|protect"):
        commit(tmp_path, "b", path)
    scene.take_snapshot(tmp_path)
    with pytest.raises(ConfigurationError, match=r"read-only|protected by"):
        prepare(tmp_path)
    assert prepare(tmp_path, for_commit=False)["offsets"] == 5
    assert admin.groups["a"].positions == {T0: 5, T1: 10}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"backlog_id": "other"}, "is not the result of process_group_backlog for b"),
        ({"job": "lag_report"}, "is not the result of process_group_backlog for b"),
        ({"committed": 1}, "has already committed"),
        ({"outcome": "failed"}, "the job ended as 'failed', not with everything processed"),
        ({"outcome": "not_committed"}, "the job ended as 'not_committed'"),
        ({"before": None}, "is damaged"),
        ({"format": 2}, "has the format 2"),
    ],
)
def test_the_result_of_another_run_is_refused(
    admin: FakeAdmin, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = str(tmp_path / "result.json")
    with pytest.raises(MaintenanceError, match="the result of the Spark job is missing"):
        commit(tmp_path, "b", path)
    result(path, **changes)
    with pytest.raises(MaintenanceError, match=said):
        commit(tmp_path, "b", path)


class FakeSparkHook:
    """A replacement of ``SparkSubmitHook`` that reads the file while the job runs."""

    made: list[FakeSparkHook]
    fails = False

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.killed = False
        self.made.append(self)

    def submit(self, application: str) -> None:
        self.application = application
        files = [name for name in (self.arguments.get("files") or "").split(",") if name.endswith("kafka.properties")]
        if "--kafka-properties" not in self.arguments["application_args"]:
            return
        self.path = Path(files[0] if files else self.arguments["application_args"][-1])
        self.mode = stat.S_IMODE(self.path.stat().st_mode)
        self.content = self.path.read_text()
        properties = self.arguments["properties_file"]
        self.properties = Path(properties).read_text() if properties else None
        if self.fails:
            raise RuntimeError("the job failed")

    def on_kill(self) -> None:
        self.killed = True


@pytest.fixture
def spark_hook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[FakeSparkHook]:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.app.from defaults\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    FakeSparkHook.made = []
    monkeypatch.setattr(FakeSparkHook, "fails", False)
    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.SparkSubmitHook", FakeSparkHook)
    login = {"login": "me", "password": SECRET}
    extra = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "read_only": True}
    kafka = {"conn_type": "kafka_groups", "host": "b1:9092", **login, "extra": extra}
    monkeypatch.setenv(CONNECTION, json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    return FakeSparkHook


def test_the_secret_is_in_a_file_of_its_own_while_the_job_runs(spark_hook: type[FakeSparkHook]) -> None:
    operator = KafkaSparkSubmitOperator(
        task_id="t", application="process_group_backlog", application_args=["--group", "g"], spark={"conf": {"a": "b"}}
    )
    operator.execute({})
    (submitted,) = spark_hook.made
    assert submitted.mode == 0o600
    assert f'password="{SECRET}"' in submitted.content.replace("\\", "")
    assert "kafka_groups.read_only=true" in submitted.content
    assert not submitted.path.parent.exists()
    assert SECRET not in str(submitted.arguments)
    given = ["process_group_backlog", "--group", "g", "--kafka-properties", str(submitted.path)]
    assert submitted.arguments["application_args"] == given
    assert submitted.arguments["conf"] == {}
    assert submitted.properties == (
        "spark.app.from defaults\n\n\na=b\nspark.ui.consoleProgress.update.interval=10000\n"
        "spark.ui.showConsoleProgress=true\nspark.yarn.maxAppAttempts=1\n"
    )
    assert submitted.application.endswith("spark/application.py")
    operator.on_kill()
    assert submitted.killed


@pytest.mark.parametrize(
    ("kafka", "supported", "passed"),
    [("off", True, False), ("auto", True, True), ("auto", False, False), ("required", True, True)],
)
def test_a_job_that_can_do_without_kafka_gets_the_file_where_there_can_be_one(
    spark_hook: type[FakeSparkHook],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kafka: str,
    supported: bool,
    passed: bool,
) -> None:
    if not supported:
        monkeypatch.setenv(CONNECTION, json.dumps(NOT_FOR_JAVA))
    KafkaSparkSubmitOperator(task_id="t", application="judge_staleness", kafka=kafka).execute({})
    (submitted,) = spark_hook.made
    assert ("--kafka-properties" in submitted.arguments["application_args"]) is passed
    said = capsys.readouterr().out
    assert ("without access to Kafka" in said) is not supported
    assert SECRET not in said


def test_a_job_that_needs_kafka_is_not_started_without_it(
    spark_hook: type[FakeSparkHook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONNECTION, json.dumps(NOT_FOR_JAVA))
    with pytest.raises(ConfigurationError, match="Java's client always verifies"):
        KafkaSparkSubmitOperator(task_id="t", application="lag_report").execute({})
    assert spark_hook.made == []


def test_the_file_goes_when_the_job_fails(spark_hook: type[FakeSparkHook], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_hook, "fails", True)
    with pytest.raises(RuntimeError, match="the job failed"):
        KafkaSparkSubmitOperator(task_id="t", application="/my/job.py").execute({})
    (submitted,) = spark_hook.made
    assert (submitted.application, submitted.path.exists()) == ("/my/job.py", False)


def test_the_table_of_a_job_is_its_argument(spark_hook: type[FakeSparkHook]) -> None:
    for table in ("lake.kafka.verdicts", ""):
        KafkaSparkSubmitOperator(task_id="t", application="lag_report", kafka="off", table=table).execute({})
    given = [submitted.arguments["application_args"] for submitted in spark_hook.made]
    assert given == [["lag_report", "--table", "lake.kafka.verdicts"], ["lag_report"]]


@pytest.mark.parametrize("by_connection", [True, False])
def test_a_driver_elsewhere_gets_the_file_shipped(
    spark_hook: type[FakeSparkHook], monkeypatch: pytest.MonkeyPatch, by_connection: bool
) -> None:
    arguments: dict[str, Any] = {"files": "/other"}
    if by_connection:
        connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    else:
        arguments["deploy_mode"] = "cluster"
    KafkaSparkSubmitOperator(task_id="t", application="lag_report", spark=arguments).execute({})
    (submitted,) = spark_hook.made
    assert submitted.arguments["files"] == f"/other,{submitted.path}"
    assert submitted.arguments["application_args"] == ["lag_report", "--kafka-properties", "kafka.properties"]


def test_yarn_starts_no_second_driver_unless_the_task_says_so(spark_hook: type[FakeSparkHook]) -> None:
    for conf in (None, {"spark.yarn.maxAppAttempts": "3"}):
        KafkaSparkSubmitOperator(task_id="t", application="process_group_backlog", spark={"conf": conf}).execute({})
    first, second = (str(submitted.properties) for submitted in spark_hook.made)
    assert "spark.yarn.maxAppAttempts=1" in first
    assert "spark.yarn.maxAppAttempts=3" in second


def test_a_job_that_does_not_exist_is_told_before_anything_is_written(spark_hook: type[FakeSparkHook]) -> None:
    with pytest.raises(ConfigurationError, match="is neither a job of this package nor a path"):
        KafkaSparkSubmitOperator(task_id="t", application="no_such_job").execute({})
    assert spark_hook.made == []


def test_the_arguments_of_a_job_are_words_and_never_the_letters_of_one(spark_hook: type[FakeSparkHook]) -> None:
    lazy = UserList(["--days", 3, "/a"])  # no list, as what a mapped task returned is none
    good: tuple[Any, ...] = (["--days", 3, Path("/a")], '["--days", "3", "/a"]', ("--days", "3", "/a"), lazy)
    for words in good:
        KafkaSparkSubmitOperator(task_id="t", application="roll_up", application_args=words, kafka="off").execute({})
    assert [each.arguments["application_args"] for each in spark_hook.made] == [["roll_up", "--days", "3", "/a"]] * 4
    operator = KafkaSparkSubmitOperator
    native = operator(task_id="t", application="/my/job.jar", application_args=["--full", "{{ full }}"], kafka="off")
    native.application_args = ["--full", True]  # as a DAG renders it that renders natively, also the plain word True
    native.execute({})
    assert spark_hook.made[-1].arguments["application_args"] == ["--full", "True"]
    refused: tuple[Any, ...] = ("--days 3", "['--days']", {"--days": "3"}, ["--days", None], ["--days", ["3"]], None, 3)
    for bad in refused:
        with pytest.raises(ConfigurationError, match=r"application_args.*(must be a list|every item must be)"):
            KafkaSparkSubmitOperator(task_id="t", application="roll_up", application_args=bad)


@pytest.mark.safety
@pytest.mark.parametrize(
    ("read", "here", "committed"),
    [
        (CLUSTER_ID, CLUSTER_ID, True),
        (None, CLUSTER_ID, True),  # of an earlier version
        ("another", CLUSTER_ID, False),  # to which cluster linking copies the offsets, too
        (CLUSTER_ID, None, False),  # brokers that start may not know it yet
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_a_result_is_committed_to_the_cluster_that_spark_read(
    admin: FakeAdmin, tmp_path: Path, read: str | None, here: str | None, committed: bool, exists: bool
) -> None:
    admin.groups = {"a": FakeGroup({T0: 5, T1: 10})} if exists else {}
    admin.cluster = here
    path = str(tmp_path / "r.json")
    result(path, kafka_cluster_id=read, **({} if exists else {"before": []}))
    if committed:
        assert commit(tmp_path, "b", path)["counts"]["changed"] == 1
        return
    with pytest.raises(MaintenanceError, match=rf"is of Kafka cluster '{read}'.* to {here!r}: nothing was committed"):
        commit(tmp_path, "b", path)
    assert [group.positions for group in admin.groups.values()] == ([{T0: 5, T1: 10}] if exists else [])
