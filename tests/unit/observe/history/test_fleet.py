"""Many clusters in one run: which they are, what may be asked of several, and that one that fails holds no other up."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ArgumentError, SnapshotError
from airflow_kafka_groups.observe.history.fleet import clusters_in, fleet_summary, of_each_cluster
from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run_here
from airflow_kafka_groups.storage.file_storage import LocalStorage
from tests.histories.shorthand import HOUR, snapshot_id


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
        (["--cluster", "b", "--snapshot-id", snapshot_id(0)], "leave it out with several clusters"),
        (["--cluster", "b", "--kafka-properties", "/p"], "write {cluster} where the path has the cluster's name"),
        (["--cluster", "../b"], "--cluster (got '../b'): use 1 to 100 letters"),
    ],
)
def test_what_makes_sense_for_one_cluster_only_is_refused(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments([*given(tmp_path, "a"), *more])
    assert said in capsys.readouterr().err
