"""Metrics by Airflow's own statsd client, and counts in asset events."""

import asyncio
import inspect
import logging
import re
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import Asset

from airflow_kafka_groups.kafka.models import GroupState, TopicPartition
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot as take_earlier_snapshot
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator, RestoreDrillOperator
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator, ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.pruning import PlanTopicPruningOperator, PruneTopicOffsetsOperator
from airflow_kafka_groups.operators.support.base import gauges
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, Ticking
from tests.reference.sent_metrics import SENT_METRICS
from tests.unit.change.prune_topics.scene import HOUR, cluster, snapshots
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators import scene

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
CLUSTER = "prod.eu"


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[str, str]]]:
    """Make Airflow send its metrics to a socket, as a worker does; give what came."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(0.05)  # to this socket, what is sent has arrived
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(listener.getsockname()[1]))
        initialize = getattr(stats, "initialize", None) or stats.Stats.initialize
        more = (
            {"export_legacy_names": False} if "export_legacy_names" in inspect.signature(initialize).parameters else {}
        )
        wanted = inspect.signature(stats_utils.get_stats_factory).parameters  # 3.2 takes a class, 3.3 nothing
        initialize(factory=stats_utils.get_stats_factory(*([stats.Stats] if wanted else [])), **more)

        def read() -> dict[str, str]:
            found = {}
            try:
                while True:
                    name, _, value = listener.recv(4096).decode().partition(":")
                    found[name.removeprefix("airflow.kafka_groups.")] = value
            except TimeoutError:
                return found

        yield read
        from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

        initialize(factory=NoStatsLogger, **more)


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 10, U0: 4})}


def context(*assets: Asset) -> tuple[Any, Any]:
    from airflow.sdk.execution_time.context import OutletEventAccessors

    events = OutletEventAccessors()
    return {"outlet_events": events}, events


def test_a_snapshot_is_told_to_everybody(tmp_path: Path, received: Callable[[], dict[str, str]]) -> None:
    asset = Asset("snapshots")
    operator = ListGroupOffsetsOperator(task_id="t", storage_path=str(tmp_path), cluster=CLUSTER, outlets=[asset])
    given, events = context(asset)
    summary = operator.execute(given)
    assert received() == {
        **{f"prod_eu.groups.{state}": "0|g" for state in GroupState},
        "prod_eu.groups.all": "2|g",
        "prod_eu.groups.Empty": "2|g",
        "prod_eu.snapshot.groups": "2|g",
        "prod_eu.snapshot.failed_groups": "0|g",
        "prod_eu.snapshot.partitions": "2|g",
    }
    counts = {"groups": 2, "failed_groups": 0, "partitions": 2, "states": {"Empty": 2}, "complete": True}
    assert events[asset].extra == {**{name: summary[name] for name in ("snapshot_id", "manifest")}, **counts}


def test_families_that_grow_too_fast_are_in_the_event_of_a_plan(admin: FakeAdmin, tmp_path: Path) -> None:
    rule = '{name: r, match: {groups: "job-*"}, action: keep, max_growth_per_day: 1}'
    policy = write_policy(tmp_path, f"version: 1\nrules: [{rule}]\n")
    earlier = Ticking(utc_now() - timedelta(days=2))
    asyncio.run(take_earlier_snapshot(admin, Layout(tmp_path, scene.CLUSTER), now=earlier))
    names = [f"job-{number}" for number in range(4)]
    admin.groups |= {name: FakeGroup({T0: 5}) for name in names}
    scene.judge(tmp_path, scene.take_snapshot(tmp_path), stale=["a"], new=names)
    asset = Asset("plans")
    given, events = context(asset)
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": scene.CLUSTER, "outlets": [asset]}
    PlanCleanupOperator(task_id="p", policy_file=str(policy), **stored).execute(given)
    grown = pytest.approx(2, abs=0.01)  # rounded up, and two days by the clock are a moment more or less
    assert events[asset].extra["growing_families"] == {
        "job-<number>": [{"rule": "r", "per_day": grown, "allowed_per_day": 1}]
    }
    PlanCleanupOperator(task_id="p", max_share=1.0, **stored).execute((again := context(asset))[0])
    assert "growing_families" not in again[1][asset].extra


def test_a_cleanup_is_counted_and_a_dry_run_is_not(tmp_path: Path, received: Callable[[], dict[str, str]]) -> None:
    scene.judge(tmp_path, scene.take_snapshot(tmp_path), stale=["a"])
    plan = scene.plan(tmp_path, max_share=1.0)
    sent = received()
    assert (sent["prod.plan.found"], sent["prod.plan.planned"]) == ("2|g", "1|g")

    asset = Asset("cleanups")
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": scene.CLUSTER, "outlets": [asset]}
    planned = {"plan_id": plan["plan_id"], "plan_digest": plan["digest"]}
    backup = BackupGroupOffsetsOperator(task_id="b", **planned, **stored)
    given, events = context(asset)
    made = backup.execute(given)
    counts = {"groups": 1, "rows": 1, "not_backed_up": 0}
    assert events[asset].extra == {**{name: made[name] for name in ("plan_id", "path")}, **counts}
    received()

    for dry_run in (True, False):
        given, events = context(asset)
        DeleteGroupsOperator(task_id="d", dry_run=dry_run, **planned, **stored).execute(given)
        assert events[asset].extra["dry_run"] is dry_run
        assert events[asset].extra["would_delete" if dry_run else "deleted"] == 1
        assert received() == ({} if dry_run else {"prod.deletion.deleted": "1|c"})


def test_lag_is_measured_and_told(admin: FakeAdmin, received: Callable[[], dict[str, str]]) -> None:
    admin.groups["gone-topic"] = FakeGroup({T0: 11})
    found = ListGroupLagOperator(task_id="t", max_lag="5").execute({})
    assert (found["groups"], found["total_lag"], found["total_lost"], found["unknown"]) == (3, 11, 0, 1)
    assert (found["lagging"], found["lagging_groups"]) == (1, {"b": 6})
    unknown = "a commit is beyond the end of its log, or a log end is unknown"
    assert found["unknown_groups"] == {"gone-topic": unknown}
    sent = {"total": 11, "max": 6, "lagging_groups": 1, "unknown_groups": 1}
    assert received() == {f"kafka_groups_default.lag.{name}": f"{value}|g" for name, value in sent.items()}


def test_a_connection_with_a_colon_in_its_name_has_metrics(
    monkeypatch: pytest.MonkeyPatch, received: Callable[[], dict[str, str]]
) -> None:
    """Statsd's own separator: Airflow's client sends no metric with it in its name."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA:PROD", '{"conn_type": "kafka_groups", "host": "b1:9092"}')
    ListGroupLagOperator(task_id="t", kafka_groups_conn_id="kafka:prod").execute({})
    assert set(received()) >= {f"kafka_prod.lag.{name}" for name in ("total", "max", "unknown_groups")}


