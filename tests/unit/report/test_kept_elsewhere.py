"""Keep-alive runs in a report: those of other connections to the cluster, and a retention that was shortened."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.ledger.keep_alive_records import KeepAliveRecords
from airflow_kafka_groups.report.facts import gather_facts
from airflow_kafka_groups.report.keep_alive import forecast
from airflow_kafka_groups.report.trend_points import point_of
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import new_id
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup
from tests.unit.change.scene import layout_in, planned

DAY = timedelta(days=1)


def kept_alive(layout: Layout, at: datetime, retention: timedelta, cluster_id: str = CLUSTER_ID) -> None:
    """Write the two files of a keep-alive run of the group a."""
    run, folder = new_id(at), layout.root / "changes"
    Path(str(folder)).mkdir(parents=True, exist_ok=True)
    head: dict[str, Any] = {"format": 1, "run_id": run, "what": "keep-alive", "dry_run": False}
    head |= {"cluster": layout.cluster, "kafka_cluster_id": cluster_id}
    head |= {"kept_at": at.isoformat(), "kept_until": (at + retention).isoformat()}
    for part, group in (("before", {"kept": None}), ("result", {"outcome": "changed"})):
        content = {**head, "groups": [{"group_id": "a", **group}]}
        (folder / f"{run}-keep-alive-{part}.json").write_bytes(json.dumps(content).encode())


async def status(layout: Layout) -> tuple[str, datetime | None]:
    plan = await planned(FakeAdmin({"b": FakeGroup(), "a": FakeGroup(members=1)}), layout)
    facts = gather_facts(layout, plan, point_of(plan, {}))
    (found,) = (each for each in forecast(plan, facts.kept_alive, NOW) if each.group_id == "a")
    return found.status, found.until


@pytest.mark.parametrize(("cluster_id", "known"), [(CLUSTER_ID, True), ("another", False)])
async def test_what_another_connection_keeps_alive_is_kept_alive(tmp_path: Path, cluster_id: str, known: bool) -> None:
    """One connection may only commit and the other one only delete: each has its folder in the storage."""
    layout = layout_in(tmp_path)
    kept_alive(layout, NOW - 9 * DAY, 6 * DAY)
    kept_alive(Layout(tmp_path, "standby"), NOW - DAY, 6 * DAY, cluster_id)
    assert (await status(layout))[1] == NOW + (5 if known else -3) * DAY


async def test_what_is_remembered_for_less_since_the_last_run_is_not_called_safe_by_the_run_before(
    tmp_path: Path,
) -> None:
    """The brokers' retention was shortened from 60 days to 7, and no snapshot tells it."""
    layout = layout_in(tmp_path)
    for days, retention in ((12, 60), (10, 61), (8, 7)):
        kept_alive(layout, NOW - days * DAY, retention * DAY)
    assert await status(layout) == ("in use", NOW - DAY)
    assert KeepAliveRecords(layout).read()["a"].until == NOW + 51 * DAY, "a clean-up spares it for as long as it did"
