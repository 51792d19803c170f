"""Measure the Spark jobs: ``make bench-spark``, or ``python -m tests.bench_spark [--quick] [--only NAME …]``.

Writes ``build/bench/spark.json``: flat keys, medians. What is written is kept when only some parts are measured again.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from airflow_kafka_groups.spark.bundle import APPLICATION
from tests.bench_spark import count_ten, floor, translating
from tests.bench_spark.processes import executors_of, files_read
from tests.bench_spark.staleness import (
    QUICK,
    Runs,
    measure,
    run_job,
    stale,
    submit,
    with_duckdb,
    with_plain_sql,
    write_history,
)
from tests.histories.lake import CLUSTER
from tests.lab.cluster import KafkaCluster
from tests.lab.jars import REPOSITORY
from tests.lab.machine.hidden import without_hypothesis
from tests.lab.servers.object_store import BUCKET, ObjectStore
from tests.lab.spark.s3a import settings_of
from tests.lab.spark.standalone import SparkCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

OUTPUT = REPOSITORY / "build" / "bench" / "spark.json"
Results = dict[str, Any]


def start(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure the smallest job that one can submit, and Spark's floor: what every other job takes, too."""
    for name, program in {"start": count_ten, "floor": floor}.items():
        for suffix, java in (("", QUICK), (".defaults", "")):
            yield _submitted(name, Path(str(program.__file__)), repeat, java, suffix)


def _submitted(name: str, program: Path, repeat: int, java: str = QUICK, suffix: str = "") -> Results:
    runs = [submit(program, java=java)[1] for _ in range(repeat)]
    return {
        f"{name}.seconds{suffix}": round(statistics.median(run.wall for run in runs), 2),
        f"{name}.cpu_seconds{suffix}": round(statistics.median(run.cpu for run in runs), 1),
    }


