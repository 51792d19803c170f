"""Keep-alive: who gets the same offsets again, who is left alone, and what the record says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.keep_alive import (
    KeepAliveOutcome,
    KeepAliveReport,
    KeepAliveRequest,
    keep_alive,
)
from airflow_kafka_groups.change.restore import change_offsets as recorded
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, MembershipError, StorageError
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.maintenance_client import OffsetsRetention
from airflow_kafka_groups.kafka.models import GroupState, GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.records import KeptAlive, Verified, log_change
from airflow_kafka_groups.observe.cluster_log import ClusterLog
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, DOUBTS, FakeGroup, broker_error, timeout
from tests.fakes.wanted import want
from tests.pages import DOCS

T0, U1 = TopicPartition("t", 0), TopicPartition("u", 1)
EXACT = {T0: OffsetAndMetadata(5, "as it was", 7), U1: OffsetAndMetadata(0, "", None)}
RETENTION = timedelta(minutes=43_200)


def cluster(**groups: FakeGroup) -> FakeAdmin:
    return FakeAdmin(groups, log=(0, 10))


def simple(**facts: Any) -> FakeGroup:
    facts.setdefault("protocol_type", "")
    return FakeGroup({T0: 5}, **facts)


def at(when: datetime) -> Callable[[], datetime]:
    return lambda: when


async def run(admin: FakeAdmin, folder: Path, *names: str, **changes: Any) -> KeepAliveReport:
    terms = {name: changes.pop(name) for name in ("dry_run", "protects") if name in changes}
    now = changes.pop("now", utc_now)
    asked: dict[str, Any] = {"group_ids": names, "observe_seconds": 0, **changes}
    how = ChangeTerms(**{"dry_run": False, **terms})
    return await keep_alive(admin, Layout(folder, "prod"), KeepAliveRequest(**asked), how, now=now)


def outcomes(report: KeepAliveReport) -> dict[str, str]:
    return {group.group_id: group.outcome.value for group in report.groups}


async def test_exactly_the_same_offsets_are_committed_again_and_recorded(tmp_path: Path) -> None:
    admin = cluster(a=FakeGroup(EXACT, protocol_type=""))
    report = await run(admin, tmp_path, "a")
    assert (outcomes(report), report.summary()["partitions"]) == ({"a": "kept_alive"}, 2)
    assert (admin.asked("alter"), admin.groups["a"].offsets, admin.joined) == (["a"], EXACT, {})
    before, result = (json.loads(path.read_text()) for path in sorted((tmp_path / "prod" / "changes").iterdir()))
    assert (before["what"], before["groups"][0]["before"]) == ("keep-alive", before["groups"][0]["after"])
    assert result["counts"]["changed"] == 1
    assert str(report.path).endswith("-result.json")


async def test_it_is_done_again_only_in_the_last_third_of_the_retention(tmp_path: Path) -> None:
    admin, began = cluster(a=simple()), utc_now()
    first = await run(admin, tmp_path, "a", now=at(began))
    (group,) = first.groups
    assert group.not_before == began + RETENTION
    assert first.next_due == began + RETENTION * 2 / 3
    soon = await run(admin, tmp_path, "a", now=at(began + RETENTION / 2))
    assert (outcomes(soon), soon.path, len(admin.asked("alter"))) == ({"a": "not_due"}, None, 1)
    assert outcomes(await run(admin, tmp_path, "a", now=at(began + RETENTION * 0.7))) == {"a": "kept_alive"}


async def test_a_classic_group_that_had_members_needs_a_membership_which_must_be_allowed(tmp_path: Path) -> None:
    admin = cluster(c=FakeGroup(EXACT))
    report = await run(admin, tmp_path, "c")
    assert (outcomes(report), admin.asked("alter")) == ({"c": "needs_membership"}, [])
    assert "allow_membership" in str(report.problems()["c"])
    assert outcomes(await run(admin, tmp_path, "c", allow_membership=True)) == {"c": "kept_alive"}
    assert admin.joined == {"c": ["t", "u"]}, "brokers drop offsets of other topics while the group is Stable"
    assert admin.call_names.index("alter") < admin.call_names.index("join")
    assert outcomes(await run(admin, tmp_path, "c")) == {"c": "not_due"}


@pytest.mark.parametrize(
    "group",
    [
        simple(members=1, protocol_type="consumer"),
        *(simple(state=state) for state in GroupState if state not in (GroupState.EMPTY, GroupState.UNKNOWN)),
        simple(type=GroupType.SHARE),
        simple(type=GroupType.STREAMS),
        simple(protocol_type="connect"),
        FakeGroup({}, protocol_type=""),
    ],
    ids=lambda group: f"{group.type} {group.state} {group.protocol_type} {group.members}",
)
async def test_a_group_in_use_or_of_another_kind_is_left_alone(tmp_path: Path, group: FakeGroup) -> None:
    admin = cluster(a=group)
    assert outcomes(await run(admin, tmp_path, "a", allow_membership=True)) == {"a": "left_alone"}
    assert {"alter", "join"}.isdisjoint(admin.call_names)


async def test_a_client_that_commits_while_it_is_watched_is_left_alone(tmp_path: Path) -> None:
    admin = cluster(a=simple())

    def move(call: str) -> None:
        if call == "describe":
            admin.commit("a", "t", 0, 6)

    admin.before = move
    assert outcomes(await run(admin, tmp_path, "a")) == {"a": "left_alone"}
    assert admin.groups["a"].positions == {T0: 6}


async def test_a_consumer_that_comes_back_between_commit_and_join_is_not_joined(tmp_path: Path) -> None:
    admin = cluster(c=FakeGroup({T0: 5}))

    def come_back(call: str) -> None:
        if call == "describe" and "alter" in admin.call_names:
            admin.groups["c"].members = 1

    admin.before = come_back
    report = await run(admin, tmp_path, "c", allow_membership=True)
    assert (outcomes(report), admin.joined) == ({"c": "left_alone"}, {})


@pytest.mark.parametrize(("members", "outcome"), [(0, KeepAliveOutcome.FAILED), (1, KeepAliveOutcome.LEFT_ALONE)])
async def test_a_join_that_fails_is_a_failure_unless_somebody_came_back(
    tmp_path: Path, members: int, outcome: KeepAliveOutcome
) -> None:
    admin = cluster(c=FakeGroup({T0: 5}))
    admin.join_errors["c"] = MembershipError("c", "another member joined meanwhile")

    def come_back(call: str) -> None:
        if "join" in admin.call_names:
            admin.groups["c"].members = members

    admin.before = come_back
    report = await run(admin, tmp_path, "c", allow_membership=True)
    assert outcomes(report) == {"c": outcome.value}
    admin.join_errors.clear()
    admin.before = lambda call: None
    admin.groups["c"].members = 0
    assert outcomes(await run(admin, tmp_path, "c", allow_membership=True)) == {"c": "kept_alive"}, "it is still due"


async def test_a_commit_that_no_broker_confirms_does_not_keep_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = cluster(a=simple(), c=FakeGroup({T0: 5}))

    async def refuse(offsets: Mapping[str, Any], **_: Any) -> GroupResults[None]:
        error = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
        return GroupResults([GroupResult(group_id, error=error) for group_id in offsets])

    monkeypatch.setattr(admin, "alter_consumer_group_offsets", refuse)
    report = await run(admin, tmp_path, "a", "c", allow_membership=True)
    assert (outcomes(report), admin.joined) == ({"a": "failed", "c": "failed"}, {})
    assert set(report.problems()) == {"a", "c"}
    assert all(group.not_before is None for group in report.groups)


@pytest.mark.safety
@pytest.mark.parametrize(("slept", "outcome"), [(14, "kept_alive"), (16, "failed")])
async def test_no_commit_leaves_by_a_reading_that_grew_old(
    slept: float, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile a client that commits without membership may have moved the group."""
    admin, now = cluster(a=simple()), [0.0]
    monkeypatch.setattr(clock, "now", lambda: now[0])

    def sleep(call: str) -> None:
        if call == "describe":
            now[0] += slept

    admin.before = sleep
    report = await run(admin, tmp_path, "a")
    assert outcomes(report) == {"a": outcome}
    assert (outcome == "failed") == ("in time" in report.groups[0].reason)


