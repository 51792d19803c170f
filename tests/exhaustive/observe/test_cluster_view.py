import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import DeadlineExceededError, PlanError
from airflow_kafka_groups.kafka.cluster.config import ConnectionPrint, sha256_of
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.ledger.outcomes import DeletionReport
from airflow_kafka_groups.observe.cluster_view import (
    SAMPLE_TOPICS,
    ClusterView,
    compare_views,
    read_view,
    read_view_for_snapshot,
    recorded_view,
    sample_of,
)
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import LATER, POLICY, delete_plan, judge, layout_in

pytestmark = pytest.mark.safety

CONNECTION = ConnectionPrint(servers=sha256_of("b1:9092"), identity=sha256_of("user:cleaner"))
VIEW = ClusterView(
    connection=CONNECTION,
    brokers={"1": "b1:9092", "2": "b2:9092", "3": "b3:9092"},
    topic_ids={"t": "id-of-t", "u": "id-of-u", "v": "id-of-v"},
)
NO_IDS = replace(VIEW, topic_ids={}, topic_ids_unknown="no answer")


def test_the_same_view_has_nothing_to_say() -> None:
    assert compare_views("p", VIEW, VIEW) == ()
    assert compare_views("p", NO_IDS, NO_IDS) == ()


@pytest.mark.parametrize(
    ("here", "why"),
    [
        pytest.param(
            replace(VIEW, topic_ids={"t": "x", "u": "y", "v": "z"}), "3 of 3 sampled topics have other ids", id="ids"
        ),
        pytest.param(replace(VIEW, topic_ids={"t": "x"}), "1 of 1 sampled topics have other ids", id="one topic"),
        pytest.param(
            replace(VIEW, topic_ids={"t": "x", "u": "id-of-u"}), "1 of 2 sampled topics have other ids", id="half"
        ),
        pytest.param(replace(VIEW, brokers={"1": "c1:9092", "2": "c2:9092"}), "none of its brokers", id="brokers"),
        pytest.param(replace(NO_IDS, brokers={"1": "b1:9093"}), "none of its brokers", id="brokers without ids"),
        pytest.param(replace(VIEW, brokers={"7": "b1:9092"}), "none of its brokers", id="another broker's address"),
    ],
)
def test_another_cluster_by_the_same_id_is_refused(here: ClusterView, why: str) -> None:
    with pytest.raises(PlanError, match=why) as caught:
        compare_views("the-plan", VIEW, here)
    for part in ("plan the-plan", "same cluster id", "Nothing was deleted", "Check the connection", "make a new plan"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("here", "what"),
    [
        pytest.param(
            replace(VIEW, brokers={**VIEW.brokers, "3": "b9:9092"}),
            "not here now: 3 at b3:9092; new: 3 at b9:9092",
            id="a broker was replaced",
        ),
        pytest.param(replace(VIEW, brokers={"2": "b2:9092"}), "not here now: 1 at b1:9092, 3 at b3:9092", id="down"),
        pytest.param(replace(VIEW, brokers={**VIEW.brokers, "4": "b4:9092"}), "new: 4 at b4:9092", id="more brokers"),
        pytest.param(
            replace(VIEW, connection=replace(CONNECTION, servers=sha256_of("b2:9092"))),
            r"another connection \(other bootstrap servers\)",
            id="servers",
        ),
        pytest.param(
            replace(VIEW, connection=replace(CONNECTION, identity=sha256_of("user:me"))),
            r"another connection \(another user\)",
            id="user",
        ),
        pytest.param(
            replace(VIEW, topic_ids={**VIEW.topic_ids, "t": "x"}), "1 of 3 sampled topics were recreated", id="topic"
        ),
        pytest.param(NO_IDS, "no answer", id="ids cannot be read"),
    ],
)
def test_what_the_same_cluster_may_do_is_a_warning(here: ClusterView, what: str) -> None:
    (warning,) = compare_views("p", VIEW, here)
    assert re.search(what, warning)


def test_a_view_survives_its_file_and_a_damaged_one_is_refused() -> None:
    for view in (VIEW, NO_IDS):
        assert recorded_view(view.to_json(), "it") == view
    assert recorded_view(None, "it") is None
    damages: list[Any] = [
        {**VIEW.to_json(), "connection": {"servers": "b1:9092", "identity": ""}},
        {**VIEW.to_json(), "connection": {}},
        {**VIEW.to_json(), "brokers": ["b1"]},
        {**VIEW.to_json(), "topic_ids": {"t": 1}},
        {},
        [],
    ]
    for damaged in damages:
        with pytest.raises(PlanError, match="snapshot x has a damaged view"):
            recorded_view(damaged, "snapshot x")


def test_a_sample_is_small_and_the_same_whatever_the_order_and_spread_over_the_names() -> None:
    topics = [f"{team}-{number}" for team in "abcdefgh" for number in range(100)]
    sample = sample_of(topics)
    assert len(sample) == SAMPLE_TOPICS
    assert sample == sample_of(reversed(topics))
    assert {topic[0] for topic in sample} == set("abcdefgh")
    assert len(set(sample) & set(sample_of([*topics, "one-more"]))) >= SAMPLE_TOPICS - 1
    assert sample_of(["b", "a", "b"]) == ["a", "b"]


