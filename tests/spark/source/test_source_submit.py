"""The data source as Airflow submits it: a user's script, the package as a zip, the connection's file by ``--files``.

Driver and executors run a Python that has the libraries and not this package. What Spark writes and shows of the run
is searched for the password.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.jars import REPOSITORY
from tests.lab.spark.archive import CONF, quick_options
from tests.lab.spark.standalone import ARROW, bare_python, spark_home
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics
from tests.pages import shown_parts

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

USER, SECRET = "reader", "hush-4d1f"
LIBRARIES = (*ARROW, "kio", "aiokafka", "re2", "async_timeout", "packaging", "typing_extensions.py", "crc32c")
SEEN = """
import urllib.request
from pathlib import Path

offsets.explain("extended")
page = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
pages = ("environment", "sql?details=true&planDescription=true", "jobs", "stages")
shown = [urllib.request.urlopen(f"{page}/{what}", timeout=60).read().decode() for what in pages]
Path(sys.argv[1] + ".pages").write_text("".join(shown))
"""
DEFAULTS = """
spark.driver.memory 1g
spark.driver.extraJavaOptions {options}
spark.eventLog.enabled true
spark.eventLog.compress false
spark.eventLog.dir {events}
spark.ui.port 0
"""  # the event log is not compressed, so that it can be searched


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=1, sasl_users={USER: SECRET}) as started:
        create_topics(started.bootstrap, {"t": 2})
        commit_offsets(started.bootstrap, {"left": {("t", 0): 5}, "behind": {("t", 0): 1, ("t", 1): 2}})
        yield started


@pytest.mark.safety
def test_the_documented_task_submits_the_documented_script_and_the_password_is_shown_nowhere(
    cluster: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from airflow.sdk import task

    for name in (CONF, "events", "work"):
        (tmp_path / name).mkdir()
    defaults = DEFAULTS.format(events=(tmp_path / "events").as_uri(), options=quick_options())
    (tmp_path / CONF / "spark-defaults.conf").write_text(defaults)
    connection = {"conn_type": "kafka_groups", "host": cluster.sasl_bootstrap, "login": USER, "password": SECRET}
    connection |= {"extra": json.dumps({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"})}
    environment = {
        "AIRFLOW_CONN_MY_CLUSTER": json.dumps(connection),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "PATH": f"{spark_home() / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(bare_python(tmp_path / "python", LIBRARIES)),
        "SPARK_CONF_DIR": str(tmp_path / CONF),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path / "work")
    pack = [sys.executable, "-m", "airflow_kafka_groups.spark.bundle", "package.zip"]
    subprocess.run(pack, check=True, env=os.environ | {"PYTHONPATH": str(REPOSITORY)})
    Path("groups.py").write_text(shown_parts()["source_script_example"] + SEEN)

    names: dict[str, Any] = {"task": task}
    exec(compile(shown_parts()["source_submit_example"], "example", "exec"), names)
    names["read_groups"].function(str(tmp_path / "out"))

    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert {(row["group_id"], row["partition"], row["committed_offset"]) for row in rows} == {
        ("left", 0, 5),
        ("behind", 0, 1),
        ("behind", 1, 2),
    }
    pages = (tmp_path / "out.pages").read_text()
    events = [path.read_text(errors="replace") for path in (tmp_path / "events").rglob("*") if path.is_file()]
    output = capfd.readouterr()
    assert "RelationV2" in output.out + output.err, "the plan"
    assert '"planDescription"' in pages
    assert "kafka.json" in pages, "the settings"
    assert any("SparkListenerSQLExecutionStart" in text and "kafka.json" in text for text in events)
    assert all(SECRET not in text for text in (output.out, output.err, pages, *events))


def test_a_python_without_the_libraries_says_what_it_lacks_and_what_to_do(tmp_path: Path) -> None:
    python = bare_python(tmp_path / "python", (*ARROW, "kio"))
    archives = (spark_home() / "python" / "lib").glob("*.zip")
    environment = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), *map(str, archives)])}
    tried = [str(python), "-c", "import airflow_kafka_groups.spark.source"]
    done = subprocess.run(tried, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"ImportError: {python} on ")
    assert "has no aiokafka, re2: the data source kafka_groups needs kio, aiokafka, re2, pyarrow in the Python" in said
    assert "of every executor (PYSPARK_PYTHON): install them" in said


_CHANGES = """
import sys

class NoNumpy:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise ImportError("there is no numpy")

sys.meta_path.insert(0, NoNumpy())
from airflow_kafka_groups.spark.source.stream import _nothing, changes
assert changes(_nothing(), _nothing()) == []
"""


def test_a_stream_needs_no_more_than_these_libraries() -> None:
    done = subprocess.run([sys.executable, "-c", _CHANGES], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
