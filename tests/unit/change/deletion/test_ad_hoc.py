from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.file import open_backup
from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    IncompleteListingError,
    JournalError,
    PlanError,
    SnapshotError,
)
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.outcomes import DeletionReport
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking, broker_error, timeout
from tests.unit.change.deletion.steps import cluster
from tests.unit.change.scene import delete_names, layout_in, snapshot


class Watch:
    """Stands for waiting: notes how long, and lets something happen meanwhile."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.slept: list[float] = []
        self.meanwhile = meanwhile

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.meanwhile()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return layout_in(tmp_path)


async def delete(admin: FakeAdmin, layout: Layout, ids: Any, **how: Any) -> DeletionReport:
    return (await delete_names(admin, layout, ids, **how)).report


def fates(report: DeletionReport) -> list[str]:
    return [f"{item.group_id}:{item.outcome.value}:{item.code}" for item in report.outcomes]


async def test_named_groups_are_watched_and_deleted(layout: Layout) -> None:
    admin = cluster("b", "a", "other")
    watch = Watch()
    report = await delete(admin, layout, ["b", "a", "b"], sleep=watch, observe_seconds=3)
    assert fates(report) == ["b:deleted:safe", "a:deleted:safe"]
    assert watch.slept == [3.0]
    assert list(admin.groups) == ["other"]


async def test_where_topics_may_be_hidden_nothing_is_deleted_unless_that_is_allowed(layout: Layout) -> None:
    admin = cluster("a")
    admin.sees_topics = False
    with pytest.raises(PlanError, match="Describe on all topics"):
        await delete(admin, layout, ["a"], sleep=Watch())
    assert list(admin.groups) == ["a"]
    assert fates(await delete(admin, layout, ["a"], sleep=Watch(), allow_hidden_topics=True)) == ["a:deleted:safe"]


async def test_a_group_that_moves_while_it_is_watched_is_kept(layout: Layout) -> None:
    admin = cluster("a", "b", "c")

    def meanwhile() -> None:
        admin.commit("a", "t", 0, 9)
        admin.groups["b"].members = 1
        admin.groups["c"].state = GroupState.PREPARING_REBALANCE

    report = await delete(admin, layout, ["a", "b", "c"], sleep=Watch(meanwhile))
    assert fates(report) == ["a:kept:moved", "b:kept:has_members", "c:kept:not_empty"]
    assert admin.asked("delete") == []


async def test_what_is_not_safe_at_first_sight_is_not_watched(layout: Layout) -> None:
    admin = cluster("secret", "unread")
    admin.add("busy", ("t", 0, 1), state=GroupState.STABLE, members=1)
    admin.add("share", type=GroupType.SHARE, protocol_type="share")
    admin.add("sink", ("t", 0, 1), protocol_type="connect")
    admin.add("bare")
    admin.add("connect-x", ("t", 0, 1))
    admin.describe_errors["secret"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    admin.offset_errors["unread"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    watch = Watch()
    names = ["busy", "share", "sink", "bare", "connect-x", "secret", "unread", "nowhere", ""]
    report = await delete(admin, layout, names, sleep=watch)
    assert fates(report) == [
        "busy:kept:has_members",
        "share:kept:wrong_type",
        "sink:kept:wrong_protocol",
        "bare:kept:no_offsets",
        "connect-x:kept:protected",
        "secret:kept:not_described",
        "unread:kept:unreadable",
        "nowhere:gone:gone",
        ":kept:protected",
    ]
    assert watch.slept == []
    assert admin.asked("delete") == []


async def test_with_a_layout_there_is_a_plan_and_a_backup_first(layout: Layout) -> None:
    admin = cluster("a", "b")
    report = await delete(admin, layout, ["a", "b"], sleep=Watch())
    assert fates(report) == ["a:deleted:safe", "b:deleted:safe"]
    assert report.plan_id is not None
    plan = load_plan(layout, report.plan_id)
    assert (plan.group_ids, plan.digest) == (["a", "b"], report.plan_digest)
    assert [group.entry.group_id for group in open_backup(layout, plan.plan_id)[1]] == ["a", "b"]


async def test_what_cannot_be_backed_up_is_kept(layout: Layout) -> None:
    admin = cluster("a", "b")

    def meanwhile() -> None:
        admin.commit("a", "t", 0, 9)

    report = await delete(admin, layout, ["a", "b"], sleep=Watch(meanwhile))
    assert fates(report) == ["a:kept:moved", "b:deleted:safe"]


async def test_what_could_not_be_backed_up_is_kept_though_it_can_be_read_a_moment_later(layout: Layout) -> None:
    admin, readings = cluster("a", "b"), count(1)

    def fail_for_the_backup(call: str) -> None:
        if call == "stable offsets":
            admin.offset_errors = {"a": timeout()} if next(readings) == 2 else {}

    admin.before = fail_for_the_backup
    report = await delete(admin, layout, ["a", "b"], sleep=Watch())
    assert next(readings) > 3
    assert fates(report) == ["a:kept:not_in_backup", "b:deleted:safe"]


async def test_a_cluster_without_a_name_cannot_be_backed_up(layout: Layout) -> None:
    admin = cluster("a")
    admin.cluster = None
    with pytest.raises(JournalError, match="reports no usable id"):
        await delete(admin, layout, ["a"], sleep=Watch())
    assert "a" in admin.groups


async def test_a_clock_behind_the_newest_snapshot_deletes_nothing(layout: Layout) -> None:
    """The journal would say that the deletion was long ago, and a plan could have a restored group again at once."""
    admin = cluster("a")
    await snapshot(admin, layout)
    with pytest.raises(SnapshotError, match="check the clocks"):
        await delete(admin, layout, ["a"], now=Ticking(NOW - timedelta(days=30)))
    assert admin.deleted == []


@pytest.mark.safety
async def test_a_clock_behind_the_snapshots_of_another_connection_to_the_cluster_deletes_nothing(
    layout: Layout,
) -> None:
    """A connection that has another name since yesterday has no snapshots in its folder yet."""
    admin, before = cluster("a"), Layout(layout.base, "its-former-name")
    await snapshot(admin, before)
    early = Ticking(NOW - timedelta(days=30))
    with pytest.raises(SnapshotError, match=r"check the clocks.*its-former-name"):
        await delete(admin, layout, ["a"], now=early)
    assert admin.deleted == []
    admin.cluster = "rebuilt"  # another cluster's snapshots show nothing of this one
    assert fates(await delete(admin, layout, ["a"], now=early, sleep=Watch())) == ["a:deleted:safe"]


@pytest.mark.parametrize(("share", "allowed"), [(0.4, False), (0.5, True)])
async def test_the_site_s_largest_share_bounds_names_too(share: float, allowed: bool, layout: Layout) -> None:
    admin = cluster("a", "b", "c", "d")
    floors = SiteFloors(max_share=share)
    await delete(admin, layout, ["a", "b", "gone"], floors=floors, sleep=Watch(), dry_run=True)
    if allowed:
        await delete(admin, layout, ["a", "b", "gone"], floors=floors, sleep=Watch())
    else:
        with pytest.raises(PlanError, match=r"2 of 4 groups are named, and the site's max_share is 0.4"):
            await delete(admin, layout, ["a", "b", "gone"], floors=floors, sleep=Watch())
    assert admin.deleted == (["a", "b"] if allowed else [])


async def test_a_dry_run_watches_and_deletes_and_writes_nothing(layout: Layout) -> None:
    admin = cluster("a")
    watch = Watch()
    report = await delete(admin, layout, ["a"], sleep=watch, dry_run=True)
    assert fates(report) == ["a:would_delete:safe"]
    assert watch.slept == [60.0]
    assert "a" in admin.groups
    assert not layout.root.exists()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_an_incomplete_listing_deletes_nothing(when: str, layout: Layout) -> None:
    admin = cluster("a")

    def lose() -> None:
        admin.missing_brokers = {2: timeout()}

    if when == "before":
        lose()
    with pytest.raises(IncompleteListingError):
        await delete(admin, layout, ["a"], sleep=Watch(lose))
    assert "a" in admin.groups


@pytest.mark.parametrize(
    "bad",
    [
        {"ids": []},
        {"ids": "a"},
        {"ids": ["a", 3]},
        {"observe_seconds": 0},
        {"observe_seconds": float("nan")},
        {"observe_seconds": True},
        {"protected": "__*"},
        {"protected": ["re:("]},
    ],
)
async def test_bad_input_is_refused_before_anything_is_asked(bad: dict[str, Any], layout: Layout) -> None:
    admin = cluster("a")
    how = dict(bad)
    with pytest.raises(ConfigurationError):
        await delete(admin, layout, how.pop("ids", ["a"]), sleep=Watch(), **how)
    assert admin.calls == []
