"""Plans of topics to prune: what is planned, what keeps a topic, and within which limits."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import PlanError, SnapshotError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import load_policy
from airflow_kafka_groups.judge.verdict_names import KeptTopic
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.journal import Journal
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.observe.snapshot.reader import latest_manifest
from airflow_kafka_groups.storage.formats import digest_of
from tests.fakes.groups import CLUSTER_ID, NOW, FakeGroup, broker_error
from tests.fakes.wanted import want
from tests.records import history_before
from tests.unit.change.prune_topics.scene import HOUR, POLICY, cluster, kept, layout_in, plan, snapshots, watched

pytestmark = pytest.mark.safety


async def test_an_abandoned_topic_is_planned_with_its_evidence(tmp_path: Path) -> None:
    _, layout, now = await watched(tmp_path)
    found = plan(layout, now)
    (item,) = found.groups
    assert (item.group_id, item.topic, item.partitions, item.observations) == ("app", "old", 2, 3)
    assert (item.idle_seconds, item.state, item.rule) == (7_200.0, "Stable", None)
    assert item.reason == "not subscribed to and unmoved for 2h (3 snapshots)"
    assert found.group_ids == ["app [old]"]
    assert (found.counts["planned"], found.counts["planned_groups"], found.counts["planned_partitions"]) == (1, 1, 2)
    assert found.counts["unread_topics"] == found.counts["with_unread_topics"] == 1
    assert found.expires_at > now
    read = load_plan(layout, found.plan_id, prunes=True)
    assert (read, read.digest) == (found, found.digest)


def groups_that_are_kept() -> dict[str, FakeGroup]:
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    live = frozenset({"live"})
    return {
        "reads-all": FakeGroup(offsets, members=1),
        "empty": FakeGroup(offsets),
        "connect-x": FakeGroup(offsets, members=1, subscribed=live),
        "schema": FakeGroup(offsets, members=1, subscribed=live, protocol_type="sr"),
        "standing": FakeGroup(offsets, members=1, subscribed=frozenset({"none"})),
    }


async def test_whatever_is_in_doubt_is_kept(tmp_path: Path) -> None:
    admin, layout = cluster(**groups_that_are_kept()), layout_in(tmp_path)
    now = await snapshots(admin, layout)
    found = plan(layout, now)
    assert found.group_ids == ["app [old]"]
    assert kept(found) == {
        "connect-x [old]": "protected",
        "schema [old]": "wrong_kind",
        "standing [live]": "settling",  # it moved
        "standing [old]": "group_idle",
    }
    assert found.counts["group_idle"] == 1
    assert found.counts["found"] == 6


async def test_a_topic_that_does_not_exist_is_named_and_kept(tmp_path: Path) -> None:
    """Brokers refuse to delete its offsets."""
    admin, layout = cluster(), layout_in(tmp_path)
    for partition in (0, 1):
        admin.ends[TopicPartition("old", partition)] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    now = await snapshots(admin, layout)
    found = plan(layout, now)
    assert (found.group_ids, kept(found)) == ([], {"app [old]": "topic_missing"})
    assert "does not exist" in found.kept[0].reason


@pytest.mark.parametrize(
    ("policy", "planned"),
    [
        ({"min_idle_seconds": 7_200}, True),
        ({"min_idle_seconds": 7_201}, False),
        ({"min_observations": 3}, True),
        ({"min_observations": 4}, False),
        ({"max_gap_seconds": 3_600}, True),
        ({"max_gap_seconds": 3_599}, False),
    ],
)
async def test_the_demands_are_exact(tmp_path: Path, policy: dict[str, Any], planned: bool) -> None:
    _, layout, now = await watched(tmp_path)
    found = plan(layout, now, replace(POLICY, **policy))
    assert found.group_ids == (["app [old]"] if planned else [])
    assert kept(found) == ({} if planned else {"app [old]": "settling"})


async def test_the_sites_idle_time_counts(tmp_path: Path) -> None:
    _, layout, now = await watched(tmp_path)
    assert plan(layout, now, floors=SiteFloors(min_idle_seconds=7_200)).group_ids == ["app [old]"]
    assert plan(layout, now, floors=SiteFloors(min_idle_seconds=7_201)).group_ids == []
    with pytest.raises(PlanError, match="log of commits"):
        plan(layout, now, floors=SiteFloors(require_commit_log=True))
    with pytest.raises(PlanError, match="policy_file"):
        plan(layout, now, floors=SiteFloors(policy_file="/etc/policy.yaml"))
    assert plan(layout, now, floors=SiteFloors(max_groups=1)).policy.max_groups == 1


async def test_caps_count_groups_and_take_the_longest_idle_first(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7, TopicPartition("older", 0): 7}

    def late(hour: int) -> None:
        if hour == 1:
            admin.groups["late"] = FakeGroup(offsets, members=1, subscribed=frozenset({"live"}))

    now = await snapshots(admin, layout, 4, before=late)
    every = plan(layout, now)
    assert every.group_ids == ["app [old]", "late [old]", "late [older]"]
    found = plan(layout, now, replace(POLICY, max_groups=1))
    assert found.group_ids == ["app [old]"]
    assert kept(found) == {"late [old]": "over_cap", "late [older]": "over_cap"}
    assert found.warnings == ("2 groups have topics to prune; max_groups allows 1 per plan",), "both are in use"
    half = plan(layout, now, replace(POLICY, max_share=0.5))
    assert half.group_ids == ["app [old]"]
    assert half.warnings == (
        "2 of 2 groups have topics to prune, more than max_share 0.5 allows: 1 are planned, the longest idle first",
    )


POLICY_FILE = """
version: 1
defaults: {idle: 1h, action: keep, contact: a@example.com}
limits: {max_share: 1.0}
rules:
  - {name: asleep, match: {groups: "sleep-*"}, action: keep-alive}
  - {name: finance, match: {topics: "ledger*"}, action: keep}
  - {name: by-client, match: {groups: "maybe", clients: "x"}, action: keep}
  - {name: noticed, match: {groups: "noticed"}, action: prune-topics, notice: 1d}
  - {name: slow, match: {groups: "slow"}, action: prune-topics, idle: 3h}
  - {name: prune, match: {groups: ["app", "maybe", "cafe\\u0301"]}, action: prune-topics, owner: team}
