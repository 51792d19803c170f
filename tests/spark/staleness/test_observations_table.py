"""The table of observations has what the snapshots have, also where that is nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.arrow.files.local_storage import LocalStorage
from airflow_kafka_groups.arrow.ledger.snapshots import find_history
from airflow_kafka_groups.arrow.staleness.judging import judged_history
from airflow_kafka_groups.arrow.staleness.policy import StalenessPolicy
from airflow_kafka_groups.arrow.staleness.reduction import Reduction
from airflow_kafka_groups.arrow.workers import Workers
from airflow_kafka_groups.spark.ledger.catalogue import CatalogueTable
from airflow_kafka_groups.spark.staleness.observations_table import add_observations
from tests.spark.histories import HOUR, snapshot_id
from tests.spark.lake import CLUSTER, write_snapshot

pytestmark = pytest.mark.spark


class Table:
    """A table with rows of somebody else's under the id of a snapshot."""

    def __init__(self) -> None:
        self.rows: list[object] = ["other"]

    def counts(self, _: str) -> dict[str, int]:
        return {snapshot_id(0): len(self.rows)}

    def replace(self, _: str, rows: DataFrame, expected: Mapping[str, int]) -> None:
        self.rows = list(rows.collect())
        assert expected == {snapshot_id(0): len(self.rows)}


def test_rows_under_the_id_of_a_snapshot_without_groups_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    write_snapshot(tmp_path, 0, [])
    storage, table = LocalStorage(), Table()
    history = find_history(storage, tmp_path.as_uri(), CLUSTER)
    with Workers(is_local=True) as workers:
        reduction = Reduction(storage, history, workers)
        found = judged_history(storage, history, StalenessPolicy(min_idle_seconds=HOUR), workers, reduction)
    add_observations(spark, found, cast("CatalogueTable", table), CLUSTER)
    assert table.rows == []
