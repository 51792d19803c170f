"""The data source as users submit it: a script of theirs, the package as a zip, the connection's file by ``--files``.

Driver and executors run a Python that has the libraries and not this package. What Spark writes and shows of the run
is searched for the password.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.hooks.settings import read_connection
from airflow_kafka_groups.hooks.source_settings import write_source_settings
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import commit_offsets
from tests.lab.jars import REPOSITORY
from tests.lab.spark_cluster import ARROW, bare_python, spark_home
from tests.lab.topics import create_topics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

USER, SECRET = "reader", "hush-4d1f"
LIBRARIES = (*ARROW, "kio", "aiokafka", "async_timeout", "packaging", "typing_extensions.py", "crc32c")
SCRIPT = """
import sys
import urllib.request

from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.source import register

spark = SparkSession.builder.appName("groups").getOrCreate()
register(spark)
offsets = spark.read.format("kafka_groups").option("config.file", "kafka.json").load()
offsets.explain("extended")
offsets.coalesce(1).write.parquet(sys.argv[1])
page = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
for what in ("environment", "sql?details=true&planDescription=true", "jobs", "stages"):
    print(urllib.request.urlopen(f"{page}/{what}", timeout=60).read().decode())
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=1, sasl_users={USER: SECRET}) as started:
        create_topics(started.bootstrap, {"t": 2})
        commit_offsets(started.bootstrap, {"left": {("t", 0): 5}, "behind": {("t", 0): 1, ("t", 1): 2}})
        yield started


@pytest.mark.safety
def test_a_script_reads_by_the_zip_and_the_file_it_is_given_and_the_password_is_shown_nowhere(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    extra = json.dumps({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"})
    fields = {"conn_id": "c", "conn_type": "kafka_groups", "host": cluster.sasl_bootstrap, "port": None}
    given = SimpleNamespace(**fields, login=USER, password=SECRET, extra=extra)
    for name in ("secrets", "events", "work"):
        (tmp_path / name).mkdir()
    file = write_source_settings(read_connection(given), tmp_path / "secrets" / "kafka.json")
    bundle = tmp_path / "package.zip"
    pack = [sys.executable, "-m", "airflow_kafka_groups.spark.bundle", str(bundle), "--whole"]
    subprocess.run(pack, check=True, cwd=REPOSITORY)
    script = tmp_path / "groups.py"
    script.write_text(SCRIPT)
    python = bare_python(tmp_path / "python", LIBRARIES)
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (tmp_path / "events").as_uri(),
        "spark.eventLog.compress": "false",  # a compressed one could not be searched
        "spark.ui.port": "0",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    settings = [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [
            *(str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g", *settings),
            *("--files", str(file), "--py-files", str(bundle), str(script), str(tmp_path / "out")),
        ],
        cwd=tmp_path / "work",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        | {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert {(row["group_id"], row["partition"], row["committed_offset"]) for row in rows} == {
        ("left", 0, 5),
        ("behind", 0, 1),
        ("behind", 1, 2),
    }
    events = [path.read_text(errors="replace") for path in (tmp_path / "events").rglob("*") if path.is_file()]
    shown = [done.stdout, done.stderr, *events]
    assert "RelationV2" in done.stdout, "the plan"
    assert '"planDescription"' in done.stdout, "Spark's pages"
    assert any("SparkListenerSQLExecutionStart" in text for text in events), "the event log"
    assert any("kafka.json" in text for text in events), "the log has the settings"
    assert all(SECRET not in text for text in shown)


def test_a_python_without_the_libraries_says_what_it_lacks_and_what_to_do(tmp_path: Path) -> None:
    python = bare_python(tmp_path / "python", (*ARROW, "kio"))
    archives = (spark_home() / "python" / "lib").glob("*.zip")
    environment = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), *map(str, archives)])}
    tried = [str(python), "-c", "import airflow_kafka_groups.spark.source"]
    done = subprocess.run(tried, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"ImportError: {python} on ")
    assert "has no aiokafka: the data source kafka_groups needs kio, aiokafka, pyarrow in the Python" in said
    assert "of every executor (PYSPARK_PYTHON): install them" in said
