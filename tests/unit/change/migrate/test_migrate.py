"""A migration: its plan, what is refused, how it is applied, and what an interruption leaves."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.make_backup import BackupRequest, back_up
from airflow_kafka_groups.change.migrate import MigrateRequest
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms, RecordedChanges, change_offsets
from airflow_kafka_groups.change.restore.drill import rehearse
from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.records import LogRecord
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout, ignore_progress
from tests.fakes.groups import FakeGroup, broker_error
from tests.fakes.mirrors import RecordedAdmin, record

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def log(count: int = 10, *, first: int = 0, shift: int = 0, mirror: bool = False) -> tuple[int, list[LogRecord], int]:
    """Return a log of records a second apart; as a mirror, each names its source offset."""
    found = [record(at - shift, at * 1000, str(at), at if mirror else None) for at in range(first, count)]
    return found[0].offset, found, found[-1].offset + 1


class Scene:
    """Two clusters: records of ``t`` are three offsets lower in the target, which begins with the fourth."""

    def __init__(self, tmp_path: Path, groups: dict[str, dict[TopicPartition, Any]]) -> None:
        logs = {T0: log(), T1: log()}
        self.source = RecordedAdmin("west", logs, {name: FakeGroup(of) for name, of in groups.items()})
        mirrored = log(first=3, shift=3, mirror=True)
        self.target = RecordedAdmin("east", {T0: mirrored, T1: mirrored})
        self.layout = Layout(tmp_path, "east")

    def request(self, **asked: Any) -> MigrateRequest:
        made = {"source": lambda: self.source, "group_ids": ["a"], "method": "header", **asked}
        return MigrateRequest(**made)

    async def run(self, request: MigrateRequest, *, dry_run: bool = False) -> RecordedChanges:
        terms = ChangeTerms(dry_run=dry_run, protects=lambda name: name == "protected")
        return await change_offsets(self.target, self.layout, request, terms)

    async def planned(self, **asked: Any) -> MigrateRequest:
        """Return a request that has written its plan."""
        await self.run(dry := self.request(**asked), dry_run=True)
        return dry

    def offsets(self, group_id: str = "a") -> dict[TopicPartition, int]:
        group = self.target.groups.get(group_id)
        return {} if group is None else {where: each.offset for where, each in group.offsets.items()}


def outcomes(done: RecordedChanges) -> dict[str, tuple[str, str]]:
    return {each.group_id: (each.outcome.value, each.reason) for each in done.results}


@pytest.mark.parametrize("method", ["header", "payload", "timestamp"])
async def test_a_group_gets_its_positions_with_their_metadata(tmp_path: Path, method: str) -> None:
    scene = Scene(tmp_path, {"a": {T0: OffsetAndMetadata(5, metadata="by hand"), T1: 10}})
    done = await scene.run(scene.request(method=method, position="exact"))
    assert outcomes(done)["a"][0] == "changed"
    assert scene.target.groups["a"].offsets == {T0: OffsetAndMetadata(2, metadata="by hand"), T1: OffsetAndMetadata(7)}


async def test_a_dry_run_writes_a_plan_that_is_applied_as_it_is(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a": {T0: 5}})
    dry = await scene.planned()
    assert scene.offsets() == {}
    scene.source.commit("a", "t", 0, 8)  # the plan is what was approved
    plan = dry.made
    await scene.run(MigrateRequest(plan_id=plan.plan_id, plan_digest=plan.digest))
    assert scene.offsets() == {T0: 2}
    facts = json.loads((tmp_path / "east" / "changes" / f"{plan.plan_id}-plan.json").read_text())
    assert (facts["facts"]["method"], facts["facts"]["position"]) == ("header", "at-or-before")
    assert [row[1:6] for row in plan.rows()] == [("t", 0, 5, "t", 0)]


async def test_a_plan_is_rehearsed_with_scratch_groups_whatever_is_in_the_target(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a": {T0: 5, T1: 2}, "b": {T0: 6}})
    scene.target.groups["b"] = FakeGroup({T0: 1}, members=1)
    dry = await scene.planned(group_ids=["a", "b"])
    plan = MigrateRequest(plan_id=dry.made.plan_id, plan_digest=dry.made.digest)
    changes = await plan.rehearse(scene.target, scene.layout, 20)
    report = await rehearse(scene.target, dry.made.plan_id, changes, scratch_prefix="x.", progress=ignore_progress)
    assert (report.backup_id, report.restored, report.partitions) == (dry.made.plan_id, ("a", "b"), 2)
    assert (list(report.skipped), report.failed, report.left) == (["a: t[1]"], {}, {})
    assert (set(scene.target.groups), scene.offsets("b")) == ({"b"}, {T0: 1})


async def test_a_plan_that_was_changed_or_is_of_another_target_is_not_applied(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a": {T0: 5}})
    dry = await scene.planned()
    plan = dry.made
    again: dict[str, Any] = {"plan_id": plan.plan_id, "plan_digest": plan.digest}
    with pytest.raises(MaintenanceError, match="not the one that was approved"):
        await scene.run(MigrateRequest(**{**again, "plan_digest": "0" * 64}))
    scene.target.cluster = "south"
    with pytest.raises(MaintenanceError, match="check the connection"):
        await scene.run(MigrateRequest(**again))
    assert scene.offsets() == {}


async def test_what_has_no_counterpart_is_left_out_with_the_reason(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a": {T0: 5, T1: 2, U0: 1}})
    done = await scene.run(scene.request())
    (result,) = done.results
    assert scene.offsets() == {T0: 2}
    assert "the target has no topic 'u'" in result.skipped["u[0]"]
    assert "first record is 3 of the source, and 2 is left to be read" in result.skipped["t[1]"]


async def test_mirrors_may_have_other_names(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a": {T0: 5, T1: 5}})
    for where in (T0, T1):
        there = TopicPartition("west.t", where.partition)
        scene.target.ends[there], scene.target.records[there] = scene.target.ends[where], scene.target.records[where]
    await scene.run(scene.request(topic_pattern="west.{topic}"))
    assert {where.topic for where in scene.offsets()} == {"west.t"}
    with pytest.raises(ConfigurationError, match="two partitions of the source have the same counterpart"):
        await scene.run(scene.request(mapping={"t:0": "t:1"}))


async def test_groups_with_members_offsets_or_protection_are_kept(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {name: {T0: 5} for name in ("live", "used", "protected")})
    scene.target.groups["live"] = FakeGroup({}, members=1)
    scene.target.groups["used"] = FakeGroup({T0: 4})
    done = await scene.run(scene.request(group_ids=None))
    assert {name: outcome for name, (outcome, _) in outcomes(done).items()} == dict.fromkeys(
        ("live", "used", "protected"), "kept"
    )
    assert scene.offsets("used") == {T0: 4}
    await scene.run(scene.request(group_ids=["used"], existing="lower"))
    assert scene.offsets("used") == {T0: 2}


async def test_what_cannot_be_read_fails_and_is_not_taken_for_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a": {T0: 5}})
    scene.source.offset_errors["a"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    done = await scene.run(scene.request())
    assert "cannot be read" in str(done.failures()["a"])
    scene.source.offset_errors.clear()
    scene.target.ends[T0] = broker_error("NOT_LEADER_OR_FOLLOWER")
    assert "a" in (await scene.run(scene.request())).failures()


async def test_each_time_of_a_partition_is_asked_for_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {f"g{number}": {T0: 5 + number % 3, T1: 5} for number in range(300)})
    await scene.run(scene.request(group_ids=None, method="payload"), dry_run=True)
    asked = [name for name, _ in scene.target.calls if name == "list_offsets"]
    assert len(asked) == 2 + 3 + 2  # log ends for the plan and for the proposal, and three times of one partition


@pytest.mark.parametrize(
    "asked",
    [
        {"method": None},
        {"source": None},
        {"backup_id": "20260101T000000-00000000"},
        {"topic_pattern": "orders"},
        {"plan_id": "20260101T000000-00000000"},
    ],
)
async def test_a_request_that_cannot_be_is_refused(tmp_path: Path, asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Scene(tmp_path, {}).request(**asked)


async def test_the_source_may_be_gone_when_there_is_a_backup(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a": {T0: 5}, "b": {T0: 6}})
    scene.source.ids["t"] = "id-1"
    saved = await back_up(scene.source, Layout(tmp_path, "west"), BackupRequest(group_ids=["a", "b"]))
    asked = {"backup_id": saved.plan_id, "source_cluster": "west"}
    await scene.run(scene.request(source=None, **asked))
    assert (scene.offsets("a"), scene.offsets("b")) == ({T0: 2}, {})
    scene.source.ids["t"] = "id-2"
    done = await scene.run(scene.request(group_ids=["b"], **asked))
    assert "the topic was recreated: its id is id-2 and was id-1" in outcomes(done)["b"][1]
    scene.source.cluster = "north"
    with pytest.raises(ConfigurationError, match="is of Kafka cluster 'west', and the source is 'north'"):
        await scene.run(scene.request(**asked))
    scene.target.cluster = "west"
    with pytest.raises(ConfigurationError, match="both clusters have the id 'west'"):
        await scene.run(scene.request(source=None, **asked))


@pytest.mark.promise(6)
async def test_a_plan_is_not_applied_to_a_group_that_came_to_life_since(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a": {T0: 5}})
    dry = await scene.planned()
    scene.target.groups["a"] = FakeGroup({}, members=1)
    await take_snapshot(scene.target, Layout(tmp_path, "other"))
    scene.target.groups["a"] = FakeGroup({})
    done = await scene.run(MigrateRequest(plan_id=dry.made.plan_id, plan_digest=dry.made.digest))
    assert "it had a member" in outcomes(done)["a"][1]


@pytest.mark.parametrize(
    ("method", "marks", "wanted"),
    [
        ("offset-syncs", [(3, 0), (6, 3)], ""),
        ("checkpoints", [(3, 0)], ""),
        ("offset-syncs", [(4, 900)], "beyond the target's log end 7"),
    ],
)
async def test_pairs_of_mirror_maker_are_read(
    tmp_path: Path, method: str, marks: list[tuple[int, int]], wanted: str
) -> None:
    scene = Scene(tmp_path, {"a": {T0: 5}})
    where = TopicPartition("syncs", 0)
    key = struct.pack(">h1si", 1, b"t", 0)
    records = [
        LogRecord(at, 0, key, struct.pack(">qq", *pair), ())
        if method == "offset-syncs"
        else LogRecord(at, 0, struct.pack(">hh1s", 0, 1, b"g") + key, struct.pack(">hqqh", 0, *pair, 0), ())
        for at, pair in enumerate(marks)
    ]
    scene.source.records[where], scene.source.ends[where] = records, (0, len(records))
    request = scene.request(method=method, mirror_topic="syncs")
    done = await scene.run(request)
    if "beyond" in wanted:
        assert wanted in outcomes(done)["a"][1]
    else:
        at = {"offset-syncs": 1, "checkpoints": 0}[method]
        assert (scene.offsets(), request.made.summary()["distance"]) == ({T0: at}, 1 if at else 9)
        assert done.summary()["rereads"] == request.made.summary()["distance"]
    scene.source.records[where] = [LogRecord(0, 0, b"k", b"v", ())]
    with pytest.raises(MaintenanceError, match="of MirrorMaker 2"):
        await scene.run(scene.request(method=method, mirror_topic="syncs"))