@pytest.mark.parametrize("group", [FakeGroup(EXACT), simple(members=1)], ids=["needs a membership", "in use"])
async def test_what_is_left_alone_is_recorded_without_being_read(tmp_path: Path, group: FakeGroup) -> None:
    admin = cluster(a=group)
    report = await run(admin, tmp_path, "a")
    before, result = (json.loads(path.read_text()) for path in sorted((tmp_path / "prod" / "changes").iterdir()))
    assert [(each["group_id"], each["before"]) for each in before["groups"]] == [("a", [])]
    assert before["groups"][0]["kept"] == report.groups[0].reason
    assert (result["counts"]["kept"], report.groups[0].not_before) == (1, None)
    assert admin.call_names == ["list"]
    dry = await run(admin, tmp_path / "dry", "a", dry_run=True)
    assert (dry.path, (tmp_path / "dry").exists()) == (None, False)


async def test_a_group_that_did_not_answer_is_recorded_all_the_same(tmp_path: Path) -> None:
    admin = cluster()
    admin.missing_brokers = {2: timeout()}
    assert outcomes(await run(admin, tmp_path, "a")) == {"a": "missing"}
    assert set(Ledger(Layout(tmp_path, "prod"), CLUSTER_ID).wanted()) == {"a"}


async def test_a_clock_that_is_behind_the_newest_snapshot_records_the_later_time(tmp_path: Path) -> None:
    taken = {"folder": "other", "snapshot_id": "20400101T000000Z-00000001", "at": "2040-01-01T00:00:00+00:00"}
    ClusterLog(tmp_path, CLUSTER_ID).add({"kind": "snapshot", "identity": None, **taken})
    report = await run(cluster(a=simple()), tmp_path, "a")
    later = datetime(2040, 1, 1, tzinfo=UTC)
    assert Ledger(Layout(tmp_path, "prod"), CLUSTER_ID).wanted() == {"a": KeptAlive(later, later + RETENTION)}
    assert report.groups[0].not_before is not None
    assert report.groups[0].not_before < later, "when it is due again is counted by the worker's own clock"


