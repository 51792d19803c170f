"""A policy that was edited since the plan can only keep topics."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile, load_policy
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import new_id
from tests.fakes.groups import CLUSTER_ID, FakeGroup
from tests.unit.change.prune_topics.scene import PRUNE, cluster, layout_in, outcomes, planned, prune

pytestmark = pytest.mark.safety
LONGER = PRUNE.replace("[{", "[{name: longer, match: {groups: x}, action: prune-topics, idle: 2h}, {")
"""Topics are looked at for so long that some are idle for longer than their rule demands."""


def lost_and_restored(layout: Layout, at: datetime) -> None:
    """Let the journal say that the group was deleted; no snapshot has shown that."""
    journal = Journal(layout.base, CLUSTER_ID)
    run = journal.begin({"run_id": new_id(at), "request_id": "another"}, at, after=journal.read())
    run.intend({"app": "its fingerprint"}, at)
    run.end([GroupOutcome(group_id="app", outcome=Outcome.DELETED, code="safe", reason="deleted")], {}, at)


@pytest.mark.parametrize(
    ("edited", "fate"),
    [
        (f"# a comment\n{PRUNE}", "deleted:safe"),
        (PRUNE.replace("prune-topics", "keep"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 3h"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, observations: 4"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, notice: 1d"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, approval: always"), "kept:policy"),
        (PRUNE.replace("idle: 1h", "idle: 1h, max_groups: 0"), "kept:policy"),
        (f"{PRUNE}protect: [app]\n", "kept:policy"),
        (PRUNE.replace("rules: [", "rules: [{name: k, match: {topics: x}, action: keep}, "), "kept:policy"),
    ],
)
@pytest.mark.promise(1)
async def test_an_edit_of_the_policy_can_only_keep(tmp_path: Path, edited: str, fate: str) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    path = tmp_path / "policy.yaml"
    path.write_text(PRUNE)
    of = await planned(admin, layout, file=load_policy(path))
    path.write_text(edited)

    def read() -> PolicyFile:
        return load_policy(path)

    assert await outcomes(admin, layout, of, policy=read) == {"app [old]": fate}
    with pytest.raises(PlanError, match="read it"):
        await prune(admin, layout, of)


@pytest.mark.parametrize(
    ("idle", "fate"),
    [("1h", "deleted:safe"), ("80m", "deleted:safe"), ("85m", "kept:deleted_before"), ("90m", "kept:deleted_before")],
)
async def test_a_longer_idle_time_counts_from_what_is_on_record_too(tmp_path: Path, idle: str, fate: str) -> None:
    admin, layout, path = cluster(), layout_in(tmp_path), tmp_path / "policy.yaml"
    path.write_text(LONGER)
    of = await planned(admin, layout, file=load_policy(path))
    lost_and_restored(layout, of.created_at - timedelta(minutes=85))
    path.write_text(LONGER.replace("idle: 1h", f"idle: {idle}"))
    assert await outcomes(admin, layout, of, policy=lambda: load_policy(path)) == {"app [old]": fate}


async def test_a_floor_that_was_raised_refuses_the_plan(tmp_path: Path) -> None:
    """As for a plan of groups, however long the topic has been idle: its rule has not asked for so much."""
    admin, layout, path = cluster(), layout_in(tmp_path), tmp_path / "policy.yaml"
    path.write_text(LONGER)
    of = await planned(admin, layout, file=load_policy(path))
    floors = SiteFloors(min_idle_seconds=4_800.0)
    with pytest.raises(PlanError, match=r"min_idle_seconds of 4800 counts in the rule.*make a new one"):
        await outcomes(admin, layout, of, policy=lambda: load_policy(path), floors=floors)


@pytest.mark.parametrize("rule", ["prune", "another"])
async def test_the_cap_of_the_rule_that_decides_by_now_counts(tmp_path: Path, rule: str) -> None:
    """Also where an edit gives the groups to another rule than the plan names."""
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    admin, layout = cluster(zap=FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))), layout_in(tmp_path)
    path = tmp_path / "policy.yaml"
    path.write_text(PRUNE)
    of = await planned(admin, layout, file=load_policy(path))
    path.write_text(PRUNE.replace("name: prune", f"name: {rule}").replace("idle: 1h", "idle: 1h, max_groups: 1"))
    found = await outcomes(admin, layout, of, policy=lambda: load_policy(path))
    assert found == {"app [old]": "deleted:safe", "zap [old]": "kept:policy"}


async def test_a_share_that_is_refused_by_now_is_one_of_all_groups_with_topics_to_prune(tmp_path: Path) -> None:
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    admin, layout = cluster(zap=FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))), layout_in(tmp_path)
    path = tmp_path / "policy.yaml"
    path.write_text(PRUNE.replace("limits: {", "limits: {max_groups: 1, "))
    of = await planned(admin, layout, file=load_policy(path))
    path.write_text(PRUNE.replace("limits: {", "limits: {max_groups: 1, refuse_share: 0.7, "))
    with pytest.raises(PlanError, match="2 of 2 groups would be planned"):
        await prune(admin, layout, of, policy=lambda: load_policy(path))
