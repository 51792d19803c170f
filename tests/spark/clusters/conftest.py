"""Brokers that check OIDC tokens by their signatures, and jobs that are submitted as users ship them.

Each module has a fixture ``cluster`` of its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.security.oidc import Provider
from tests.lab.spark.jars import connector_jars
from tests.lab.spark.standalone import SparkCluster
from tests.lab.workload.groups import commit_offsets
from tests.spark.clusters.shipping import CLIENT, SECRET, Job, submitter
from tests.spark.kafka import fill


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider({CLIENT: SECRET}) as started:
        yield started


@pytest.fixture(scope="module")
def brokers(provider: Provider) -> Iterator[KafkaCluster]:
    with provider.cluster() as started:
        fill(started.bootstrap, {("cl-t", 0): 5, ("cl-u", 0): 4})
        commit_offsets(started.bootstrap, {"cl-left": {("cl-t", 0): 2}, "cl-doomed": {("cl-u", 0): 1}})
        yield started


@pytest.fixture(scope="module")
def jars() -> str:
    """Return the connector's jars as ``--jars`` takes them."""
    return ",".join(str(jar) for jar in connector_jars())


@pytest.fixture
def job(cluster: SparkCluster, jars: str, tmp_path: Path) -> Job:
    """Submit a job: the application, copied away from the package, and the package as a zip, beside ``py_files``."""
    return submitter(cluster, jars, tmp_path)
