"""The state carried on from snapshot to snapshot gives what the whole history gives; and is not used when in doubt."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.errors import JobError
from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run
from airflow_kafka_groups.spark.staleness.judging import carry
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.state_store import StateStore, differences
from airflow_kafka_groups.spark.staleness.transforms import observations, replay
from tests.spark.histories import HOUR, frame, seen, snapshot_id
from tests.spark.lake import CLUSTER, write_snapshot
from tests.spark.test_reference import INCOMPLETE, POLICIES, SNAPSHOTS, random_history, rows_of

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_a_state_carried_on_is_the_state_of_the_whole_history(spark: SparkSession, number: int) -> None:
    random, policy = Random(f"states {number}"), POLICIES[number]
    groups = {f"g{index}": random_history(random, random.choice([0.02, 0.1, 0.3])) for index in range(100)}
    rows = [row for group, history in groups.items() for seen_at in history for row in rows_of(group, seen_at)]
    observed = frame(spark, rows).transform(observations()).persist()
    ids = [snapshot_id(place) for place in range(SNAPSHOTS)]
    partly = [snapshot_id(hour_of) for hour_of in INCOMPLETE]
    whole = observed.transform(replay(policy, ids, partly)).persist()
    cut = (1, 4, 6)[number]
    begun = observed.transform(replay(policy, ids[:cut], partly[: cut - 1]))
    assert differences(whole, carry(begun, observed, ids[cut:], policy, partly[cut - 1 :])) == []
    assert differences(whole, carry(begun, observed, ids[cut:], policy)) != []
    assert whole.where("quiet").count() > 20
    assert whole.where("idle_log_start < log_start and idle_lag <> lag").count() > 5
    assert whole.where("life_lag_at < idle_lag_at").count() > 5
    assert differences(whole, begun) != []
    observed.unpersist()
    whole.unpersist()


def write_hour(base: Path, number: int) -> None:
    write_snapshot(
        base,
        number,
        [
            *seen(number, group="stale"),
            *seen(number, group="moving", offsets={("t", 0): 50 + number}),
            *(seen(number, group="new") if number > 1 else []),
        ],
    )


def judge(spark: SparkSession, base: Path, mode: str, *more: str) -> dict[str, Any]:
    arguments = ["--base", base.as_uri(), "--cluster", CLUSTER, "--min-idle-seconds", str(2 * HOUR), "--mode", mode]
    return run(spark, parse_arguments([*arguments, *more]))


def verdicts(base: Path, number: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(base / CLUSTER / "verdicts" / snapshot_id(number)).to_pylist()
    return rows


def test_an_incremental_run_reads_the_new_snapshot_only_and_judges_as_a_full_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number in (0, 1):
        write_hour(tmp_path, number)
    first = judge(spark, tmp_path, "incremental")
    assert (first["why_full"], first["snapshots_read"]) == ("there is no state yet", 2)
    write_hour(tmp_path, 2)
    write_snapshot(tmp_path, 2.5, seen(2.5), complete=False)
    write_hour(tmp_path, 3)
    carried = judge(spark, tmp_path, "incremental")
    assert (carried["why_full"], carried["snapshots_read"], carried["snapshots_used"]) == ("", 2, 4)
    assert (carried["first_snapshot"], carried["oldest_observation"]) == (snapshot_id(0), "2026-01-01T00:00:00.000000Z")
    assert carried["verdicts"]["stale"] == 1
    by_state = verdicts(tmp_path, 3)
    full = judge(spark, tmp_path, "full")
    assert by_state == verdicts(tmp_path, 3)
    same = carried.keys() - {"mode", "seconds", "snapshots_read", "skipped", "snapshots_skipped"}
    assert {name: carried[name] for name in same} == {name: full[name] for name in same}

    again = judge(spark, tmp_path, "incremental")  # from the state before, which is still there
    assert (again["why_full"], again["snapshots_read"]) == ("", 2)
    assert sorted(path.name for path in (tmp_path / CLUSTER / "state").glob("2*")) == sorted(
        name for number in (1, 3) for name in (snapshot_id(number), f"{snapshot_id(number)}.json")
    )
    assert judge(spark, tmp_path, "check")["why_full"] == ""


def test_a_state_that_does_not_fit_is_not_used_and_the_reason_is_told(spark: SparkSession, tmp_path: Path) -> None:
    for number in (0, 1):
        write_hour(tmp_path, number)
    judge(spark, tmp_path, "incremental")
    ids = [snapshot_id(number) for number in (0, 1, 2)]
    policy = StalenessPolicy(min_idle_seconds=HOUR)
    manifest = tmp_path / CLUSTER / "state" / f"{snapshot_id(1)}.json"
    written = json.loads(manifest.read_text())

    def reason(change: dict[str, Any] | None, *, listed: list[str] = ids, rules: StalenessPolicy = policy) -> str:
        manifest.write_text("{}" if change is None else json.dumps(written | change))
        manifest.with_name(f".{manifest.name}.crc").unlink(missing_ok=True)
        found = StateStore(spark, f"{tmp_path.as_uri()}/{CLUSTER}").find(listed, ids[-1], rules)
        return found if isinstance(found, str) else ""

    assert reason({}) == ""
    assert "cannot be used (TypeError)" in reason(None)
    assert "has format 2, this job reads 3" in reason({"format": 2})
    assert "are not those that its state was made of" in reason({}, listed=ids[1:])
    assert "are not those that its state was made of" in reason({}, listed=[snapshot_id(0.5), *ids])
    longer = StalenessPolicy(min_idle_seconds=HOUR, max_gap_seconds=HOUR)
    assert "--max-gap-seconds is not what" in reason({}, rules=longer)

    write_hour(tmp_path, 2)
    for change, why in (
        ({"checksum": 1}, "has other rows than were written"),
        ({"kafka_cluster_id": "x"}, "another Kafka"),
    ):
        assert reason(change) == ""
        summary = judge(spark, tmp_path, "incremental")
        assert why in summary["why_full"]
        assert (summary["snapshots_read"], summary["verdicts"]["stale"]) == (3, 1)


def test_a_check_finds_a_state_that_says_something_else(spark: SparkSession, tmp_path: Path) -> None:
    for number in (0, 1):
        write_hour(tmp_path, number)
    judge(spark, tmp_path, "incremental")
    manifest = tmp_path / CLUSTER / "state" / f"{snapshot_id(1)}.json"
    longer = spark.read.parquet(str(manifest.with_suffix(""))).withColumn("observations", F.col("observations") + 1)
    checksum = longer.agg(F.bit_xor(F.xxhash64(*longer.columns)).alias("xor")).collect()[0]["xor"]
    longer.write.parquet(str(tmp_path / "other"))
    shutil.rmtree(manifest.with_suffix(""))
    (tmp_path / "other").rename(manifest.with_suffix(""))
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"checksum": checksum}))
    manifest.with_name(f".{manifest.name}.crc").unlink()
    write_hour(tmp_path, 2)
    with pytest.raises(JobError, match=r"give different results, for example for group\(s\) stale"):
        judge(spark, tmp_path, "check")
    assert not manifest.exists()
    assert not (tmp_path / CLUSTER / "verdicts" / f"{snapshot_id(2)}.json").exists()
    assert judge(spark, tmp_path, "check")["why_full"] == "nothing to compare with: there is no state yet"
