"""What the tests on clusters share: what a program said, and a properties file that logs in by OIDC."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_kafka_groups.hooks.java_properties import java_properties, render_properties, write_secret_file
from airflow_kafka_groups.hooks.settings import read_connection
from tests.lab.cluster import KafkaCluster
from tests.lab.oidc import Provider, oidc_connection

CLIENT, SECRET = "spark-jobs", "cl1ent-s3cret"
Done = subprocess.CompletedProcess[str]
Job = Callable[..., Done]


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
    return write_secret_file(render_properties(java_properties(read_connection(given))), folder / "oidc.properties")


def properties_file(servers: str, extra: dict[str, Any], folder: Path) -> Path:
    """Write what a connection of the type ``kafka_groups`` with this extra says, and no user in it."""
    fields = {"conn_id": "c", "conn_type": "kafka_groups", "host": servers, "port": None}
    given: Any = SimpleNamespace(**fields, login=None, password=None, extra=json.dumps(extra))
    return write_secret_file(render_properties(java_properties(read_connection(given))), folder / "kafka.properties")


def allowed(provider: Provider) -> dict[str, str]:
    """Return the settings by which Spark's JVMs may ask the provider."""
    return {f"spark.{side}.extraJavaOptions": provider.java_option for side in ("driver", "executor")}
