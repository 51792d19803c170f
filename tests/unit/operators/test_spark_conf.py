import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.operators.support.spark_connection import read_spark_arguments
from airflow_kafka_groups.spark.private_files import hide_conf

SECRET = "s3cr3t-k3y"
FIND_SPARK_HOME = Path(sys.executable).with_name("find-spark-home")
CONF = {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.sql.shuffle.partitions": 8, "spark.x": " a=b\\c\nd"}


@pytest.fixture
def conf_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "conf"
    folder.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))
    return folder


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


def test_properties_follow_the_defaults_that_the_file_replaces(conf_dir: Path, folder: Path) -> None:
    (conf_dir / "spark-defaults.conf").write_text("spark.a 1\nspark.b   2 \\")
    assert hidden(folder) == "spark.a 1\nspark.b   2 \\\n\n" + OURS


def test_without_defaults_there_are_the_properties_only(conf_dir: Path, folder: Path) -> None:
    assert hidden(folder).strip() == OURS.strip()


def test_the_tasks_own_file_takes_the_place_of_the_defaults(conf_dir: Path, folder: Path, tmp_path: Path) -> None:
    (conf_dir / "spark-defaults.conf").write_text("spark.a 1\n")
    own = tmp_path / "own.conf"
    own.write_text("spark.own 1\n")
    assert hidden(folder, file=str(own)) == "spark.own 1\n\n\n" + OURS
    with pytest.raises(ConfigurationError, match="properties_file"):
        hide_conf(CONF, str(tmp_path / "none.conf"), folder)


def test_what_airflow_decides_by_stays_where_it_sees_it(conf_dir: Path, folder: Path) -> None:
    seen = {"spark.kubernetes.namespace": "jobs", "spark.yarn.submit.waitAppCompletion": "false"}
    left, path = hide_conf({**CONF, **seen}, None, folder)
    assert left == seen
    assert path is not None
    assert "jobs" not in Path(path).read_text()
    assert hide_conf(seen, "own.conf", folder) == (seen, "own.conf")
    assert hide_conf(None, None, folder) == ({}, None)


@pytest.mark.skipif(not FIND_SPARK_HOME.exists(), reason="pyspark-client lacks the script of Spark")
@pytest.mark.parametrize("how", ["SPARK_HOME", "the path", "a binary", "env_vars", "pip"])
def test_the_defaults_are_found_as_spark_finds_them(
    how: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    home = tmp_path / "spark"
    for name in ("bin", "conf"):
        (home / name).mkdir(parents=True)
    (home / "conf" / "spark-defaults.conf").write_text("spark.found 1\n")
    for name in ("spark-submit", "find-spark-home"):
        program = home / "bin" / name
        program.write_text(FIND_SPARK_HOME.read_text())
        program.chmod(0o755)
    arguments: dict[str, Any] = {}
    if how == "SPARK_HOME":
        monkeypatch.setenv("SPARK_HOME", str(home))
    elif how == "the path":
        monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    elif how == "a binary":
        arguments["spark_binary"] = str(home / "bin" / "spark-submit")
    elif how == "env_vars":
        arguments["env_vars"] = {"SPARK_HOME": str(home)}
    else:  # pip puts a script beside spark-submit that says where pyspark is
        (home / "bin" / "find_spark_home.py").write_text(f"print({str(home)!r})")
        arguments = {"spark_binary": str(home / "bin" / "spark-submit"), "env_vars": {"PYSPARK_PYTHON": sys.executable}}
    assert hidden(folder, **arguments).startswith("spark.found 1\n")


def test_where_the_defaults_are_not_found_no_secret_goes_to_the_command_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrapper of a site sets SPARK_HOME by itself: without its defaults, the job may lack what it needs."""
    for name in ("SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    wrapper = tmp_path / "spark-submit"
    wrapper.write_text("#!/bin/sh\n")
    wrapper.chmod(0o755)
    with pytest.raises(ConfigurationError, match="set SPARK_CONF_DIR") as caught:
        hide_conf(CONF, None, folder, spark_binary=str(wrapper))
    assert SECRET not in str(caught.value)
    in_value = {"spark.sql.catalog.lake.uri": f"jdbc:postgresql://db/lake?user=me&password={SECRET}"}
    with pytest.raises(ConfigurationError, match="set SPARK_CONF_DIR") as caught:
        hide_conf(in_value, None, folder, spark_binary=str(wrapper))
    assert SECRET not in str(caught.value)
    plain = {"spark.sql.shuffle.partitions": "8", "spark.sql.catalog.lake.uri": "https://lake:8181/api"}
    plain |= {"spark.hadoop.hadoop.security.authorization": "true"}
    plain |= {"spark.hadoop.hive.security.authorization.enabled": "true"}
    plain |= {"spark.hadoop.hadoop.security.token.service.use_ip": "False"}
    assert hide_conf(plain, None, folder, spark_binary=str(wrapper)) == (plain, None)


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
