"""A job that is submitted with the connection's settings, in a file of its own."""

import json
from collections import UserList
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.operators.support.spark_connection import SparkJob
from airflow_kafka_groups.spark.private_files import write_secret_file
from tests.unit.operators.spark_program import Submitted

CONNECTION = "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT"
SECRET = "hunter2-s3cret"
NOT_FOR_JAVA = {
    "conn_type": "kafka_groups",
    "host": "b1:9092",
    "extra": {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"},
}


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Submitted:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.app.from defaults\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    login = {"login": "me", "password": SECRET}
    extra = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "read_only": True}
    kafka = {"conn_type": "kafka_groups", "host": "b1:9092", **login, "extra": extra}
    monkeypatch.setenv(CONNECTION, json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    return Submitted(tmp_path)


def run(submitted: Submitted, application: str, spark: dict[str, Any] | None = None, **arguments: Any) -> list[str]:
    """Run a job; return its words from the application on, of the last run."""
    given = {"spark_binary": str(submitted.program), **(spark or {})}
    KafkaSparkSubmitOperator(task_id="t", application=application, spark=given, **arguments).execute({})
    words = submitted.runs[-1].words
    return words[next(place for place, word in enumerate(words) if word.endswith((".py", ".jar"))) :]


def test_the_secret_is_in_a_file_of_its_own_while_the_job_runs(submitted: Submitted) -> None:
    words = run(submitted, "process_group_backlog", {"conf": {"a": "b"}}, application_args=["--group", "g"])
    (given,) = submitted.runs
    path = Path(given.after("--kafka-properties"))
    mode, content = given.files[str(path)]
    assert mode == 0o600
    assert f'password="{SECRET}"' in content.replace("\\", "")
    assert "kafka_groups.read_only=true" in content
    assert not path.parent.exists()
    assert SECRET not in str(given.words)
    own = {name: value for name, value in given.environment.items() if name != CONNECTION}
    assert SECRET not in str(own)
    assert words[0].endswith("spark/application.py")
    assert words[1:] == ["process_group_backlog", "--group", "g", "--kafka-properties", str(path)]
    assert "--conf" not in given.words
    assert given.properties == (
        "spark.app.from defaults\n\n\na=b\nspark.ui.consoleProgress.update.interval=10000\n"
        "spark.ui.showConsoleProgress=true\nspark.yarn.maxAppAttempts=1\n"
    )


@pytest.mark.parametrize(
    ("kafka", "supported", "passed"),
    [("off", True, False), ("auto", True, True), ("auto", False, False), ("required", True, True)],
)
def test_a_job_that_can_do_without_kafka_gets_the_file_where_there_can_be_one(
    submitted: Submitted,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kafka: str,
    supported: bool,
    passed: bool,
) -> None:
    if not supported:
        monkeypatch.setenv(CONNECTION, json.dumps(NOT_FOR_JAVA))
    assert ("--kafka-properties" in run(submitted, "judge_staleness", kafka=kafka)) is passed
    said = capsys.readouterr().out
    assert ("without access to Kafka" in said) is not supported
    assert SECRET not in said


def test_a_job_that_needs_kafka_is_not_started_without_it(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONNECTION, json.dumps(NOT_FOR_JAVA))
    with pytest.raises(ConfigurationError, match="Java's client always verifies"):
        run(submitted, "lag_report")
    assert submitted.runs == []


def test_the_file_goes_when_the_job_fails(submitted: Submitted) -> None:
    submitted.answer("no luck", code=1)
    with pytest.raises(Exception, match="Error code is: 1"):
        run(submitted, "/my/job.py")
    (given,) = submitted.runs
    assert "/my/job.py" in given.words
    assert not Path(given.after("--kafka-properties")).exists()


@pytest.mark.parametrize("by_connection", [True, False])
def test_a_driver_elsewhere_gets_the_file_shipped(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, by_connection: bool
) -> None:
    arguments = {"files": "/other"} if by_connection else {"files": "/other", "deploy_mode": "cluster"}
    extra = {"deploy-mode": "cluster"} if by_connection else {}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    words = run(submitted, "lag_report", arguments)
    (given,) = submitted.runs
    (shipped,) = (path for path in given.files if path.endswith("/kafka.properties"))
    assert given.after("--files") == f"/other,{shipped}"
    assert words[1:] == ["lag_report", "--kafka-properties", "kafka.properties"]


def test_executors_get_the_files_shipped_by_a_driver_here_too(submitted: Submitted) -> None:
    def write(folder: Path) -> dict[str, Path]:
        return {"--source-settings": write_secret_file(SECRET, folder / "source.json")}

    arguments = {"spark_binary": str(submitted.program), "files": "/other"}
    with SparkJob().prepared("translate_offsets", ["--a", "b"], arguments, write, for_executors=True) as submit:
        submit()
    (given,) = submitted.runs
    (shipped,) = (path for path in given.files if path.endswith("/source.json"))
    assert given.files[shipped] == [0o600, SECRET]
    assert given.after("--files") == f"/other,{shipped}"
    assert given.words[-5:] == ["translate_offsets", "--a", "b", "--source-settings", "source.json"]
    assert not Path(shipped).exists()
    assert SECRET not in str(given.words)


def test_yarn_starts_no_second_driver_unless_the_task_says_so(submitted: Submitted) -> None:
    for conf in (None, {"spark.yarn.maxAppAttempts": "3"}):
        run(submitted, "process_group_backlog", {"conf": conf})
    first, second = (given.properties for given in submitted.runs)
    assert "spark.yarn.maxAppAttempts=1" in first
    assert "spark.yarn.maxAppAttempts=3" in second


def test_a_job_that_does_not_exist_is_told_before_anything_is_written(submitted: Submitted) -> None:
    with pytest.raises(ConfigurationError, match="is neither a job of this package nor a path"):
        run(submitted, "no_such_job")
    assert submitted.runs == []


def test_the_arguments_of_a_job_are_words_and_never_the_letters_of_one(submitted: Submitted) -> None:
    lazy = UserList(["--days", 3, "/a"])  # no list, as what a mapped task returned is none
    good: tuple[Any, ...] = (["--days", 3, Path("/a")], '["--days", "3", "/a"]', ("--days", "3", "/a"), lazy)
    for words in good:
        assert run(submitted, "roll_up", application_args=words, kafka="off")[1:] == ["roll_up", "--days", "3", "/a"]
    operator = KafkaSparkSubmitOperator
    native = operator(task_id="t", application="/my/job.jar", application_args=["--full", "{{ full }}"], kafka="off")
    native.spark = {"spark_binary": str(submitted.program)}
    native.application_args = ["--full", True]  # as a DAG renders it that renders natively, also the plain word True
    native.execute({})
    assert submitted.runs[-1].words[-2:] == ["--full", "True"]
    refused: tuple[Any, ...] = ("--days 3", "['--days']", {"--days": "3"}, ["--days", None], ["--days", ["3"]], None, 3)
    for bad in refused:
        with pytest.raises(ConfigurationError, match=r"application_args.*(must be a list|every item must be)"):
            KafkaSparkSubmitOperator(task_id="t", application="roll_up", application_args=bad)
