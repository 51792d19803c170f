"""Many clusters in one run: which they are, what may be asked of several, and that one that fails holds no other up."""

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import ArgumentError, SnapshotError
from airflow_kafka_groups.judge import workers
from airflow_kafka_groups.judge.staleness.observation_store import ObservationStore
from airflow_kafka_groups.judge.staleness.one_process import OneProcess
from airflow_kafka_groups.judge.workers import CALLERS
from airflow_kafka_groups.observe.history.fleet import clusters_in, fleet_summary, of_each_cluster
from airflow_kafka_groups.spark.jobs import judge_staleness
from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run_here
from airflow_kafka_groups.storage.file_storage import LocalStorage
from tests.histories.judged import hour_rows
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, snapshot_id

NAMES = [f"c{number}" for number in range(9)]


class Remote(LocalStorage):
    """A storage whose requests are waited for."""

    is_local = False


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Return a folder of clusters, one of which has a manifest that cannot be read."""
    base = tmp_path / "base"
    base.mkdir()
    for number, name in enumerate(NAMES):
        for hour in range(2 + number % 3):
            write_snapshot(tmp_path, hour, hour_rows(hour), cluster=name)
        (tmp_path / CLUSTER).rename(base / name)
    (base / "c4" / "manifests" / f"{snapshot_id(0)}.json").write_text("{")
    return base


def judged(base: Path, storage: LocalStorage) -> dict[str, Any]:
    return run_here(lambda _: storage, parse_arguments(given(base, "*")))


def written(base: Path) -> dict[str, Any]:
    """Return what a judgement has written, without the times that it took and the names that it made up."""
    found: dict[str, Any] = {}
    for path in filter(Path.is_file, base.rglob("*")):
        name = str(path.relative_to(base))
        if "/tables/verdicts/" in name:
            found[name.rpartition("/")[0]] = pq.read_table(path).to_pylist()
        elif "/summaries/verdicts/" in name:
            found[name] = {**json.loads(path.read_text()), "seconds": 0, "files": 1, "output": ""}
        else:
            found[name] = path.read_bytes()
    return found


def given(base: Path, *clusters: str) -> list[str]:
    named = [word for cluster in clusters for word in ("--cluster", cluster)]
    return ["--base", base.as_uri(), *named, "--min-idle-seconds", str(HOUR)]


def test_an_error_that_nobody_foresaw_holds_no_other_up(tmp_path: Path) -> None:
    def judge(cluster: str) -> dict[str, Any]:
        if cluster == "a":
            raise RuntimeError("out of luck")
        assert warned == ["cluster a failed: RuntimeError: out of luck"], "not only when all are judged"
        return {"snapshot_id": "s", "groups": 1, "verdicts": {"stale": 1}, "lag": 2, "warnings": [], "seconds": 0.1}

    warned = list[str]()
    done, failed = of_each_cluster(LocalStorage(), tmp_path.as_uri(), ["a", "b"], judge, warned.append)
    assert failed == {"a": "RuntimeError: out of luck"}
    assert (list(done), fleet_summary(done, failed)["groups"]) == (["b"], 1)


def test_a_folder_without_clusters_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    with pytest.raises(ArgumentError, match=r"--cluster \(got '\*'\): .* has no folder with snapshots"):
        clusters_in(LocalStorage(), tmp_path.as_uri(), ["*"])
    with pytest.raises(SnapshotError):
        run_here(lambda _: LocalStorage(), parse_arguments(given(tmp_path, "notes")))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--cluster", "b", "--output", "/o"], "--output (got '/o'): leave it out with several clusters"),
        (["--cluster", "*", "--summary", "/o"], "--summary (got '/o'): leave it out with several clusters"),
        (["--cluster", "b", "--snapshot-id", snapshot_id(0)], "leave it out with several clusters"),
        (["--cluster", "b", "--kafka-properties", "/p"], "write {cluster} where the path has the cluster's name"),
        (["--cluster", "b", "--commit-history", "/p"], "write {cluster} where the path has the cluster's name"),
        (["--cluster", "../b"], "--cluster (got '../b'): use 1 to 100 letters"),
    ],
)
def test_what_makes_sense_for_one_cluster_only_is_refused(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments([*given(tmp_path, "a"), *more])
    assert said in capsys.readouterr().err


def test_clusters_side_by_side_come_to_what_they_come_to_one_after_the_other(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with one in the middle that fails, and one that has an error that nobody foresaw."""
    shutil.copytree(fleet, tmp_path / "copy")
    judge_cluster: Callable[..., dict[str, Any]] = judge_staleness._judge_cluster
    last_of_four, lock, warned = threading.Event(), threading.Lock(), list[str]()
    running = most = 0

    def counted(*arguments: Any) -> dict[str, Any]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        try:
            if arguments[-1] == "c6":
                raise RuntimeError("out of luck")
            if waits and arguments[-1] == "c0":
                assert last_of_four.wait(30), "it is judged meanwhile"
            return judge_cluster(*arguments)
        finally:
            with lock:
                running -= 1
            if arguments[-1] == "c3":
                last_of_four.set()

    monkeypatch.setattr(judge_staleness, "_judge_cluster", counted)
    monkeypatch.setattr(judge_staleness, "warn", warned.append)
    summaries, said = list[dict[str, Any]](), list[list[str]]()
    for base, storage, waits in ((tmp_path / "copy", LocalStorage(), False), (fleet, Remote(), True)):
        summaries.append(judged(base, storage))
        said.append([*warned])
        warned.clear()
        assert most == (CALLERS if waits else 1)
    for summary in summaries:
        assert list(summary["clusters"]) == [name for name in NAMES if name not in ("c4", "c6")]
        summary["seconds"] = 0
        for each in summary["clusters"].values():
            each["seconds"] = 0
    assert summaries[0] == summaries[1]
    assert list(summaries[1]["failed"]) == ["c4", "c6"]
    assert said[0] == said[1]
    assert [text.partition(":")[0] for text in said[1]] == ["cluster c4 failed", "cluster c6 failed"]
    assert written(tmp_path / "copy") == written(fleet)


def test_one_large_cluster_is_judged_at_a_time(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MANY_GROUPS", 0)
    reduce, judge, running = OneProcess.reduce, OneProcess.judge, list[Any]()

    def begun(runner: OneProcess, store: ObservationStore) -> None:
        running.append(store.history.judged.cluster)
        time.sleep(0.01)
        reduce(runner, store)

    def ended(runner: OneProcess, *given: Any) -> Any:
        found = judge(runner, *given)
        time.sleep(0.01)
        assert len(running) == 1
        assert f"/{running.pop()}/" in given[-1]
        return found

    monkeypatch.setattr(OneProcess, "reduce", begun)
    monkeypatch.setattr(OneProcess, "judge", ended)
    assert list(judged(fleet, Remote())["failed"]) == ["c4"]


@pytest.mark.safety
def test_an_interrupt_ends_all_clusters_and_none_counts_as_judged_that_is_not(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(judge_staleness, "warn", stop)
    with pytest.raises(KeyboardInterrupt):
        judged(fleet, Remote())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("observations", "callers"))]
    assert {f"c{number}" for number in range(4)} <= {path.parts[-4] for path in fleet.glob("*/summaries/verdicts/*")}
    for path in fleet.glob("*/summaries/verdicts/*.json"):
        folder = path.parents[2] / "tables" / "verdicts" / f"snapshot_id={path.stem}"
        assert pq.read_table(folder).num_rows == json.loads(path.read_text())["groups"]
