"""Where a job runs: by its connection, by YARN's configuration, or on this machine."""

import json
from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.dag_params import spark_settings
from airflow_kafka_groups.operators.support.spark_connection import Place, submit_hook, why_not_here

BAR = "[Stage 3:=======================>                       (120 + 2) / 200]"


@pytest.fixture(autouse=True)
def _no_yarn(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def master(arguments: dict[str, str | None]) -> str:
    hook: SparkSubmitHook = submit_hook(arguments, ["--group", "g"])
    command = hook._build_spark_submit_command("job.py")
    assert command[-3:] == ["job.py", "--group", "g"]
    return str(command[command.index("--master") + 1])


def test_without_a_connection_the_job_runs_on_this_machine_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert master({}) == "local[*]"
    assert "no Spark connection 'spark_default'" in caplog.text
    assert master({"conn_id": "nowhere"}) == "local[*]"
    nowhere = Place({"conn_id": "nowhere"})
    assert (nowhere.extra, nowhere.deploy_mode) == ({}, "client")


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_where_yarn_is_configured_airflow_s_default_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/etc/hadoop")
    assert master({}) == "yarn"


def test_a_connection_decides(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    extra = {"deploy-mode": "cluster"}
    spark = {"conn_type": "spark", "host": "spark://m", "port": 7077, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_MINE", json.dumps(spark))
    assert master({"conn_id": "mine"}) == "spark://m:7077"
    assert Place({"conn_id": "mine"}).deploy_mode == "cluster"
    assert Place({"conn_id": "mine", "deploy_mode": "client"}).deploy_mode == "client"
    assert "no Spark connection" not in caplog.text


@pytest.mark.parametrize(("host", "quick"), [(None, True), ("local[4]", True), ("spark://m", False), ("yarn", False)])
def test_only_a_driver_that_does_all_the_work_here_starts_quickly(
    host: str | None, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host is not None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": host}))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dworker=1")
    given = {"MINE": "1"}
    environment = submit_hook({"env_vars": given}, [])._env_vars or {}
    assert environment.get("SPARK_SUBMIT_OPTS") == ("-XX:TieredStopAtLevel=1 -Dworker=1" if quick else None)
    assert given == {"MINE": "1"}
    if quick:
        mine = submit_hook({"env_vars": {"SPARK_SUBMIT_OPTS": "-Dtask=1"}}, [])._env_vars
        assert mine == {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -Dtask=1"}


@pytest.mark.parametrize(
    ("home", "why"), [("/nowhere", "JAVA_HOME is '/nowhere', without a java in it"), (None, "PATH")]
)
def test_a_machine_without_java_is_named_before_spark_is_started(
    home: str | None, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    arguments = {"env_vars": {"JAVA_HOME": home}} if home else {}
    with pytest.raises(ConfigurationError, match=rf"Spark needs Java 17 or newer on this machine.*{why}"):
        submit_hook(arguments, [])
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://m"}')
    assert submit_hook(arguments, []), "elsewhere, Java is not this machine's"


def test_a_bar_of_the_stages_is_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    hook: SparkSubmitHook = submit_hook({}, [])
    capsys.readouterr()
    # Spark ends a bar with a carriage return, and overwrites it with blanks.
    hook._process_spark_submit_log(iter(["began\n", "\n", f"{BAR}\n", "\n", f"{' ' * 79}\n", "ended\n"]))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert BAR in lines[1]


def test_without_spark_on_purpose_only_jobs_that_need_it_use_the_default_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", '{"spark_conn_id": null}')
    arguments = spark_settings()
    assert why_not_here(arguments) == "there is to be none: spark_conn_id is null"
    spark = {"conn_type": "spark", "host": "spark://m", "port": 7077}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    assert why_not_here(arguments) is not None
    assert master({"conn_id": None}) == "spark://m:7077"
    monkeypatch.delenv("KAFKA_GROUPS_DEFAULTS")
    assert why_not_here(spark_settings()) is None
