"""A subscription that was seen is proof of life, also where something else of its group is not known."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.kafka.cluster.config import sha256_of
from airflow_kafka_groups.kafka.models import GroupDescription, GroupState, MemberDescription
from airflow_kafka_groups.observe.cluster_view import read_view_for_snapshot
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, Ticking, timeout
from tests.unit.change.prune_topics.scene import (
    HOUR,
    cluster,
    layout_in,
    outcomes,
    plan,
    ready,
    snapshots,
    subscribe,
)

pytestmark = pytest.mark.safety


def member(name: str, *topics: str, **more: Any) -> MemberDescription:
    return MemberDescription(member_id=name, client_id="c", host="/h", subscribed_topics=topics, **more)


def shows(monkeypatch: pytest.MonkeyPatch, admin: FakeAdmin, state: GroupState, *members: MemberDescription) -> None:
    before = admin._described

    def described(group_id: str, operations: Any) -> GroupDescription:
        return before(group_id, operations)._replace(state=state, members=members)

    monkeypatch.setattr(admin, "_described", described)


READER = member("a", "live", "old")
CASES = {
    "another member subscribes by a pattern": (GroupState.STABLE, member("b", "live", subscribed_pattern="l.*")),
    "another assignment cannot be read": (GroupState.STABLE, member("b", "live", assignment_known=False)),
    "the group reconciles, as the reader has just joined": (GroupState.RECONCILING, member("b", "live")),
}


@pytest.mark.parametrize("seen_by", ["the last reading", "a newer snapshot"])
@pytest.mark.parametrize(("state", "other"), CASES.values(), ids=CASES)
async def test_one_that_was_seen_keeps_the_topic_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: GroupState, other: MemberDescription, seen_by: str
) -> None:
    """Also if its reader pauses for a deployment, and the task is cleared."""
    admin, layout, of = await ready(tmp_path)
    with monkeypatch.context() as patch:
        shows(patch, admin, state, READER, other)
        if seen_by == "a newer snapshot":
            await take_snapshot(admin, layout, now=Ticking(of.created_at))
        else:
            assert await outcomes(admin, layout, of) == {"app [old]": "kept:subscribed"}
    later = Ticking(of.created_at + HOUR / 2)
    assert await outcomes(admin, layout, of, now=later) == {"app [old]": "kept:alive_before"}


async def test_one_that_an_incomplete_snapshot_saw_without_the_offsets_keeps_the_topic(tmp_path: Path) -> None:
    admin, layout, of = await ready(tmp_path)
    admin.groups["app"]._subscribed = frozenset({"live", "old"})
    admin.missing_brokers, admin.offset_errors = {2: timeout()}, {"app": timeout()}
    await take_snapshot(admin, layout, now=Ticking(of.created_at))
    admin.groups["app"]._subscribed = frozenset({"live"})
    admin.missing_brokers, admin.offset_errors = {}, {}
    assert await outcomes(admin, layout, of, now=Ticking(of.created_at + HOUR / 2)) == {
        "app [old]": "kept:alive_before"
    }


@pytest.mark.parametrize("subscribes", [True, False])
async def test_a_newer_snapshot_of_another_connection_keeps_what_it_saw_in_use_only(
    tmp_path: Path, subscribes: bool
) -> None:
    """Its subscriptions are in its own folder: they were looked for in the plan's, and every pruning failed."""
    admin, layout, of = await ready(tmp_path)
    if subscribes:
        subscribe(admin)
    await take_snapshot(admin, Layout(tmp_path, "other"), now=Ticking(of.created_at))
    admin.groups["app"]._subscribed = frozenset({"live"})
    fate = "kept:alive_before" if subscribes else "deleted:safe"
    assert await outcomes(admin, layout, of, now=Ticking(of.created_at + HOUR / 2)) == {"app [old]": fate}


@pytest.mark.parametrize("lacks", ["the group", "the topic"])
async def test_what_another_user_may_not_see_keeps_no_topic(tmp_path: Path, lacks: str) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    view = partial(read_view_for_snapshot, admin)
    of = plan(layout, await snapshots(admin, layout, view=view))
    app, own = admin.groups["app"], admin.connection
    seen = {where: of for where, of in app.offsets.items() if where.topic == "live"}
    admin.connection, admin.sees_topics = replace(own, identity=sha256_of("user:of-a-team")), lacks == "the group"
    admin.groups = {} if lacks == "the group" else {"app": FakeGroup(seen, members=2)}
    await take_snapshot(admin, Layout(tmp_path, "other"), now=Ticking(of.created_at), view=view)
    admin.groups, admin.connection, admin.sees_topics = {"app": app}, own, True
    assert await outcomes(admin, layout, of, now=Ticking(of.created_at + HOUR / 2)) == {"app [old]": "deleted:safe"}