def staleness(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure judge_staleness in tasks at three sizes, beside Spark's floor, plain Spark SQL and DuckDB."""
    found = _submitted("floor", Path(str(floor.__file__)), repeat)
    for groups, snapshots in ((1_000, 4),) if quick else ((10_000, 48), (10_000, 240), (10_000, 480)):
        with tempfile.TemporaryDirectory() as folder:
            base, rows = Path(folder), f"judge_staleness.{groups * 20 * snapshots}_rows"
            runs = measure(base, groups=groups, partitions=20, snapshots=snapshots)
            plain = with_plain_sql(base, groups=groups, snapshots=snapshots)
            duck = [with_duckdb(base, groups=groups, snapshots=snapshots, cores=2) for _ in range(repeat)]
        yield found | {
            **_measured(rows, runs, ""),
            f"{rows}.seconds_above_floor": round(runs.from_rows.wall - found["floor.seconds"], 2),
            f"{rows}.ratio_spark_sql": round(runs.from_rows.cpu / plain.cpu, 2),
            f"{rows}.spark_sql_seconds": round(plain.wall, 2),
            f"{rows}.spark_sql_cpu_seconds": round(plain.cpu, 1),
            f"{rows}.driver_python_mb": round(runs.from_rows.driver_mb),
            f"{rows}.duckdb_seconds": statistics.median(duck),
            f"{rows}.parquet_mb": runs.parquet_mb,
            "judge_staleness.incremental.seconds": round(runs.added.wall, 2),
            "judge_staleness.incremental.seconds_above_floor": round(runs.added.wall - found["floor.seconds"], 2),
        }
    groups, snapshots = (1_000, 4) if quick else (10_000, 48)
    with tempfile.TemporaryDirectory() as folder:
        runs = measure(Path(folder), groups=groups, partitions=20, snapshots=snapshots, java="")
    yield _measured(f"judge_staleness.{groups * 20 * snapshots}_rows", runs, ".defaults")


def one_machine(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure judge_staleness in one process, without Spark."""
    groups, snapshots = (1_000, 4) if quick else (10_000, 48)
    with tempfile.TemporaryDirectory() as folder:
        runs = measure(Path(folder), groups=groups, partitions=20, snapshots=snapshots, one_machine=True)
    yield _measured(f"one_machine.{groups * 20 * snapshots}_rows", runs, "")


def growth(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure judge_staleness on 90 days of hourly snapshots, and on one of twelve million rows."""
    for groups, partitions, snapshots in ((1_000, 1, 24),) if quick else ((10_000, 1, 2_160), (600_000, 20, 2)):
        with tempfile.TemporaryDirectory() as folder:
            runs = measure(Path(folder), groups=groups, partitions=partitions, snapshots=snapshots)
        yield _measured(f"judge_staleness.{groups * snapshots}_observations", runs, "")


def memory(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure judge_staleness on a snapshot of twelve million rows, by two executors of 512 MB."""
    groups = 10_000 if quick else 600_000
    with tempfile.TemporaryDirectory() as folder, SparkCluster(cores=2, memory_mb=1200) as cluster:
        base = Path(folder)
        write_history(base, groups, 20, 2, files=-(-groups * 20 // 1_000_000))
        began = time.monotonic()
        summary = _judged(cluster, base, 2, {"spark.executor.memory": "512m", "spark.executor.cores": "1"})
        seconds = time.monotonic() - began
        assert summary["verdicts"]["stale"] == stale(groups), summary
    yield {f"memory.{groups * 20}_rows_of_a_snapshot.seconds_by_512_mb": round(seconds, 2)}


def s3a(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure judge_staleness on an S3 server, on the same cores and written in Python, beside the local disk."""
    groups, snapshots = (1_000, 4) if quick else (10_000, 48)
    with ObjectStore() as store:
        base = store.folder / "s3" / BUCKET / "history"
        write_history(base, groups, 20, snapshots)
        run = partial(run_job, min_idle=(snapshots - 1) * 3600, cores=2)
        local = run(base)
        shutil.rmtree(base / CLUSTER / "tables")
        shutil.rmtree(base / CLUSTER / "summaries")
        store.restart()  # with what is in its folder
        remote = run(f"s3a://{BUCKET}/history", conf=settings_of(store))
        assert remote.summary["verdicts"] == local.summary["verdicts"], remote.summary
    rows = f"s3a.{groups * 20 * snapshots}_rows"
    yield {
        f"{rows}.seconds": round(remote.wall, 2),
        f"{rows}.local_seconds": round(local.wall, 2),
        f"{rows}.ratio_local": round(remote.wall / local.wall, 2),
    }


def _judged(cluster: SparkCluster, base: Path, snapshots: int, settings: dict[str, str]) -> Results:
    done = cluster.submit(
        APPLICATION,
        *("judge_staleness", "--base", base.as_uri(), "--cluster", CLUSTER),
        *("--min-idle-seconds", str((snapshots - 1) * 3600)),
        settings=settings,
        timeout=900,
    )
    if done.returncode:
        sys.exit(f"{done.stderr[-4000:]}\n{done.stdout[-2000:]}")
    found: Results = json.loads([line for line in done.stdout.splitlines() if line.startswith('{"job"')][-1])
    return found


def executors(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure judge_staleness by one and two executors, each pinned to a core, on a standalone cluster."""
    groups, snapshots = (1_000, 8) if quick else (10_000, 480)
    rows, walls = f"judge_staleness.{groups * 20 * snapshots}_rows", dict[int, float]()
    for count in (1, 2):
        with tempfile.TemporaryDirectory() as folder, SparkCluster(cores=count, memory_mb=1200) as cluster:
            base, logs = Path(folder), Path(folder) / "logs"
            logs.mkdir()
            write_history(base, groups, 20, snapshots)
            pinned = threading.Event()
            pinning = threading.Thread(target=_pin, args=(cluster, pinned))
            pinning.start()
            began = time.monotonic()
            settings = {
                "spark.cores.max": str(count),
                "spark.executor.cores": "1",
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": logs.as_uri(),
            }
            try:
                summary = _judged(cluster, base, snapshots, settings)
            finally:
                pinned.set()
                pinning.join()
            walls[count] = time.monotonic() - began
            assert (summary["verdicts"]["stale"], summary["snapshots_reduced"]) == (stale(groups), snapshots), summary
            read = files_read(logs)
            shutil.copytree(logs, OUTPUT.parent / f"{rows}.{count}_executors.events", dirs_exist_ok=True)
        yield {f"{rows}.{count}_executors.seconds": round(walls[count], 2)}
    yield {
        f"{rows}.ratio_two_executors_one": round(walls[2] / walls[1], 2),
        f"{rows}.rows_read_by_tasks": read * groups * 20,  # a file is a snapshot here, whose rows a task counts
    }


def _pin(cluster: SparkCluster, ended: threading.Event) -> None:
    """Pin each executor, with its Python, to a core of its own."""
    cores, executors = sorted(os.sched_getaffinity(0)), list[int]()
    while not ended.wait(0.2):
        for pid in executors_of(cluster):
            if pid not in executors:
                executors.append(pid)
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), {cores[len(executors) % len(cores)]})


def _measured(name: str, runs: Runs, suffix: str) -> Results:
    return {
        f"{name}.seconds{suffix}": round(runs.from_rows.wall, 2),
        f"{name}.cpu_seconds{suffix}": round(runs.from_rows.cpu, 1),
        f"{name}.job_seconds{suffix}": runs.from_rows.summary["seconds"],
        f"{name}.peak_mb{suffix}": round(runs.from_rows.peak_mb),
        f"{name}.observations_seconds{suffix}": round(runs.from_observations.wall, 2),
        f"{name}.observations_cpu_seconds{suffix}": round(runs.from_observations.cpu, 1),
        f"{name}.observations_peak_mb{suffix}": round(runs.from_observations.peak_mb),
        f"{name}.one_more_seconds{suffix}": round(runs.added.wall, 2),
        f"{name}.one_more_cpu_seconds{suffix}": round(runs.added.cpu, 1),
    }


def decoding(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure commit_history: a tenth of the records, all of them, one core."""
    sizes = ((120_000, 2),) if quick else ((120_000, 2), (1_200_000, 2), (1_200_000, 1))
    for records, cores in sizes:
        taken = _program("decoding", "--records", str(records), "--cores", str(cores), "--repeat", str(repeat))
        found: Results = {}
        suffix = "" if cores == 2 else ".local1"
        for form, samples in taken.items():
            name, (seconds, used) = f"commit_history.{records}.{form}", zip(*samples, strict=True)
            found[f"{name}.records_per_second{suffix}"] = round(records / statistics.median(seconds))
            found[f"{name}.records_per_cpu_second{suffix}"] = round(records / statistics.median(used))
        if records == 1_200_000 and cores == 2:
            found["commit_history.records_per_second"] = found[f"commit_history.{records}.arrow.records_per_second"]
        yield found


def source(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure the data source beside the core on three brokers: a tenth of the groups, all of them, one core."""
    sizes = ((5_000, 2),) if quick else ((5_000, 2), (50_000, 2), (50_000, 1))
    with KafkaCluster(brokers=3, full_jit=True, heap_mb=768) as cluster:
        create_topics(cluster.bootstrap, {"bench": 20})
        for groups in sorted({groups for groups, _ in sizes}):
            names = [f"read{groups}-{number:06d}" for number in range(groups)]
            seed_groups(cluster.bootstrap, names, {("bench", partition): 7 for partition in range(20)})
        for groups, cores in sizes:
            arguments = (cluster.bootstrap, f"read{groups}-", "--cores", str(cores), "--repeat", str(repeat))
            taken = _program("reading", *arguments)
            found: Results = {}
            suffix = "" if cores == 2 else ".local1"
            for name, key in (("source", ""), ("same", "same_columns_"), ("core", "core_"), ("idle", "spark_")):
                seconds, used = zip(*taken[name], strict=True)
                found[f"source.{groups}.{key}seconds{suffix}"] = statistics.median(seconds)
                found[f"source.{groups}.{key}cpu_seconds{suffix}"] = statistics.median(used)
            found |= {f"source.{groups}.{name}_seconds{suffix}": taken[name] for name in ("start", "first")}
            read, core, idle = (found[f"source.{groups}.{key}seconds{suffix}"] for key in ("", "core_", "spark_"))
            found[f"source.{groups}.ratio_core{suffix}"] = round(read / core, 2)
            found[f"source.{groups}.ratio_core_after_spark{suffix}"] = round((read - idle) / core, 2)
            same = found[f"source.{groups}.same_columns_seconds{suffix}"]
            found[f"source.{groups}.ratio_core_same_columns{suffix}"] = round(same / core, 2)
            yield found


def stream(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure the stream of changes on one broker: 50 groups with 150 commits, and as many as a task reads at most."""
    nothing = [_program("streaming", "", "", "--idle")["first"][0] for _ in range(repeat)]
    yield {"stream.idle.seconds": statistics.median(nothing)}
    with KafkaCluster(brokers=1, full_jit=True, heap_mb=768) as cluster:
        up: list[float] = []
        for number in range(repeat):
            up += _program("streaming", cluster.bootstrap, f"up{number}-", "--repeat", "1", "--session-up")["first"]
        yield {"stream.150_rows.session_up_seconds": statistics.median(up)}
        for groups in (50,) if quick else (50, 10_000):
            arguments = (cluster.bootstrap, f"stream{groups}-", "--groups", str(groups), "--repeat", str(repeat))
            taken = _program("streaming", *arguments)
            rows = f"stream.{groups * 3}_rows"
            yield {
                f"{rows}.seconds": taken["first"][0],
                f"{rows}.cpu_seconds": taken["first_cpu"][0],
                f"{rows}.moved_seconds": statistics.median(taken["moved"]),
                f"{rows}.empty_seconds": statistics.median(taken["empty"]),
            }


def translation(quick: bool, repeat: int) -> Iterator[Results]:
    """Measure the translation of offsets by payload between two brokers: by translate_offsets, and in one process."""
    records, places = (10_000, 5_000) if quick else (100_000, 200_000)
    with (
        KafkaCluster(brokers=1, full_jit=True, heap_mb=512) as source,
        KafkaCluster(brokers=1, full_jit=True, heap_mb=512) as target,
        tempfile.TemporaryDirectory() as folder,
    ):
        mirrored = translating.Mirrored(source.bootstrap, target.bootstrap, records, places)
        alone = mirrored.in_one_process()
        job = mirrored.by_spark(Path(folder))
    name = f"translate_offsets.{places}_offsets"
    yield {f"{name}.seconds": round(job, 1), f"{name}.one_process_seconds": round(alone, 1)}


PARTS: dict[str, Callable[[bool, int], Iterator[Results]]] = {
    "decoding": decoding,
    "executors": executors,
    "growth": growth,
    "memory": memory,
    "one_machine": one_machine,
    "s3a": s3a,
    "source": source,
    "start": start,
    "staleness": staleness,
    "stream": stream,
    "translation": translation,
}


def _program(name: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"tests.bench_spark.{name}", *arguments]
    with tempfile.TemporaryDirectory() as hidden:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((without_hypothesis(Path(hidden)), str(REPOSITORY)))}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=environment)
    if done.returncode:
        sys.exit(f"{done.stderr[-4000:]}\n{name} ended with exit code {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench_spark", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only: a check of the bench itself")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    parser.add_argument("--repeat", type=int, default=3, help="samples of each short measure (default 3)")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args(argv)
    found: Results = json.loads(options.output.read_text()) if options.output.is_file() else {}
    found["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        for measured in PARTS[name](options.quick, options.repeat):
            found |= {**measured, f"{name}.load_average": round(os.getloadavg()[1], 1)}
            options.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
            print("\n".join(f"{key} = {value}" for key, value in measured.items()), flush=True)
    print(f"written to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
