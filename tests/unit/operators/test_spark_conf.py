import stat
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.operators.support.spark_connection import read_spark_arguments
from airflow_kafka_groups.spark.private_files import hide_conf

SECRET = "s3cr3t-k3y"
CONF = {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.sql.shuffle.partitions": 8, "spark.x": " a=b\\c\nd"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "private"
    made.mkdir()
    return made


def hidden(folder: Path, conf: Any = CONF, file: str | None = None, **how: Any) -> str:
    """Return the content of the file that has the properties."""
    left, path = hide_conf(conf, file, folder, **how)
    assert left == {}
    assert path is not None
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert Path(path).parent == folder
    return Path(path).read_text()


OURS = f"spark.hadoop.fs.s3a.secret.key={SECRET}\nspark.sql.shuffle.partitions=8\nspark.x=\\ a=b\\\\c\\nd\n"


def test_properties_are_in_a_file_that_only_its_owner_can_read(folder: Path) -> None:
    assert hidden(folder).strip() == OURS.strip()


def test_the_tasks_own_file_comes_first(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.conf"
    own.write_text("spark.own 1\nspark.b   2 \\")
    assert hidden(folder, file=str(own)) == "spark.own 1\nspark.b   2 \\\n\n" + OURS
    with pytest.raises(ConfigurationError, match="properties_file"):
        hide_conf(CONF, str(tmp_path / "none.conf"), folder)


def test_what_airflow_decides_by_stays_where_it_sees_it(folder: Path) -> None:
    seen = {"spark.kubernetes.namespace": "jobs", "spark.yarn.submit.waitAppCompletion": "false"}
    left, path = hide_conf({**CONF, **seen}, None, folder)
    assert left == seen
    assert path is not None
    assert "jobs" not in Path(path).read_text()
    assert hide_conf(seen, "own.conf", folder) == (seen, "own.conf")
    assert hide_conf(None, None, folder) == ({}, None)


@pytest.mark.parametrize(
    ("name", "value", "is_masked"),
    [
        ("spark.hadoop.fs.s3a.secret.key", SECRET, True),
        ("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", SECRET, True),
        ("spark.hadoop.fs.azure.sas.files.lake.blob.core.windows.net", SECRET, True),
        ("spark.sql.catalog.lake.header.Authorization", f"Basic {SECRET}", True),
        ("spark.sql.catalog.lake.uri", f"jdbc:postgresql://db/lake?user=me&password={SECRET}", True),
        ("spark.jars.repositories", f"https://me:{SECRET}@repo/maven", True),
        ("spark.driver.extraJavaOptions", f"-Xss4m -Djavax.net.ssl.keyStorePassword={SECRET}", True),
        ("AZURE_STORAGE_CONNECTION_STRING", f"AccountName=a;AccountKey={SECRET}", True),
        ("MYSQL_PWD", SECRET, True),
        ("DB_PASS", SECRET, True),
        ("DBPASS", SECRET, True),
        ("SMTP_PASS_1", SECRET, True),
        ("spark.executorEnv.DBPASS", SECRET, True),
        ("PROXY_BYPASS", "/work", False),
        ("FIRST_PASS_ROWS", "three", False),
        ("spark.executorEnv.OLDPWD", "/work", False),
        ("spark.lake.jdbc.pass", SECRET, True),
        ("spark.kubernetes.driver.annotation.ingress/proxy-pass-headers", "X-Team", False),
        ("CLIENT_PEM", f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n", True),
        ("GCP_ACCOUNT", f'{{"key": "-----BEGIN RSA PRIVATE KEY-----\\n{SECRET}"}}', True),
        ("spark.executorEnv.PWD", "/work", False),
        ("spark.hadoop.hadoop.security.authorization", "false", False),
        ("spark.hadoop.mapreduce.job.complete.cancel.delegation.tokens", "false", False),
        ("spark.hadoop.hive.security.authorization.manager", "org.apache.hive.Manager", False),
        ("spark.driver.extraJavaOptions", "-Djavax.net.ssl.keyStore.path=/a -Dx=1", False),
        ("spark.sql.catalog.lake.uri", "https://lake:8181/api?warehouse=w", False),
    ],
)
def test_what_is_secret_by_its_name_or_value_is_masked(
    name: str, value: str, is_masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[str] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", lambda value, name=None: masked.append(value))
    read_spark_arguments("spark", {"conf": {name: value}})
    read_spark_arguments("spark", {"env_vars": {name: value}})
    assert masked == ([value, value] if is_masked else [])


@pytest.mark.safety
@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("application", {"application": f"s3a://AKIA:{SECRET}@jobs/job.py"}),
        ("application_args", {"application_args": ["--output", f"s3a://AKIA:{SECRET}@bucket/out"]}),
        ("application_args", {"application_args": [f"--output=https://host/out?sig={SECRET}"]}),
        ("application_args", {"application_args": [f'{{"a": [{{"https://me:{SECRET}@repo": 1}}], "b": "x://y"}}']}),
        ("application_args", {"application_args": [f'"https://me:{SECRET}@repo"']}),
        ("spark, repositories", {"spark": {"repositories": f"https://repo/a,https://me:{SECRET}@repo/b"}}),
        ("spark, py_files", {"spark": {"py_files": f"https://host/job.zip?token={SECRET}"}}),
    ],
)
def test_a_url_with_a_secret_on_the_command_line_is_refused_and_not_shown(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}: a password or token") as caught:
        KafkaSparkSubmitOperator(**{"task_id": "t", "application": "roll_up", **given})
    assert SECRET not in str(caught.value)


@pytest.mark.safety
def test_nor_is_one_shown_that_a_template_renders_beside_another_mistake() -> None:
    given = ["--out", "{{ params.out }}", "{{ params.nothing }}"]
    task = KafkaSparkSubmitOperator(task_id="t", application="roll_up", application_args=given)
    with pytest.raises(ConfigurationError, match="application_args") as caught:
        task.render_template_fields({"params": {"out": f"https://me:{SECRET}@host", "nothing": None}})
    assert SECRET not in str(caught.value)


def test_urls_and_words_without_one_are_taken() -> None:
    words = ["--base", "s3a://bucket/groups", "--mail", "me@x.org", "--servers", "a:9092,b:9092", "hdfs://n:8020/x@y"]
    words += ['{"url": "http://host:8080", "mail": "me@x.org"}', '["http://host:8080/a","me@x.org?token=b"]']
    spark = {"packages": "a:b:1", "py_files": "https://host/job.zip", "executor_cores": 2, "conf": None}
    task = KafkaSparkSubmitOperator(task_id="t", application="roll_up", application_args=words, spark=spark)
    assert task.application_args == words
