"""One more snapshot, read, checked and carried on in one Spark job: what is damaged is found there all the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Observation, SparkSession

from airflow_kafka_groups.contracts.formats import STATE_FORMAT
from airflow_kafka_groups.spark.errors import JobError, SnapshotError
from airflow_kafka_groups.spark.ledger import snapshots
from airflow_kafka_groups.spark.schemas import VERDICT_SCHEMA
from airflow_kafka_groups.spark.staleness import judging, output
from tests.spark.histories import hour, seen, snapshot_id
from tests.spark.lake import CLUSTER, write_data, write_manifest, write_snapshot
from tests.spark.test_state import judge, verdicts, write_hour

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def first_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("begun")
    for number in range(3):
        write_hour(base, number)
    assert judge(spark, base, "incremental")["snapshots_used"] == 3
    return base


@pytest.fixture
def begun(first_run: Path, tmp_path: Path) -> Path:
    """Return a base with the hours 0 to 2, judged; the state of hour 2 is there."""
    return Path(shutil.copytree(first_run, tmp_path / "begun"))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what was carried on in one job, and how often rows had to be counted by a job of their own."""
    called: list[str] = []
    for module, name in ((judging, "_carried_at_once"), (judging, "check_rows"), (snapshots, "check_rows")):
        whole: Callable[..., object] = getattr(module, name)

        def noted(*arguments: object, name: str = name, whole: Callable[..., object] = whole) -> object:
            called.append(name)
            return whole(*arguments)

        monkeypatch.setattr(module, name, noted)
    return called


def test_one_more_snapshot_is_judged_as_by_the_whole_history(
    spark: SparkSession, begun: Path, at_once: list[str]
) -> None:
    write_hour(begun, 3)
    retention = ("--offsets-retention-minutes", "600")
    carried = judge(spark, begun, "incremental", *retention)
    assert at_once == ["_carried_at_once"]
    assert (carried["why_full"], carried["snapshots_read"], carried["groups"]) == ("", 1, 3)
    assert (carried["oldest_observation"], carried["newest_observation"]) == (
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T03:00:00.000000Z",
    )
    by_state = verdicts(begun, 3)
    assert [row["offsets_expire_by"] is None for row in by_state] == [False, False, False]
    assert judge(spark, begun, "check", *retention)["why_full"] == ""
    assert verdicts(begun, 3) == by_state
    whole = judge(spark, begun, "full", *retention)
    assert verdicts(begun, 3) == by_state
    assert list(by_state[0]) == VERDICT_SCHEMA.names
    for name in ("verdicts", "lag", "lag_by_verdict", "groups", "first_snapshot", "snapshots_used"):
        assert carried[name] == whole[name]


def spoil_rows(base: Path) -> str:
    write_hour(base, 3)
    write_manifest(base, snapshot_id(3), 4)
    return "3 rows where its manifest says 4"


def spoil_bytes(base: Path) -> str:
    write_hour(base, 3)
    data = base / CLUSTER / "data" / snapshot_id(3) / "part-00000.parquet"
    content = data.read_bytes()
    data.write_bytes(content[:4] + b"\0" * 400 + content[404:])  # its footer still reads
    return "cannot be read"


def spoil_columns(base: Path) -> str:
    rows = seen(3)
    rows[0]["state"] = None
    write_snapshot(base, 3, rows)
    return "1 rows lack"


def empty(base: Path) -> str:
    write_data(base, snapshot_id(3), [])
    write_manifest(base, snapshot_id(3), 1)
    return "0 rows where its manifest says 1"


def of_another(base: Path) -> str:
    write_data(base, snapshot_id(3), seen(2))
    write_manifest(base, snapshot_id(3), 1)
    return f"rows of snapshot '{snapshot_id(2)}' in the folder of another one"


@pytest.mark.parametrize("spoil", [spoil_rows, spoil_bytes, spoil_columns, empty, of_another])
def test_a_damaged_snapshot_stops_the_job_and_leaves_nothing_that_counts(
    spark: SparkSession, begun: Path, at_once: list[str], spoil: Callable[[Path], str]
) -> None:
    problem = spoil(begun)
    with pytest.raises(SnapshotError, match=problem):
        judge(spark, begun, "incremental")
    assert at_once[0] == "_carried_at_once"
    assert not list((begun / CLUSTER / "verdicts").glob(f"{snapshot_id(3)}*"))
    assert not list((begun / CLUSTER / "state").glob(f"{snapshot_id(3)}*"))


@pytest.mark.parametrize("damage", ["cut off", "no rows", "other rows", "gone"])
def test_a_damaged_state_is_not_used_and_the_history_is_read(
    spark: SparkSession, begun: Path, at_once: list[str], damage: str
) -> None:
    (state,) = (begun / CLUSTER / "state" / snapshot_id(2)).glob("*.parquet")
    state.with_name(f".{state.name}.crc").unlink()
    table = pq.read_table(state)
    if damage == "cut off":
        state.write_bytes(state.read_bytes()[:-20])
    elif damage == "gone":
        state.unlink()
    else:
        fewer = table.slice(0, 0 if damage == "no rows" else 2)
        pq.write_table(fewer, state, use_deprecated_int96_timestamps=True)  # as Spark writes them
    write_hour(begun, 3)
    summary = judge(spark, begun, "incremental")
    assert at_once[0] == "_carried_at_once"
    assert {"cut off": "cannot be read"}.get(damage, "has other rows than were written") in summary["why_full"]
    assert (summary["snapshots_read"], summary["verdicts"]["stale"]) == (4, 1)
    write_hour(begun, 4)
    assert judge(spark, begun, "incremental")["why_full"] == ""


def test_a_state_of_an_older_form_is_made_anew(spark: SparkSession, begun: Path) -> None:
    manifest = begun / CLUSTER / "state" / f"{snapshot_id(2)}.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 1}))
    manifest.with_name(f".{manifest.name}.crc").unlink()
    write_hour(begun, 3)
    summary = judge(spark, begun, "incremental")
    assert f"has format 1, this job reads {STATE_FORMAT}" in summary["why_full"]
    assert (summary["snapshots_read"], summary["verdicts"]["stale"]) == (4, 1)


def test_a_count_that_was_doubled_is_counted_again_and_hides_nothing(
    spark: SparkSession, begun: Path, at_once: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Doubled(Observation):
        """Counts as it would if Spark had run a task twice."""

        @property
        def get(self) -> dict[str, Any]:
            found: dict[str, Any] = super().get
            return found | {name: found[name] * 2 for name in ("rows", "groups")}

    monkeypatch.setattr(snapshots, "Observation", Doubled)
    write_hour(begun, 3)
    assert judge(spark, begun, "incremental")["groups"] == 3
    assert at_once == ["_carried_at_once", "check_rows"]
    write_hour(begun, 4)
    write_manifest(begun, snapshot_id(4), 6)  # half of its rows are lost, and what is left is counted twice
    with pytest.raises(JobError, match="has 3 groups, the snapshot has 6"):
        judge(spark, begun, "incremental")
    assert not list((begun / CLUSTER / "verdicts").glob(f"{snapshot_id(4)}.json"))
    assert not list((begun / CLUSTER / "state").glob(f"{snapshot_id(4)}.json"))


def test_rows_on_storage_are_those_of_the_footers(spark: SparkSession, tmp_path: Path) -> None:
    part = write_data(tmp_path, snapshot_id(0), [*seen(0), *seen(0, group="h", at=hour(0))])
    (part.parent / "_SUCCESS").write_text("")
    (part.parent / ".part-00000.parquet.crc").write_text("")
    assert output.rows_on_storage(spark, str(part.parent)) == 2
