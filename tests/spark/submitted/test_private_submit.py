"""By a real spark-submit: no property of a task is on a command line, and ``kill -9`` leaves no file with a secret."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.spark.private_files import PRIVATE_PREFIX
from tests.lab.machine.waiting import is_alive, until
from tests.lab.spark.archive import CONF, quick_options

pytestmark = [
    pytest.mark.spark,
    pytest.mark.safety,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="command lines are read from /proc"),
]

OF_CONF, OF_KAFKA = "c0nf-s3cr3t-7fd2", "k4fka-s3cr3t-91be"
JOB = """
import json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

done, kafka = Path(sys.argv[1]), sys.argv[3:]  # --kafka-properties and the file, or nothing
spark = SparkSession.builder.getOrCreate()
names = ("spark.hadoop.fs.s3a.secret.key", "spark.from.defaults", "spark.from.both")
seen = {name: spark.sparkContext.getConf().get(name) for name in names}
seen["kafka"] = Path(kafka[0]).read_text() if kafka else ""
done.with_suffix(".new").write_text(json.dumps(seen))
done.with_suffix(".new").rename(done)
while not done.with_name("go").exists():
    time.sleep(0.05)
if not kafka:
    spark.sparkContext.parallelize(range(3), 3).foreach(lambda _: time.sleep(0.7))
"""
TASK = """
import sys
from pathlib import Path
kind, job, done, secret = sys.argv[1], sys.argv[2], sys.argv[3], sys.stdin.readline().strip()
often = {"spark.ui.consoleProgress.update.interval": "100"}
conf = {"spark.hadoop.fs.s3a.secret.key": secret, "spark.from.both": "the task", **often}
binary = {"conf": conf, "spark_binary": str(Path(sys.executable).with_name("spark-submit"))}
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
task = KafkaSparkSubmitOperator(task_id="t", application=job, application_args=[done], spark=binary, kafka=kind)
task.execute({})
"""


class Task:
    """A task in a process group of its own, and the job that it has submitted."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.temporary = folder, folder / "tmp"
        self.done = folder / "done.json"
        conf = folder / CONF
        for made in (self.temporary, conf):
            made.mkdir()
        (folder / "job.py").write_text(JOB)
        defaults = "spark.from.defaults yes\nspark.from.both the defaults\nspark.ui.enabled false\n"
        (conf / "spark-defaults.conf").write_text(
            f"{defaults}spark.driver.memory 512m\nspark.driver.extraJavaOptions {quick_options()}\n"
        )
        extra = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
        login = {"conn_type": "kafka_groups", "host": "b1:9092", "login": "me", "password": OF_KAFKA, "extra": extra}
        environment = {
            **os.environ,
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT": json.dumps(login),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(self.temporary),
        }
        self.before = set(processes())
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-c", TASK, kind, str(folder / "job.py"), str(self.done)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(f"{OF_CONF}\n")
        self.process.stdin.close()

    def written(self) -> str:
        self.log.flush()
        return (self.folder / "log").read_text()

    def secret_files(self) -> list[Path]:
        """Return the files below the temporary folder that have one of the secrets."""
        secrets = (OF_CONF.encode(), OF_KAFKA.encode())
        found = []
        for path in (Path(folder, name) for folder, _, names in os.walk(self.temporary) for name in names):
            with contextlib.suppress(FileNotFoundError):  # what is looked at may be removed meanwhile, as it should be
                content = path.read_bytes() if path.is_file() else b""
                found += [path] if any(secret in content for secret in secrets) else []
        return found

    def end(self) -> None:
        for process in of_session(self.process.pid):
            os.kill(process, signal.SIGKILL)
        self.process.wait()
        self.log.close()


@pytest.fixture(params=["required", "off"])
def task(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Task]:
    started = Task(tmp_path, request.param)
    yield started
    started.end()