def test_a_metric_that_cannot_be_sent_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.providers.common.compat.sdk import Stats

    monkeypatch.setattr(Stats, "gauge", Mock(side_effect=OSError("no metrics today")))
    with caplog.at_level(logging.WARNING):
        gauges("c", {"a": 1})
    assert "metrics could not be sent" in caplog.text


def test_a_group_that_lags_fails_the_task_if_it_has_to(admin: FakeAdmin) -> None:
    from airflow_kafka_groups.exceptions import GroupsFailedError

    arguments: dict[str, Any] = {"task_id": "t", "group_ids": ["a", "b"], "fail_if_lagging": True}
    assert ListGroupLagOperator(max_lag=6, **arguments).execute({})["lagging"] == 0
    with pytest.raises(GroupsFailedError, match="lag 6, must be at most 5"):
        ListGroupLagOperator(max_lag=5, **arguments).execute({})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, float, dict[str, str]]]:
    """Return the list of what is sent: kind, name, value and tags."""
    from airflow.providers.common.compat.sdk import Stats

    found: list[tuple[str, str, float, dict[str, str]]] = []
    for method, kind in (("gauge", "gauge"), ("incr", "counter")):

        def record(stat: str, value: float = 1, *, tags: dict[str, str], kind: str = kind) -> None:
            found.append((kind, stat, value, tags))

        monkeypatch.setattr(Stats, method, record)
    return found


def test_the_reference_lists_what_operators_send(admin: FakeAdmin, tmp_path: Path, sent: list[Any]) -> None:
    """Run every operator with metrics, and compare with the list in both directions."""
    scene.judge(tmp_path, scene.take_snapshot(tmp_path), stale=["a"])
    planned = scene.plan(tmp_path, max_share=1.0)
    backup = scene.back_up(tmp_path, planned)
    scene.apply(tmp_path, planned)
    scene.run(RestoreDrillOperator, tmp_path, plan_id=backup["plan_id"])
    ListGroupLagOperator(task_id="l").execute({})
    prune_a_topic(admin, tmp_path)
    listed = {re.sub(r"\\?<.*?\\?>", ".+", re.escape(each.name)): each for each in SENT_METRICS}
    met: set[str] = set()
    for kind, stat, _, tags in sent:
        name = stat.split(".", 2)[2]  # kafka_groups.<cluster>.
        matching = {pattern for pattern, each in listed.items() if re.fullmatch(pattern, name) and each.kind == kind}
        assert matching, f"{name} is not in the reference"
        assert tags["cluster"] in (scene.CLUSTER, "kafka_groups_default")
        met |= matching
    assert set(listed) - met == set(), "no operator sends it"


def prune_a_topic(admin: FakeAdmin, storage: Path) -> None:
    """Let a live group stop reading a topic, and prune it."""
    made, layout = cluster(), Layout(storage / "pruning", scene.CLUSTER)
    admin.log, admin.groups = made.log, made.groups
    asyncio.run(snapshots(admin, layout, first=utc_now() - 2 * HOUR))
    folder = storage / "pruning"
    plan = scene.run(PlanTopicPruningOperator, folder, min_idle_seconds="2h", max_share=1)
    done = scene.run(PruneTopicOffsetsOperator, folder, **scene.of_plan(folder, plan), dry_run=False)
    assert done["counts"]["deleted"] == 1


def test_the_list_names_every_operator_that_sends_metrics() -> None:
    folder = Path(inspect.getfile(ListGroupLagOperator)).parent
    senders = {
        name
        for file in folder.glob("*.py")
        for name, body in re.findall(
            r"^class ([A-Z]\w+Operator)\((.*?)(?=^\S|\Z)", file.read_text(), re.MULTILINE | re.DOTALL
        )
        if re.search(r"\bgauges\(|self\.(emit_plan|conclude)\(", body)
    }
    assert senders == {each.operator for each in SENT_METRICS}
