"""A job that is submitted with the connection's settings, in a file of its own."""

from __future__ import annotations

import json
import stat
from collections import UserList
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator

CONNECTION = "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT"
SECRET = "hunter2-s3cret"
NOT_FOR_JAVA = {
    "conn_type": "kafka_groups",
    "host": "b1:9092",
    "extra": {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"},
}


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