def of_session(session: int) -> list[int]:
    """Return the processes that the task started: the job's JVM outlives a task that was killed."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == session:
                found.append(int(process.name))
        except OSError:
            continue
    return found


def processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdecimal()]


def command_lines(but: set[str]) -> list[bytes]:
    found = []
    for process in processes():
        if process not in but:
            with contextlib.suppress(OSError):  # it has ended
                found.append(Path("/proc", process, "cmdline").read_bytes())
    return found


def watch_until(true: Callable[[], bool], task: Task) -> set[str]:
    """Look at the command lines of all that started since the task, until something is true; return the task's own."""
    seen: set[str] = set()
    while not true():
        for line in command_lines(task.before):
            assert OF_CONF.encode() not in line
            assert OF_KAFKA.encode() not in line
            if bytes(task.folder) in line:
                seen.add(line.replace(b"\0", b" ").decode())
        assert task.process.poll() is None or true(), task.written()
        time.sleep(0.02)
    return seen


def test_no_secret_is_on_a_command_line_and_the_job_has_them(task: Task, request: pytest.FixtureRequest) -> None:
    seen = watch_until(task.done.exists, task)
    assert any("org.apache.spark.deploy.SparkSubmit" in line and "--properties-file" in line for line in seen)
    assert not any("--conf" in line for line in seen)
    found = json.loads(task.done.read_text())
    assert found["spark.hadoop.fs.s3a.secret.key"] == OF_CONF
    assert (found["spark.from.defaults"], found["spark.from.both"]) == ("yes", "the task")
    assert (OF_KAFKA in found["kafka"]) is ("required]" in request.node.name)
    assert task.secret_files(), "or this test looks in the wrong place"
    task.done.with_name("go").touch()
    watch_until(lambda: task.process.poll() is not None, task)
    assert task.process.returncode == 0, task.written()
    assert list(task.temporary.glob(f"{PRIVATE_PREFIX}*")) == []
    assert OF_CONF not in task.written()
    assert OF_KAFKA not in task.written()
    if "off]" in request.node.name:
        assert re.search(r"\[Stage 0:=*>? *\(2 \+ 1\) / 3\]", task.written()), "a bar of the running stages"
        assert not re.search(r"\[info +\] +\[airflow", task.written()), "a blank line"


def test_kill_9_leaves_no_secret(task: Task) -> None:
    watch_until(task.done.exists, task)
    assert task.secret_files()
    os.kill(task.process.pid, signal.SIGKILL)
    task.process.wait()
    limit = time.monotonic() + 30
    while task.secret_files() and time.monotonic() < limit:
        time.sleep(0.05)
    assert task.secret_files() == []
    assert of_session(task.process.pid), "the job goes on: it has read its files"


WORKS_ON = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate()
place = Path(sys.argv[1])
place.with_suffix(".pid").write_text(str(os.getpid()))
for number in range(3_000):  # a transform that does its work in Python
    place.write_text(str(number))
    time.sleep(0.05)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="whether the driver is there is read from /proc")
def test_the_driver_of_a_killed_task_works_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry would process the same records while the driver's Python goes on, which needs no JVM for that."""
    (tmp_path / "job.py").write_text(WORKS_ON)
    (tmp_path / CONF).mkdir()
    options = f"spark.driver.memory 512m\nspark.driver.extraJavaOptions {quick_options()}\nspark.ui.enabled false\n"
    (tmp_path / CONF / "spark-defaults.conf").write_text(options)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    for name, value in {"SPARK_CONF_DIR": str(tmp_path / CONF), "SPARK_LOCAL_IP": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    place = tmp_path / "work"
    task = KafkaSparkSubmitOperator(
        task_id="t",
        application=str(tmp_path / "job.py"),
        application_args=[str(place)],
        spark={"spark_binary": str(Path(sys.executable).with_name("spark-submit"))},
        kafka="off",
    )
    ended: list[BaseException] = []

    def execute() -> None:
        try:
            task.execute({})
        except Exception as exc:  # noqa: BLE001 - whatever it is, the test looks at it
            ended.append(exc)

    running = threading.Thread(target=execute)
    running.start()
    until(lambda: place.exists() or not running.is_alive())
    assert ended == []
    driver = int(place.with_suffix(".pid").read_text())
    try:
        task.on_kill()
        running.join(60)
        assert len(ended) == 1, "the task fails"
        until(lambda: not is_alive(driver), 10)
    finally:
        if is_alive(driver):
            os.kill(driver, 9)
