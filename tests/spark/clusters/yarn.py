"""The jobs on a real YARN, in client and in cluster mode: ``make test-yarn``, apart for its 66 MB of downloads.

In cluster mode the driver, too, runs in a container, in a folder of its own, with what spark-submit ships and no more.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.security.kerberos import Kerberos
from tests.lab.security.oidc import Provider
from tests.lab.spark.standalone import SparkCluster
from tests.lab.spark.yarn import YarnCluster
from tests.lab.workload.groups import commit_offsets
from tests.spark.backlog.test_archive_backlog import snapshot
from tests.spark.clusters.shipping import Job, allowed, oidc_file, properties_file, summary
from tests.spark.kafka import add, committed, fill

pytestmark = [pytest.mark.spark, pytest.mark.kafka("4.1.0"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with YarnCluster() as started:
        yield started


def test_the_commits_are_read_in_client_mode(
    job: Job, brokers: KafkaCluster, provider: Provider, tmp_path: Path
) -> None:
    path = oidc_file(brokers, provider, tmp_path)
    arguments = ("--kafka-properties", str(path), "--output", (tmp_path / "out").as_uri())
    said = summary(job("commit_history", *arguments, settings=allowed(provider)))
    found = set(pq.read_table(tmp_path / "out" / "commits").column("group_id").to_pylist())
    assert {"cl-left", "cl-doomed"} <= found <= {"cl-left", "cl-doomed", "cl-yarn"}, "the last one is of another test"
    assert (said["commits"], said["groups"], said["warnings"]) == (len(found), len(found), [])


def test_a_backlog_is_archived_in_cluster_mode(
    job: Job, jars: str, brokers: KafkaCluster, provider: Provider, tmp_path: Path
) -> None:
    path = oidc_file(brokers, provider, tmp_path)
    snapshot(brokers.bootstrap, tmp_path, "cl-doomed")
    output = tmp_path / "archive"
    arguments = ("--base", tmp_path.as_uri(), "--cluster", "c", "--group", "cl-doomed", "--output", output.as_uri())
    options = ("--jars", jars, "--files", str(path))
    done = job(
        *("archive_backlog", "--kafka-properties", path.name, *arguments),
        options=options,
        settings=allowed(provider),
        mode="cluster",
    )
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(output).to_pylist()
    assert sorted(row["value"] for row in rows) == [b"cl-u-0-1", b"cl-u-0-2", b"cl-u-0-3"]


def test_a_backlog_is_processed_in_cluster_mode(
    job: Job, jars: str, brokers: KafkaCluster, provider: Provider, tmp_path: Path
) -> None:
    add(brokers.bootstrap, {("cl-t", 0): 1})
    commit_offsets(brokers.bootstrap, {"cl-yarn": {("cl-t", 0): 3}})
    path = oidc_file(brokers, provider, tmp_path)
    (tmp_path / "mine.py").write_text("def values(records): return records.selectExpr('CAST(value AS STRING) AS v')\n")
    arguments = ("--group", "cl-yarn", "--transform", "mine:values", "--output", (tmp_path / "out").as_uri())
    done = job(
        *("process_group_backlog", "--kafka-properties", path.name, *arguments),
        options=("--jars", jars, "--files", str(path)),
        py_files=(tmp_path / "mine.py",),
        settings=allowed(provider),
        mode="cluster",
    )
    assert done.returncode == 0, done.stderr
    assert sorted(pq.read_table(tmp_path / "out").column("v").to_pylist()) == ["cl-t-0-0", "cl-t-0-3", "cl-t-0-4"]
    assert committed(brokers.bootstrap, "cl-yarn", ("cl-t", 0)) == [6]


def test_in_cluster_mode_every_failure_ends_with_exit_code_1(job: Job, tmp_path: Path) -> None:
    arguments = ("--base", tmp_path.as_uri(), "--cluster", "nowhere", "--min-idle-seconds", "never")
    done = job("judge_staleness", *arguments, options=(), mode="cluster")
    assert done.returncode == 1, "its own code would be 2; YARN hands on that it failed"
    assert "exitCode: 2" in done.stderr or "exit code: 2" in done.stderr or "exited with 2" in done.stderr


def test_a_keytab_is_shipped_in_cluster_mode(job: Job, jars: str, tmp_path: Path) -> None:
    with Kerberos("ann") as kerberos, kerberos.cluster() as brokers:
        fill(brokers.bootstrap, {("cl-k", 0): 1})
        commit_offsets(brokers.bootstrap, {"cl-kerberos": {("cl-k", 0): 1}})
        login = {"sasl.kerberos.keytab": kerberos.keytab.name, "sasl.kerberos.principal": kerberos.principal("ann")}
        extra = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "properties": login}
        path = properties_file(brokers.sasl_bootstrap, extra, tmp_path)
        done = job(
            *("commit_history", "--kafka-properties", path.name, "--output", (tmp_path / "out").as_uri()),
            options=("--jars", jars, "--files", f"{path},{kerberos.keytab}"),
            settings={f"spark.{side}.extraJavaOptions": kerberos.java_option for side in ("driver", "executor")},
            mode="cluster",
        )
        assert done.returncode == 0, done.stderr
        found = pq.read_table(tmp_path / "out" / "commits").column("group_id").to_pylist()
        assert found == ["cl-kerberos"]
