"""What the tests on clusters share: jobs as users ship them, what these said, and properties files."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_kafka_groups.hooks.connection import read_connection
from airflow_kafka_groups.spark.bundle import APPLICATION, write_bundle
from airflow_kafka_groups.spark.kafka.connection_files import write_spark_properties
from tests.lab.cluster import KafkaCluster
from tests.lab.security.oidc import Provider, oidc_connection
from tests.lab.spark.standalone import SUBMIT_TIMEOUT_S, SparkCluster
from tests.spark.clusters import several

CLIENT, SECRET = "spark-jobs", "cl1ent-s3cret"
Done = subprocess.CompletedProcess[str]
Job = Callable[..., Done]


def submitter(cluster: SparkCluster, jars: str, folder: Path) -> Job:
    """Return a function that submits a job: the application, copied into a folder, and the package as a zip."""
    bundle = write_bundle(folder / "jobs.zip")

    def submit(
        name: str,
        *arguments: str,
        application: Path = APPLICATION,
        options: tuple[str, ...] = ("--jars", jars),
        py_files: tuple[Path, ...] = (),
        **more: Any,
    ) -> Done:
        shutil.copy(APPLICATION, folder)
        alone = shutil.copy(application, folder)
        shipped = ",".join(str(path) for path in (bundle, *py_files))
        return cluster.submit(alone, name, *arguments, options=["--py-files", shipped, *options], **more)

    return submit


def together(job: Job, *commands: Sequence[str], **more: Any) -> list[Done]:
    """Run jobs in one session and return what each said: a driver and an executor cost more than most jobs."""
    limit = len(commands) * SUBMIT_TIMEOUT_S
    done = job(json.dumps(commands), application=Path(several.__file__), timeout=limit, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall(rf"(.*?)^{several.ENDED}(\d+)$", done.stdout, re.DOTALL | re.MULTILINE)
    assert len(said) == len(commands), done.stdout
    return [
        subprocess.CompletedProcess(list(command), int(code), output, done.stderr)
        for command, (output, code) in zip(commands, said, strict=True)
    ]


def last_line(done: Done) -> str:
    return done.stdout.splitlines()[-1]  # spark-submit hands on both streams of the program as its stdout


def summary(done: Done) -> dict[str, Any]:
    """Return what a job that went well says last."""
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(last_line(done))
    return said


def oidc_file(brokers: KafkaCluster, provider: Provider, folder: Path) -> Path:
    """Write what a connection of the type ``kafka_groups`` says, as the operator does."""
    given = oidc_connection(brokers.sasl_bootstrap, provider.token_url, CLIENT, SECRET)
    return write_spark_properties(read_connection(given), folder / "oidc.properties")


def properties_file(servers: str, extra: dict[str, Any], folder: Path) -> Path:
    """Write what a connection of the type ``kafka_groups`` with this extra says, and no user in it."""
    fields = {"conn_id": "c", "conn_type": "kafka_groups", "host": servers, "port": None}
    given: Any = SimpleNamespace(**fields, login=None, password=None, extra=json.dumps(extra))
    return write_spark_properties(read_connection(given), folder / "kafka.properties")


def allowed(provider: Provider) -> dict[str, str]:
    """Return the settings by which Spark's JVMs may ask the provider."""
    return {f"spark.{side}.extraJavaOptions": provider.java_option for side in ("driver", "executor")}