"""


async def test_the_rule_that_decides_selects_the_groups(tmp_path: Path) -> None:
    offsets: Any = {TopicPartition("live", 0): 1, TopicPartition("old", 0): 7}
    ledger: Any = {**offsets, TopicPartition("ledger", 0): 7}
    live = frozenset({"live"})

    def group(of: Any = offsets) -> FakeGroup:
        return FakeGroup(of, members=1, subscribed=live)

    admin, layout = (
        cluster(**{name: group() for name in ("sleep-1", "maybe", "noticed", "slow", "other", "caf\u00e9")}),
        layout_in(tmp_path),
    )
    admin.groups["books"] = group(ledger)
    now = await snapshots(admin, layout)
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY_FILE)
    found = plan(layout, now, file=load_policy(path))
    assert [(item.name, item.rule, item.owner) for item in found.groups] == [("app [old]", "prune", "team")]
    assert kept(found) == {
        "books [ledger]": "by_rule",
        "books [old]": "by_rule",
        "caf\u00e9 [old]": "by_rule",  # the pattern spells it in another way
        "maybe [old]": "by_rule",
        "noticed [old]": "notice",
        "other [old]": "by_rule",
        "sleep-1 [old]": "by_rule",
        "slow [old]": "settling",
    }
    reasons = {item.group_id: item.reason for item in found.kept}
    assert "'by-client'" in reasons["maybe"]
    assert "exactly" in reasons["caf\u00e9"]
    assert found.policy.file is not None
    strict = plan(layout, now, file=load_policy(path), floors=SiteFloors(min_idle_seconds=7_201))
    assert strict.group_ids == [], "the site's idle time counts in the rules"


async def test_a_policy_without_such_a_rule_and_an_idle_time_past_the_retention_are_warnings(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    now = await snapshots(admin, layout, offsets_retention_minutes=60)
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nrules: [{name: a, action: keep}]\n")
    found = plan(layout, now, file=load_policy(path))
    assert (found.group_ids, "prune-topics" in found.warnings[-1]) == ([], True)
    assert "offsets.retention.minutes" in plan(layout, now).warnings[-1]


def journal_with(layout: Any, at: Any, name: str, outcome: GroupOutcome | None, *, intent: bool = True) -> None:
    journal = Journal(layout.base, CLUSTER_ID)
    run = journal.begin({"run_id": "r", "request_id": "another plan"}, at, after=history_before(journal))
    if intent:
        run.intend({name: "f"}, at)
    if outcome is not None:
        run.conclude([outcome], at)


DELETED = GroupOutcome(group_id="", outcome=Outcome.DELETED, code="safe", reason="deleted")
GONE = GroupOutcome(group_id="", outcome=Outcome.GONE, code="gone", reason="it does not exist any more")


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("app [old]", DELETED), ("app [old]", None), ("app", DELETED), ("app", None), ("app", GONE)],
)
async def test_what_was_deleted_or_gone_before_has_to_be_idle_anew(
    tmp_path: Path, name: str, outcome: GroupOutcome | None
) -> None:
    """Also when the request may not have left, and when the complete group was deleted and restored, or gone.

    Whoever made it again may have started it at an older place, and no snapshot need show that it was away.
    """
    _, layout, now = await watched(tmp_path)
    found = None if outcome is None else replace(outcome, group_id=name)
    journal_with(layout, NOW + timedelta(minutes=30), name, found, intent=outcome is not GONE)
    assert kept(plan(layout, now)) == {"app [old]": "doubt"}
    assert plan(layout, now, replace(POLICY, min_idle_seconds=5_000)).group_ids == ["app [old]"]


async def test_a_group_in_use_is_no_reason_against_pruning_it(tmp_path: Path) -> None:
    _, layout, now = await watched(tmp_path)
    alive = GroupOutcome(group_id="app", outcome=Outcome.KEPT, code="has_members", reason="2 members")
    journal_with(layout, NOW + timedelta(minutes=30), "app", alive)
    assert plan(layout, now).group_ids == ["app [old]"]


async def test_a_group_that_is_kept_alive_is_left_alone(tmp_path: Path) -> None:
    _, layout, now = await watched(tmp_path)
    want(layout, "app", at=NOW, lasts=now + HOUR - NOW)
    assert kept(plan(layout, now)) == {"app [old]": "excluded"}
    assert plan(layout, now + HOUR).group_ids == ["app [old]"]


async def test_the_idle_time_of_a_group_that_was_kept_alive_counts_from_then_on(tmp_path: Path) -> None:
    """As for groups: nobody wanted its offsets to go before, and a clock may be ahead of the end."""
    _, layout, now = await watched(tmp_path)
    want(layout, "app", at=NOW + HOUR / 2, lasts=HOUR / 2)
    assert kept(plan(layout, now)) == {"app [old]": "excluded"}
    assert plan(layout, now, replace(POLICY, min_idle_seconds=5_000)).group_ids == ["app [old]"]


async def test_a_group_that_was_restored_is_kept_for_that_reason(tmp_path: Path) -> None:
    _, layout, now = await watched(tmp_path)
    want(layout, "app", at=NOW + HOUR / 2, what="restore")
    (topic,) = plan(layout, now, replace(POLICY, min_idle_seconds=9 * 86_400)).kept
    assert (topic.verdict, topic.reason.partition(" of ")[0]) == ("excluded", "a restore")


async def test_a_snapshot_that_cannot_be_judged_by_plans_nothing(tmp_path: Path) -> None:
    admin, layout, now = await watched(tmp_path)
    with pytest.raises(PlanError, match="older than"):
        plan(layout, now + timedelta(days=2))
    manifest = latest_manifest(layout)
    path = layout.subscriptions(manifest.snapshot_id)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"x")
    with pytest.raises(SnapshotError, match="damaged"):
        plan(layout, now)
    path.unlink()
    with pytest.raises(SnapshotError, match="missing"):
        plan(layout, now)
    admin.sees_topics = False
    now = await snapshots(admin, layout, 1, first=now + HOUR)
    with pytest.raises(PlanError, match="describe all topics"):
        plan(layout, now)


async def test_nothing_is_planned_from_an_incomplete_snapshot(tmp_path: Path) -> None:
    from airflow_kafka_groups.change.plan.plan_topics import plan_topics
    from airflow_kafka_groups.ledger.floors import NO_FLOORS
    from airflow_kafka_groups.observe.snapshot.reader import snapshot_ids
    from tests.fakes.groups import timeout

    admin, layout = cluster(), layout_in(tmp_path)
    admin.missing_brokers = {2: timeout()}
    now = await snapshots(admin, layout)
    with pytest.raises(PlanError, match="incomplete"):
        plan_topics(layout, PlanPolicy(), NO_FLOORS, snapshot_id=snapshot_ids(layout)[-1], now=now)


async def test_a_plan_is_read_back_only_as_it_was_written(tmp_path: Path) -> None:
    _, layout, now = await watched(tmp_path)
    found = plan(layout, now)
    path, body = (of(found.plan_id, prunes=True) for of in (layout.plan, layout.plan_body))
    data = json.loads(path.read_bytes())

    def refused(match: str, **changes: Any) -> None:
        edited = {**data, **changes}
        if changes.get("digest") is None:
            edited["digest"] = digest_of(edited)
        path.write_bytes(json.dumps(edited).encode())
        with pytest.raises(PlanError, match=match):
            load_plan(layout, found.plan_id, prunes=True)

    refused("digest mismatch", groups=0, digest="0" * 64)
    refused("format", format=2)
    refused("is of groups, and names a topic", prunes=False)
    refused("contains plan", cluster="another")
    path.write_bytes(json.dumps(data).encode())
    for elsewhere, read in ((layout.plan(found.plan_id), path), (layout.plan_body(found.plan_id), body)):
        elsewhere.parent.mkdir(exist_ok=True)
        elsewhere.write_bytes(read.read_bytes())
    with pytest.raises(PlanError, match="which is of topics"):
        load_plan(layout, found.plan_id)
    (item,) = found.groups
    for match, changes in (
        ("without its topic", {"topic": None}),
        ("without its observations", {"observations": None}),
        ("without its idle_since", {"idle_since": None}),
        ("no fingerprint", {"fingerprint": "x"}),
        ("no offsets", {"partitions": 0}),
    ):
        with pytest.raises(PlanError, match=match):
            replace(found, groups=[replace(item, **changes)])
    with pytest.raises(PlanError, match="twice"):
        replace(found, groups=[item, item])
    body.unlink()
    with pytest.raises(PlanError, match="missing"):
        load_plan(layout, found.plan_id, prunes=True)
    path.unlink()
    with pytest.raises(PlanError, match="missing"):
        load_plan(layout, found.plan_id, prunes=True)


def test_every_reason_to_keep_a_topic_is_on_the_page_of_formats() -> None:
    page = (Path(__file__).parents[4] / "docs" / "formats.md").read_text()
    assert [name for name in KeptTopic if f"`{name.value}`" not in page] == []