async def test_a_broker_that_lists_nothing_does_not_keep_the_other_groups_from_being_kept(tmp_path: Path) -> None:
    admin = cluster(a=simple())
    admin.missing_brokers = {2: timeout()}
    report = await run(admin, tmp_path, include=("*",))
    assert outcomes(report) == {"a": "kept_alive"}
    assert "no answer" in str(report.problems()["broker 2"])


@pytest.mark.parametrize(("home", "name"), [(recorded, "write_listing"), (ClusterLog, "create")], ids=["file", "log"])
async def test_nothing_is_committed_that_is_not_recorded_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: object, name: str
) -> None:
    def fail(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(home, name, fail)
    admin = cluster(a=simple())
    with pytest.raises(StorageError):
        await run(admin, tmp_path, "a")
    assert "alter" not in admin.call_names


@pytest.mark.parametrize(
    ("reported", "given", "used"),
    [
        (OffsetsRetention(by_broker={1: 90, 2: 60}, errors={}), None, 60),
        (OffsetsRetention(by_broker={1: 90}, errors={}), 1_000, 90),
        (OffsetsRetention(by_broker={1: 90}, errors={}), 30, 30),
        (OffsetsRetention(by_broker={1: 90}, errors={2: timeout()}), 1_000, 1_000),
        (broker_error("CLUSTER_AUTHORIZATION_FAILED"), 45, 45),
    ],
)
async def test_the_shortest_known_retention_counts(
    tmp_path: Path, reported: OffsetsRetention | KafkaGroupsError, given: int | None, used: int
) -> None:
    admin = cluster(a=simple())
    admin.retention = reported
    report = await run(admin, tmp_path, "a", offsets_retention_minutes=given)
    assert report.clock.retention == timedelta(minutes=used)


@pytest.mark.parametrize("reported", [OffsetsRetention(by_broker={}, errors={1: timeout()}), timeout()])
async def test_without_a_retention_nothing_is_done(
    tmp_path: Path, reported: OffsetsRetention | KafkaGroupsError
) -> None:
    admin = cluster(a=simple())
    admin.retention = reported
    with pytest.raises(ConfigurationError, match=r"offsets_retention_minutes.*no answer"):
        await run(admin, tmp_path, "a")
    assert admin.calls == []


async def test_two_readings_are_some_seconds_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await run(cluster(a=simple()), tmp_path, "a", observe_seconds=12.5)
    assert slept[0] == 12.5


async def test_a_run_on_another_cluster_proves_nothing_of_this_one(tmp_path: Path) -> None:
    assert outcomes(await run(cluster(a=simple()), tmp_path, "a")) == {"a": "kept_alive"}
    admin = cluster(a=simple())
    admin.cluster = "another"
    assert outcomes(await run(admin, tmp_path, "a")) == {"a": "kept_alive"}


async def test_what_the_log_cannot_tell_is_due(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Brokers must not forget a group while somebody mends the storage."""
    admin, layout = cluster(a=simple()), Layout(tmp_path, "prod")
    for group_id in ("x", "y", "z"):
        want(layout, group_id, at=utc_now())
    FILES.remove(ClusterLog(layout.base, CLUSTER_ID).folder / "00000002.json")
    assert outcomes(await run(admin, tmp_path, "a")) == {"a": "kept_alive"}
    assert "so each of them is due: the journal has a gap" in caplog.text


async def test_what_another_connection_keeps_for_less_time_is_due(tmp_path: Path) -> None:
    """Otherwise a clean-up would spare the group by the other's retention alone."""
    admin, layout, began = cluster(a=simple()), Layout(tmp_path, "prod"), utc_now()
    want(Layout(tmp_path, "other"), "a", at=began, lasts=timedelta(hours=1))
    log_change(layout, CLUSTER_ID, Verified(at=began, groups=("a",)))
    report = await run(admin, tmp_path, "a", now=at(began + timedelta(minutes=1)))
    assert outcomes(report) == {"a": "kept_alive"}
    assert Ledger(layout, CLUSTER_ID).wanted()["a"].until > began + RETENTION


def test_named_groups_are_taken_once_and_whether_they_are_listed_or_not() -> None:
    assert KeepAliveRequest(group_ids=("a", "b", "a")).select(["b"]) == ["a", "b"]


def test_patterns_select_among_the_groups_that_are_listed() -> None:
    request = KeepAliveRequest(include=("a*",), exclude=("ab",))
    assert request.select(["a", "ab", "ac", "b"]) == ["a", "ac"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "group_ids, include"),
        ({"group_ids": ("a",), "include": ("b",)}, "group_ids, include"),
        ({"group_ids": ("a",), "exclude": ("b",)}, "group_ids, include"),
        ({"group_ids": (1,)}, "group_ids"),
        ({"include": ("re:[",)}, "include"),
        ({"group_ids": ("a",), "assignors": ()}, "assignors"),
        ({"group_ids": ("a",), "assignors": ("",)}, "assignors"),
        ({"group_ids": ("a",), "offsets_retention_minutes": 0}, "offsets_retention_minutes"),
        ({"group_ids": ("a",), "offsets_retention_minutes": True}, "offsets_retention_minutes"),
        ({"group_ids": ("a",), "observe_seconds": -1}, "observe_seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        KeepAliveRequest(**arguments)


@pytest.mark.parametrize("doubt", DOUBTS.values(), ids=DOUBTS)
async def test_a_group_that_cannot_be_read_has_failed(tmp_path: Path, doubt: dict[str, Any]) -> None:
    """Night after night, until the brokers forget it."""
    admin = cluster(a=simple(), b=simple())
    for name, value in doubt.items():
        setattr(admin, name, value)
    for dry_run in (True, False):
        report = await run(admin, tmp_path, "a", "b", dry_run=dry_run)
        assert outcomes(report)["a"] == "failed"
        assert set(report.problems()) == {"a"}
    assert admin.asked("alter") == ["b"]


@pytest.mark.parametrize(("at", "outcome"), [(2, "failed"), (3, "unknown")], ids=["before", "after"])
async def test_a_group_that_cannot_be_read_beside_its_membership_was_used_by_nobody(
    tmp_path: Path, at: int, outcome: str
) -> None:
    admin = cluster(a=FakeGroup(EXACT))

    def coordinator_goes(call: str) -> None:
        if call == "describe" and len(admin.asked("describe")) == at - 1:
            admin.describe_errors["a"] = timeout()

    admin.before = coordinator_goes
    report = await run(admin, tmp_path, "a", allow_membership=True)
    assert outcomes(report) == {"a": outcome}
    assert "somebody used it" not in report.groups[0].reason
    assert report.problems()


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_protected_group_is_left_alone_whether_a_membership_is_allowed_or_not(
    tmp_path: Path, allowed: bool
) -> None:
    """To allow one, as the reason said otherwise, would not have helped: the task failed each time."""
    admin = cluster(a=FakeGroup(EXACT))
    report = await run(admin, tmp_path, include=("*",), allow_membership=allowed, protects=lambda _: True)
    assert (outcomes(report), report.groups[0].reason) == ({"a": "left_alone"}, "the connection protects it")
    assert report.problems() == {}


async def test_a_run_that_finds_a_group_in_use_makes_it_due_no_earlier(tmp_path: Path) -> None:
    """As the page says: its record is that of the run before, whose commits the brokers still count from."""
    admin, began = cluster(a=simple()), utc_now()
    at_once = await run(admin, tmp_path, "a", now=at(began))
    admin.groups["a"] = simple(members=1)
    in_use = await run(admin, tmp_path, "a", now=at(began + RETENTION * 0.3))
    admin.groups["a"] = simple()
    later = await run(admin, tmp_path, "a", now=at(began + RETENTION * 0.5))
    assert [outcomes(each)["a"] for each in (at_once, in_use, later)] == ["kept_alive", "left_alone", "not_due"]
    page = " ".join((DOCS / "howto" / "keep-alive.md").read_text().split())
    assert "found the group in use changes nothing of that" in page