async def test_a_snapshot_says_why_it_has_no_topic_ids() -> None:
    admin = cluster()
    admin.ids_fail_with = error = DeadlineExceededError("too slow")
    view = await read_view_for_snapshot(admin, ["t"])
    assert (view.topic_ids, view.topic_ids_unknown) == ({}, str(error))
    assert view.brokers == {"1": "b1:9092", "2": "b2:9092"}
    assert str(error) in str(view)


async def test_a_plan_is_not_carried_out_when_topic_ids_cannot_be_read_for_now(tmp_path: Path) -> None:
    """They could be read for the snapshot: nothing says that this is the same cluster until they can be read again."""
    admin, layout = cluster(), layout_in(tmp_path)
    plan = await planned(admin, layout)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    admin.ids_fail_with = DeadlineExceededError("no answer")
    with pytest.raises(DeadlineExceededError):
        await delete_plan(admin, layout, plan)
    assert admin.asked("delete") == []


async def test_kafka_before_2_8_has_no_ids_and_the_brokers_are_relied_on(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    admin.ids.clear()
    plan = await planned(admin, layout)
    assert plan.view is not None
    assert "older than 2.8" in str(plan.view)
    admin.hosts = {1: "c1", 2: "c2"}
    with pytest.raises(PlanError, match="none of its brokers"):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER))


def cluster() -> FakeAdmin:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 1))
    admin.add("b", ("u", 0, 1))
    admin.ids = {"t": "id-of-t", "u": "id-of-u"}
    return admin


async def planned(admin: FakeAdmin, layout: Layout) -> DeletionPlan:
    """Make a plan from a snapshot that has looked at the cluster, as ``ListGroupOffsetsOperator`` takes it."""
    view = partial(read_view_for_snapshot, admin)
    taken = await take_snapshot(admin, layout, view=view, now=Ticking())
    reader = SnapshotReader(layout, taken.snapshot_id)
    plan = make_plan(verdicts_of(judge(reader)), reader, POLICY, LATER)
    save_plan(layout, plan)
    return plan


def another_tenant(admin: FakeAdmin) -> None:
    """The tenant beside it has the same groups at the same offsets, and the proxy relays the same cluster id."""
    admin.ids = {"t": "its-own-t", "u": "its-own-u"}


def a_tenant_with_other_topics(admin: FakeAdmin) -> None:
    """It has none of the sampled topics: the ids of its own can be read."""
    admin.ids = {"its-topic": "its-id"}


def a_clone(admin: FakeAdmin) -> None:
    """Volumes were copied: everything is the same, and elsewhere."""
    admin.hosts = {1: "clone-1", 2: "clone-2"}


@pytest.mark.parametrize("moved", [another_tenant, a_tenant_with_other_topics, a_clone])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_plan_deletes_nothing_of_another_cluster_by_the_same_id(
    moved: Callable[[FakeAdmin], None], dry_run: bool, tmp_path: Path
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    plan = await planned(admin, layout)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    moved(admin)
    with pytest.raises(PlanError, match="made for another cluster"):
        await delete_plan(admin, layout, plan, dry_run=dry_run)
    assert admin.asked("delete") == []
    assert sorted(admin.groups) == ["a", "b"]


async def test_nor_is_it_backed_up_from_there(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    plan = await planned(admin, layout)
    another_tenant(admin)
    with pytest.raises(PlanError, match="made for another cluster"):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert not layout.backup_manifest(plan.plan_id).exists()


async def test_what_differs_and_may_be_the_same_cluster_is_in_the_report(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    plan = await planned(admin, layout)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    admin.hosts = {1: "b1", 3: "b3"}
    admin.connection = replace(admin.connection, identity=sha256_of("user:somebody-else"))
    report: DeletionReport = (await delete_plan(admin, layout, plan)).report
    assert sorted(admin.deleted) == ["a", "b"]
    assert [warning.split(" (")[0] for warning in report.warnings] == [
        "the brokers are not those of the plan's snapshot",
        "the plan's snapshot was taken through another connection",
    ]


async def test_a_plan_without_a_view_is_carried_out_as_before(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    taken = await take_snapshot(admin, layout, now=Ticking())
    reader = SnapshotReader(layout, taken.snapshot_id)
    plan = make_plan(verdicts_of(judge(reader)), reader, POLICY, LATER)
    save_plan(layout, plan)
    assert plan.view is None
    assert plan.to_json()["view"] is None
    a_clone(admin)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    report = (await delete_plan(admin, layout, plan)).report
    assert sorted(admin.deleted) == ["a", "b"]
    assert report.warnings == ()


async def test_only_the_sample_is_asked_for_again() -> None:
    admin = cluster()
    asked: list[list[str]] = []

    async def topic_ids(topics: Any) -> dict[str, str]:
        asked.append(list(topics))
        return {}

    admin.topic_ids = topic_ids  # type: ignore[method-assign]
    await read_view(admin, ("t", "u"))
    await read_view(admin, ())
    assert asked == [["t", "u"]]
