"""Measure judge_staleness at size: made-up histories, judged by spark-submit as a user would, beside DuckDB.

What was decided is checked against what was made up, so that a fast wrong answer is no answer.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_kafka_groups.spark.bundle import APPLICATION
from tests.bench_spark import plain_sql
from tests.bench_spark.processes import running
from tests.histories.lake import CLUSTER, file_of, write_manifest
from tests.histories.shorthand import ARROW_SCHEMA, START, snapshot_id

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The options of the JVM of most runs, Spark's floor and plain SQL included: C1 and the serial collector."""

IDLE_FROM = 4
"""One group in four stands still, one in ten is never Empty; all others commit in every hour."""


def stale(groups: int) -> int:
    """Return how many groups are stale in a history: those that stand still, of which none has members."""
    return len(range(0, groups, IDLE_FROM))


def write_history(base: Path, groups: int, partitions: int, snapshots: int, *, files: int = 1) -> None:
    """Write the history, whose snapshots have so many files."""
    rows = groups * partitions
    group = np.repeat(np.arange(groups), partitions)
    idle, live = group % IDLE_FROM == 0, group % 10 == 1
    random = np.random.default_rng(1)
    offset = random.integers(0, 10**9, rows)
    columns: dict[str, Any] = {
        "group_id": pa.array([f"service-{number:06d}" for number in range(groups)]).take(pa.array(group)),
        "state": pa.array(np.where(live, "Stable", "Empty")),
        "members": pa.array(np.where(live, 3, 0), pa.int32()),
        "coordinator": pa.array(group % 3, pa.int32()),
        "topic": pa.array([f"topic-{number:03d}" for number in range(100)]).take(pa.array(group % 100)),
        "partition": pa.array(np.tile(np.arange(partitions), groups), pa.int32()),
    }
    for number in range(snapshots):
        name = snapshot_id(number)
        offset = offset + np.where(idle, 0, random.integers(1, 10_000, rows))
        at = START + timedelta(hours=number)
        constant = {"cluster": CLUSTER, "run_id": name, "group_type": "classic", "protocol_type": "consumer"}
        columns |= {key: pa.repeat(pa.scalar(value), rows) for key, value in constant.items()}
        columns |= {
            "observed_at": pa.repeat(pa.scalar(at, pa.timestamp("us", tz="UTC")), rows),
            "committed_offset": pa.array(offset, pa.int64()),
            "leader_epoch": pa.repeat(pa.scalar(5, pa.int32()), rows),
            "metadata": pa.repeat(pa.scalar(""), rows),
            "log_start": pa.repeat(pa.scalar(0, pa.int64()), rows),
            "log_end": pa.array(offset + random.integers(0, 1000, rows), pa.int64()),
            "error": pa.nulls(rows, pa.string()),
        }
        folder = base / CLUSTER / "data" / name
        folder.mkdir(parents=True)
        missing = {field.name: pa.nulls(rows, field.type) for field in ARROW_SCHEMA if field.name not in columns}
        named = columns | missing
        table = pa.table([named[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)
        entries, size = [], -(-groups // files) * partitions
        for number, part in enumerate(table.slice(at, size) for at in range(0, rows, size)):
            written = folder / f"part-{number:05}.parquet"
            pq.write_table(part, written, compression="zstd", row_group_size=131_072)
            entries.append(file_of(base, name, part.num_rows, written.name))
        write_manifest(base, name, rows, groups=groups, files=entries)


class Run(NamedTuple):
    """One run of the job: its summary, seconds from submit to end, processor time, and peak memory of its processes.

    :param driver_mb: the peak of the driver's Python alone.
    """

    summary: dict[str, Any]
    wall: float
    cpu: float
    peak_mb: float
    driver_mb: float = 0.0


def run_job(
    base: Path | str,
    min_idle: int,
    cores: int,
    more: Sequence[str] = (),
    *,
    one_machine: bool = False,
    java: str = QUICK,
    conf: Mapping[str, str] | None = None,
) -> Run:
    """Run the job as a user would.

    :param base: a folder, or a URI.
    :param one_machine: in one process, without Spark. Default: by spark-submit.
    """
    uri = base if isinstance(base, str) else base.as_uri()
    job = ["judge_staleness", "--base", uri, "--cluster", CLUSTER, "--min-idle-seconds", str(min_idle), *more]
    output, run = submit(None if one_machine else APPLICATION, job, cores, java=java, conf=conf)
    summary = [line for line in output.splitlines() if line.startswith('{"job"')][-1]  # Java may warn after it
    return run._replace(summary=json.loads(summary))


def submit(
    application: Path | None,
    arguments: Sequence[str] = (),
    cores: int = 2,
    *,
    java: str = QUICK,
    conf: Mapping[str, str] | None = None,
) -> tuple[str, Run]:
    """Run spark-submit to its end, and return what the job printed and what it took, without a summary.

    :param application: what is submitted; ``None`` for ``airflow-kafka-groups``, without Spark.
    :param java: options of the JVM; none for Java's own choice.
    :param conf: properties of Spark. Default: none but the bench's own.
    """
    settings = ["--master", f"local[{cores}]", "--driver-memory", "2g", "--conf", "spark.ui.enabled=false"]
    settings += ["--driver-java-options", java] if java else []
    settings += [word for name, value in (conf or {}).items() for word in ("--conf", f"{name}={value}")]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if application is None:
        command = [sys.executable, "-m", "tests.bench_spark.one_process", *arguments]
    else:
        program = shutil.which("spark-submit", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        assert program, "spark-submit comes with pyspark"
        command = [program, *settings, str(application), *arguments]
    peak, driver, started, used = 0.0, 0.0, time.monotonic(), children_seconds()
    seen: dict[int, int] = {}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as job,
    ):
        done = threading.Event()

        def watch() -> None:
            nonlocal peak, driver
            while not done.wait(0.2):
                peak = max(peak, resident_megabytes(job.pid))
                for pid, fields in running():
                    if int(fields[3]) == job.pid:
                        seen[pid] = int(fields[11]) + int(fields[12])
                        # Nobody waits for Python's workers, so their time is not in that of ended children.
                        if application is not None and is_driver(pid, application):
                            driver = max(driver, int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20)

        watcher = threading.Thread(target=watch)
        watcher.start()
        output, _ = job.communicate()
        done.set()
        watcher.join()
        if job.returncode:
            errors.seek(0)
            sys.exit(f"{errors.read()[-4000:]}\n{output}\nthe job ended with exit code {job.returncode}")
    cpu = max(children_seconds() - used, sum(seen.values()) / os.sysconf("SC_CLK_TCK"))
    return output, Run({}, time.monotonic() - started, cpu, peak, driver)


def is_driver(pid: int, application: Path) -> bool:
    """Return whether a process is the Python that runs an application."""
    with suppress(OSError):
        program, *words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return "python" in program and str(application) in words[:1]
    return False


class Runs(NamedTuple):
    """The runs of one measure, and the size of the snapshots' rows."""

    from_rows: Run
    from_observations: Run
    added: Run
    parquet_mb: int


def children_seconds() -> float:
    """Return the processor time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def resident_megabytes(session: int) -> float:
    """Add up what the processes of a session hold in memory.

    A child between fork and exec, of which Hadoop's file system starts one for each file that it writes, has its
    parent's memory: it is as large to the byte, and not counted.
    """
    sizes: dict[int, tuple[int, int, int]] = {}
    for pid, fields in running():
        if int(fields[3]) == session:
            sizes[pid] = int(fields[1]), int(fields[20]), int(fields[21])
    pages = sum(held for parent, size, held in sizes.values() if parent not in sizes or sizes[parent][1] != size)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(
    base: Path,
    *,
    groups: int,
    partitions: int,
    snapshots: int,
    cores: int = 2,
    one_machine: bool = False,
    java: str = QUICK,
) -> Runs:
    """Make a history up and judge it: from its rows, then from its observations, then with one more snapshot.

    :param base: an empty folder.
    :param snapshots: how many to judge by first; one more is written.
    :param one_machine: run the job in one process, without Spark. Default: by spark-submit.
    """
    write_history(base, groups, partitions, snapshots + 1)
    before, last = snapshot_id(snapshots - 1), snapshot_id(snapshots)
    run = partial(run_job, base, cores=cores, one_machine=one_machine, java=java)
    from_rows = run((snapshots - 1) * 3600, more=["--snapshot-id", before])
    from_observations = run((snapshots - 1) * 3600, more=["--snapshot-id", before])
    added = run(snapshots * 3600, more=["--snapshot-id", last])
    for done, reduced in ((from_rows, snapshots), (from_observations, 0), (added, 1)):
        assert done.summary["groups"] == groups
        assert done.summary["snapshots_reduced"] == reduced, done.summary
        assert done.summary["verdicts"]["stale"] == stale(groups), done.summary["verdicts"]
    megabytes = sum(path.stat().st_size for path in (base / CLUSTER / "data").rglob("*.parquet")) / 2**20
    return Runs(from_rows, from_observations, added, round(megabytes))


def with_plain_sql(base: Path, *, groups: int, snapshots: int, cores: int = 2) -> Run:
    """Run plain Spark SQL for the heart of the same question on the same files."""
    seconds = (snapshots - 1) * 3600
    for extra in sorted((base / CLUSTER / "data").iterdir())[snapshots:]:
        shutil.rmtree(extra)
    output, run = submit(Path(plain_sql.__file__), [f"{base}/{CLUSTER}/data", str(seconds)], cores)
    assert int(output.splitlines()[-1]) == stale(groups), output
    return run


def with_duckdb(base: Path, *, groups: int, snapshots: int, cores: int) -> float:
    """Return the seconds that DuckDB takes for the heart of the same question on the same files, its start included."""
    names = [snapshot_id(number) for number in range(snapshots)]
    files = [str(path) for name in names for path in (base / CLUSTER / "data" / name).glob("*.parquet")]
    began = time.monotonic()
    program = [sys.executable, "-m", "tests.bench_spark.duck", str(cores), str((snapshots - 1) * 3600)]
    done = subprocess.run(program, input=json.dumps(files), capture_output=True, text=True, check=True)
    assert int(done.stdout) == stale(groups), done.stdout
    return round(time.monotonic() - began, 2)
