"""The jobs on a cluster whose executors are processes of their own, and know only what is shipped to them.

Brokers check OIDC tokens by their signatures. Driver and executors run a Python without this package, in folders of
their own, so what a job needs comes by spark-submit: as users ship it.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.histories.judged import verdict_folder
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import seen
from tests.lab.cluster import KafkaCluster
from tests.lab.security.oidc import Provider
from tests.lab.spark.standalone import SparkCluster
from tests.spark.backlog.test_archive_backlog import snapshot
from tests.spark.clusters.shipping import SECRET, Done, Job, allowed, last_line, oidc_file, submitter, summary, together
from tests.spark.kafka import committed, write_properties

pytestmark = [pytest.mark.spark, pytest.mark.kafka("4.1.0"), pytest.mark.timeout(800)]  # two or three jobs


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster() as started:
        yield started


def test_neither_driver_nor_executors_have_this_package(cluster: SparkCluster) -> None:
    tried = "import pyarrow, pandas\ntry: import airflow_kafka_groups\nexcept ModuleNotFoundError: print('not there')"
    done = subprocess.run([cluster.python, "-c", tried], cwd="/", env={}, capture_output=True, text=True, check=True)
    assert done.stdout == "not there\n"


@pytest.fixture(scope="module")
def without_jars(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Done]]:
    """Run two jobs that read no Kafka in one session: a judgement, and one whose output no executor can share."""
    folder = tmp_path_factory.mktemp("without-jars")
    for number in (0, 1):
        write_snapshot(folder, number, seen(number))
    base = ("--base", folder.as_uri(), "--cluster", CLUSTER)
    judged = ("judge_staleness", *base, "--min-idle-seconds", "3600")  # in tasks, on executors that have no package
    refused = ("roll_up", *base[:2], "--output", "file:///proc/self/cwd/out")
    return folder, together(submitter(cluster, "", folder), judged, refused, options=())


def test_a_ledger_is_judged(without_jars: tuple[Path, list[Done]]) -> None:
    folder, (done, _) = without_jars
    said = summary(done)
    assert (said["groups"], said["verdicts"]["stale"], said["warnings"]) == (1, 1, [])
    assert said["snapshots_reduced"] == 2
    table = pq.read_table(verdict_folder(folder, 1))
    assert table.column("verdict").to_pylist() == ["stale"]


def test_tables_that_executors_would_write_to_disks_of_their_own_are_refused(
    without_jars: tuple[Path, list[Done]],
) -> None:
    done = without_jars[1][1]
    assert done.returncode == 1, done.stdout
    assert "roll_up: error: file:///proc/self/cwd/out is on the driver's own disk" in last_line(done)


@dataclass(frozen=True)
class OfKafka:
    """What two jobs said that read brokers, in one session: who asked for tokens, and where the commits are."""

    commits: Done
    archive: Done
    asked: int
    output: Path


@pytest.fixture(scope="module")
def of_kafka(
    cluster: SparkCluster,
    jars: str,
    brokers: KafkaCluster,
    provider: Provider,
    tmp_path_factory: pytest.TempPathFactory,
) -> OfKafka:
    folder, asked = tmp_path_factory.mktemp("of-kafka"), len(provider.asked)
    shipped = write_properties(folder, brokers.bootstrap)
    snapshot(brokers.bootstrap, folder, "cl-doomed")
    commits, archive = together(
        submitter(cluster, jars, folder),
        (
            *("commit_history", "--kafka-properties", str(oidc_file(brokers, provider, folder))),
            *("--output", (folder / "out").as_uri()),
        ),
        (
            *("archive_backlog", "--kafka-properties", shipped.name),
            *("--base", folder.as_uri(), "--cluster", "c", "--group", "cl-doomed"),
        ),
        options=("--jars", jars, "--files", str(shipped)),
        settings=allowed(provider),
    )
    return OfKafka(commits, archive, len(provider.asked) - asked, folder / "out")


def test_the_commits_are_read_by_who_logs_in_with_tokens(of_kafka: OfKafka) -> None:
    said = summary(of_kafka.commits)
    assert (said["commits"], said["groups"], said["warnings"]) == (2, 2, [])
    found = pq.read_table(of_kafka.output / "commits").to_pylist()
    assert sorted((row["group_id"], row["committed_offset"]) for row in found) == [("cl-doomed", 1), ("cl-left", 2)]
    assert of_kafka.asked >= 2, "the driver asks for a token, and so does the executor's own JVM"
    for done in (of_kafka.commits, of_kafka.archive):
        assert SECRET not in done.stdout + done.stderr


def test_a_backlog_is_archived_with_a_properties_file_that_was_shipped(of_kafka: OfKafka) -> None:
    said = summary(of_kafka.archive)
    assert (said["records"], said["exact"], said["warnings"]) == (3, True, [])
    rows = pq.read_table(said["output"].removeprefix("file:")).to_pylist()
    assert sorted(row["value"] for row in rows) == [b"cl-u-0-1", b"cl-u-0-2", b"cl-u-0-3"]


def test_brokers_that_only_the_executors_do_not_reach_are_named(
    job: Job, brokers: KafkaCluster, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"  # for the executors' JVMs, the name leads to where no broker listens
    hosts.write_text("127.0.0.99 localhost\n")
    port = brokers.bootstrap.partition(":")[2]
    # The driver has these time limits, too, and a busy machine needs some seconds for its first call.
    quick = {"default__api__timeout__ms": "20000", "request__timeout__ms": "10000"}
    properties = write_properties(tmp_path, f"localhost:{port}", **quick)
    settings = {
        "spark.executor.extraJavaOptions": f"-Djdk.net.hosts.file={hosts}",
        "spark.task.maxFailures": "1",
        "spark.network.timeout": "12s",
        "spark.network.timeoutInterval": "6s",
        "spark.executor.heartbeatInterval": "3s",
    }
    group = ("--group", "cl-left", "--output", (tmp_path / "out").as_uri())
    done = job("process_group_backlog", "--kafka-properties", str(properties), *group, settings=settings)
    assert done.returncode == 1
    said = last_line(done)
    assert said.startswith("process_group_backlog: error: Spark failed: ")
    assert "the executors do not reach the brokers, or too slowly: let the executors'" in said
    assert "Nothing was committed" in said
    assert committed(brokers.bootstrap, "cl-left", ("cl-t", 0)) == [2]


def test_a_connector_that_only_the_driver_has_is_told(
    job: Job, jars: str, brokers: KafkaCluster, tmp_path: Path
) -> None:
    properties = write_properties(tmp_path, brokers.bootstrap)
    group = ("--group", "cl-left", "--output", (tmp_path / "out").as_uri())
    only_here = ("--driver-class-path", jars.replace(",", ":"))
    done = job("process_group_backlog", "--kafka-properties", str(properties), *group, options=only_here)
    assert done.returncode == 1
    assert "the executors do not have the Kafka connector" in last_line(done)
    assert "--packages or --jars" in last_line(done)


@pytest.mark.safety
def test_an_output_that_executors_would_write_to_disks_of_their_own_is_refused(
    job: Job, brokers: KafkaCluster, tmp_path: Path
) -> None:
    """Each process has another working folder, as each machine has another disk."""
    (tmp_path / "mine.py").write_text("def same(records): return records\n")
    arguments = ("--kafka-properties", str(write_properties(tmp_path, brokers.bootstrap)), "--group", "cl-left")
    transform = ("--transform", "mine:same", "--output", "file:///proc/self/cwd/out")
    done = job("process_group_backlog", *arguments, *transform)
    assert done.returncode == 1, done.stdout
    assert "error: file:///proc/self/cwd/out is on the driver's own disk: the executors do not see" in last_line(done)
    assert committed(brokers.bootstrap, "cl-left", ("cl-t", 0)) == [2]
