from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.admin.results import GroupResult
from airflow_kafka_groups.exceptions import BackupError, PlanError, StorageError, UnsupportedByClientError
from airflow_kafka_groups.maintenance.backup import planned as backup_module
from airflow_kafka_groups.maintenance.backup.file import Backup, load_backup, open_backup
from airflow_kafka_groups.maintenance.backup.groups import BackupEntry, groups_of
from airflow_kafka_groups.maintenance.backup.named import backup_named
from airflow_kafka_groups.maintenance.backup.planned import backup_groups, require_backup_of
from airflow_kafka_groups.maintenance.cluster_view import read_view
from airflow_kafka_groups.maintenance.durable_files import create_file, read_file
from airflow_kafka_groups.maintenance.restore.current_logs import ids_of, recreated_topics
from airflow_kafka_groups.maintenance.restore.from_backup import propose_restore
from airflow_kafka_groups.maintenance.snapshot.group_blocks import GroupBlock
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.models import GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking, broker_error, timeout
from tests.unit.maintenance.scene import LATER, backed_up, delete_plan, layout_in, planned

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def cluster() -> FakeAdmin:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 5), ("t", 1, 6))
    admin.add("b", ("gone", 3, 9))
    admin.groups["b"].offsets[T1] = OffsetAndMetadata(0, 'note "é"', None)
    admin.ends = {T0: (2, 50), T1: (0, 7)}
    return admin


async def test_a_backup_holds_all_that_a_restore_needs(tmp_path: Path) -> None:
    admin = cluster()
    layout = layout_in(tmp_path)
    plan, backup = await backed_up(admin, layout)
    assert (sorted(backup.entries), dict(backup.not_backed_up), backup.rows) == (["a", "b"], {}, 4)
    assert require_backup_of(backup, plan) is backup
    first, second = open_backup(layout, plan.plan_id)[1]
    assert dict(first.offsets) == admin.groups["a"].offsets
    assert dict(second.offsets) == admin.groups["b"].offsets
    assert first.log_ends == {T0: (2, 50), T1: (0, 7)}
    assert second.log_ends == {TopicPartition("gone", 3): (None, None), T1: (0, 7)}
    assert (second.entry.group_type, second.entry.protocol_type) == ("classic", "consumer")
    assert second.entry.fingerprint == plan.groups[[g.group_id for g in plan.groups].index("b")].fingerprint
    (row, *_) = pq.read_table(backup.path).to_pylist()
    assert (row["cluster"], row["kafka_cluster_id"], row["plan_id"]) == ("prod", plan.kafka_cluster_id, plan.plan_id)
    manifest = json.loads((tmp_path / "prod" / "backups" / f"{plan.plan_id}.json").read_text())
    data = read_file(Path(backup.path)) or b""
    assert manifest["file"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert (manifest["plan_digest"], manifest["groups"]) == (plan.digest, 2)
    assert backup.to_json()["groups"] == 2


async def test_offsets_are_read_with_open_transactions_in_mind(tmp_path: Path) -> None:
    admin = cluster()
    await backed_up(admin, layout_in(tmp_path))
    assert sorted(admin.asked("stable offsets")) == ["a", "b"]


ERRORS = [code for code in ErrorCode if code is not ErrorCode.none]


@pytest.fixture(scope="module")
def backup_with_every_error(tmp_path_factory: pytest.TempPathFactory) -> Backup:
    """Back up a group for each error code, with which its offsets are refused, and the two of the cluster."""
    admin = cluster()
    for code in ERRORS:
        admin.add(code.name, ("t", 0, 5))
    layout = layout_in(tmp_path_factory.mktemp("errors"))

    async def run() -> Backup:
        plan = await planned(admin, layout)
        admin.offset_errors.update({code.name: broker_error(code.name.upper()) for code in ERRORS})
        return await backup_groups(admin, layout, plan, now=Ticking(LATER))

    return asyncio.run(run())


@pytest.mark.parametrize("code", ERRORS)
def test_no_error_reads_as_a_backup(code: ErrorCode, backup_with_every_error: Backup) -> None:
    assert sorted(backup_with_every_error.entries) == ["a", "b"]
    assert code.name.upper() in backup_with_every_error.not_backed_up[code.name]


async def test_what_moved_vanished_or_did_not_answer_is_not_backed_up(tmp_path: Path) -> None:
    admin = cluster()
    for name in ("moved", "vanished", "silent", "noted"):
        admin.add(name, ("t", 0, 1))
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    admin.commit("moved", "t", 0, 2)
    admin.groups["noted"].offsets[T0] = OffsetAndMetadata(1, "still here", 3)
    del admin.groups["vanished"]
    admin.silent.add("silent")
    backup = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    assert sorted(backup.entries) == ["a", "b"]
    assert {name: reason.split(":")[0] for name, reason in backup.not_backed_up.items()} == {
        "moved": "its offsets moved since the plan was made",
        "noted": "its offsets moved since the plan was made",
        "vanished": "no committed offset is visible any more",
        "silent": "could not be read",
    }
    assert load_backup(layout, plan.plan_id) == backup


async def test_an_empty_plan_has_an_empty_backup(tmp_path: Path) -> None:
    _, backup = await backed_up(FakeAdmin(), layout_in(tmp_path))
    assert (dict(backup.entries), backup.rows) == ({}, 0)


async def test_a_repeated_run_keeps_the_backup_of_what_is_deleted_by_now(tmp_path: Path) -> None:
    admin = cluster()
    layout = layout_in(tmp_path)
    plan, first = await backed_up(admin, layout)
    admin.groups.clear()
    again = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    assert again == first
    assert len(list(open_backup(layout, plan.plan_id)[1])) == 2


@pytest.mark.safety
@pytest.mark.parametrize("when", ["offsets", "log ends"])
async def test_a_slow_run_does_not_replace_the_backup_of_what_is_deleted_by_now(tmp_path: Path, when: str) -> None:
    """Airflow takes a worker for dead and runs the task again; the first one goes on, and finds the groups gone."""
    admin = cluster()
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    slow = FakeAdmin(dict(admin.groups))
    first: list[Backup] = []

    def meanwhile(call: str) -> None:
        if call == {"offsets": "stable offsets", "log ends": "list_offsets"}[when] and not first:
            with ThreadPoolExecutor(1) as pool:
                backing_up = backup_groups(admin, layout, plan, now=Ticking(LATER))
                first.append(pool.submit(asyncio.run, backing_up).result())
            slow.groups.clear()

    slow.before = meanwhile
    late = await backup_groups(slow, layout, plan, now=Ticking(LATER))
    assert load_backup(layout, plan.plan_id).entries == first[0].entries
    assert sorted(late.entries) == ["a", "b"]


@pytest.mark.safety
async def test_a_try_that_died_before_its_manifest_stands_in_nobodys_way(tmp_path: Path) -> None:
    admin = cluster()
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    folder = tmp_path / "prod" / "backups"
    folder.mkdir()
    (folder / f"{plan.plan_id}.parquet").write_bytes(b"half, by a version with one name for all tries")
    (folder / f"{plan.plan_id}-00000000.parquet").write_bytes(b"half")
    with pytest.raises(BackupError, match="there is no backup"):
        load_backup(layout, plan.plan_id)
    backup = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    assert sorted(backup.entries) == ["a", "b"]
    assert (folder / f"{plan.plan_id}-00000000.parquet").read_bytes() == b"half"


@pytest.mark.safety
async def test_of_two_tries_at_once_the_first_manifest_counts_and_nothing_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = cluster()
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    create, first = create_file, list[Backup]()

    def create_after_another(path: Any, data: bytes) -> None:
        if path.name.endswith(".json") and not first:
            monkeypatch.setattr(backup_module, "create_file", create)
            with ThreadPoolExecutor(1) as pool:
                first.append(pool.submit(asyncio.run, backup_groups(admin, layout, plan, now=Ticking(LATER))).result())
            admin.groups.clear()  # and deleted by it
        create(path, data)

    monkeypatch.setattr(backup_module, "create_file", create_after_another)
    late = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    assert late == first[0] == load_backup(layout, plan.plan_id)


@pytest.mark.safety
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("rows", "SHA-256 differs"),
        ("number of rows", "has 4 rows instead of 5"),
        ("plan_digest", "does not belong to plan"),
        ("kafka_cluster_id", "rows of another plan or cluster"),
    ],
)
async def test_what_lies_in_the_storage_after_the_manifest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, expected: str
) -> None:
    """The rows are not decoded twice, but they are read again, and compared with what was decoded."""
    admin = cluster()
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)

    def create_and_change(path: Path, data: bytes) -> None:
        manifest = json.loads(data) if path.name.endswith(".json") else None
        if manifest is not None and changed == "rows":
            file = path.parent / manifest["file"]["name"]
            file.write_bytes(file.read_bytes()[:-1] + b"!")
        elif manifest is not None and changed == "number of rows":
            manifest["file"]["rows"] += 1
        elif manifest is not None:
            manifest[changed] = "another"
        create_file(path, data if manifest is None else json.dumps(manifest).encode())

    monkeypatch.setattr(backup_module, "create_file", create_and_change)
    with pytest.raises(BackupError, match=expected):
        await backup_groups(admin, layout, plan, now=Ticking(LATER))


@pytest.mark.safety
async def test_a_storage_error_is_no_proof_that_there_is_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = cluster()
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.groups.clear()

    def fail(self: Path) -> bytes:
        raise PermissionError(13, "not now")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(StorageError, match="not now"):
        await backup_groups(admin, layout, plan, now=Ticking(LATER))


async def test_a_plan_that_does_not_apply_is_not_backed_up(tmp_path: Path) -> None:
    admin = cluster()
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    with pytest.raises(PlanError, match="expired"):
        await backup_groups(admin, layout, plan, now=Ticking(plan.expires_at))
    with pytest.raises(PlanError, match="approved"):
        await backup_groups(admin, layout, plan, now=Ticking(LATER), approved_digest="0" * 64)
    with pytest.raises(BackupError, match="not for 'other'"):
        await backup_groups(admin, Layout(tmp_path, "other"), plan, now=Ticking(LATER))
    admin.cluster = "another"
    with pytest.raises(PlanError, match="check the connection"):
        await backup_groups(admin, layout, plan, now=Ticking(LATER))
    assert not (tmp_path / "prod" / "backups").exists()


async def test_reading_that_fails_as_a_whole_leaves_no_backup(tmp_path: Path) -> None:
    admin = cluster()
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)

    def crash(call: str) -> None:
        if call == "list_offsets":
            raise timeout()

    admin.before = crash
    with pytest.raises(TimeoutError):
        await backup_groups(admin, layout, plan, now=Ticking(LATER))
    with pytest.raises(BackupError, match="there is no backup"):
        load_backup(layout, plan.plan_id)


@pytest.mark.safety
async def test_a_client_that_cannot_learn_topic_ids_backs_up_without_them_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def unsupported(_topics: object) -> dict[str, str]:
        raise UnsupportedByClientError("sasl.mechanism", None, "no Kerberos")

    admin = cluster()
    monkeypatch.setattr(admin, "topic_ids", unsupported)
    _, backup = await backed_up(admin, layout_in(tmp_path))
    assert dict(backup.topic_ids) == {}
    assert "a restore may not notice a recreated topic: sasl.mechanism: no Kerberos" in caplog.text
    known = replace(backup, topic_ids={"t": "id-of-t"})
    with pytest.raises(UnsupportedByClientError):
        await recreated_topics(admin, ids_of(known))


class Recreating(FakeAdmin):
    """A cluster where somebody deletes ``t`` and creates it again while offsets are being read.

    :param created_only: whether ``t`` does not exist before: the offsets are those of a topic that was deleted earlier.
    """

    def __init__(self, created_only: bool) -> None:
        super().__init__()
        self.recreates = False
        self.created_only = created_only

    async def stream_consumer_group_offsets(
        self, groups: Any, *, require_stable: bool = False
    ) -> AsyncIterator[GroupResult[GroupOffsets]]:
        async for result in super().stream_consumer_group_offsets(groups, require_stable=require_stable):
            yield result
        if self.recreates and require_stable:
            self.ids["t"] = "id-of-the-new-t"


@pytest.mark.safety
@pytest.mark.parametrize("created_only", [False, True])
@pytest.mark.parametrize("how", ["by plan", "by plan without its snapshot", "by name"])
async def test_a_topic_that_is_recreated_while_offsets_are_read_is_not_restored(
    tmp_path: Path, how: str, created_only: bool
) -> None:
    admin = Recreating(created_only)
    admin.add("a", ("t", 0, 5), ("u", 1, 6))
    admin.ids = {"t": "id-of-t", "u": "id-of-u"}
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    if created_only:
        del admin.ids["t"]
    if how == "by plan without its snapshot":
        layout.manifest(plan.snapshot_id).unlink()
    admin.recreates = True
    admin.forget_calls()
    if how == "by name":
        backup = await backup_named(admin, layout, group_ids=["a"])
    else:
        backup = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    if created_only and how != "by name":  # it is not to be deleted by a backup that a restore would use in part
        assert (dict(backup.entries), list(backup.not_backed_up)) == ({}, ["a"])
        return
    assert list(backup.entries) == ["a"]
    assert backup.topic_ids == {"t": "" if created_only else "id-of-t", "u": "id-of-u"}
    was = "not known when the offsets were read" if created_only else "id-of-t"
    reason = f"the topic was recreated: its id is id-of-the-new-t and was {was}"
    assert await recreated_topics(admin, ids_of(load_backup(layout, backup.plan_id))) == {"t": reason}
    assert admin.call_names.count("offsets") == (how != "by plan"), "a plan's snapshot has the topics"


class Upgraded(FakeAdmin):
    """A cluster whose brokers begin to tell the ids of topics while offsets are being read, as in an upgrade to 2.8."""

    upgrades = False

    async def stream_consumer_group_offsets(
        self, groups: Any, *, require_stable: bool = False
    ) -> AsyncIterator[GroupResult[GroupOffsets]]:
        async for result in super().stream_consumer_group_offsets(groups, require_stable=require_stable):
            yield result
        if self.upgrades and require_stable:
            self.ids = {"t": "id-of-t", "u": "id-of-u"}


@pytest.mark.safety
@pytest.mark.parametrize("upgrades", [False, True])
async def test_what_is_deleted_in_an_upgrade_to_brokers_with_topic_ids_can_be_restored(
    tmp_path: Path, upgrades: bool
) -> None:
    admin = Upgraded()
    admin.add("a", ("t", 0, 5))
    admin.add("b", ("u", 1, 6))
    admin.ends = {T0: (0, 50), TopicPartition("u", 1): (0, 7)}
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    admin.upgrades = upgrades
    backup = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    await delete_plan(admin, layout, plan)
    for group_id in {"a", "b"}.difference(admin.groups):
        (change,) = await propose_restore(admin, layout, plan.plan_id, group_ids=[group_id])
        assert (change.kept, change.skipped) == (None, {})
    assert sorted(backup.entries) == ([] if upgrades else ["a", "b"])
    assert sorted(backup.not_backed_up) == (["a", "b"] if upgrades else [])
    assert all("got its id only while" in reason for reason in backup.not_backed_up.values())


class HalfUpgraded(FakeAdmin):
    """A cluster in the middle of such an upgrade: whether ids are told depends on the broker that is asked."""

    untold = 0

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        self.untold -= 1
        return {} if self.untold >= 0 else await super().topic_ids(topics)


@pytest.mark.safety
@pytest.mark.parametrize(("untold", "saved"), [(0, ["a"]), (1, []), (2, ["a"]), (3, ["a"])])
async def test_whichever_broker_tells_the_ids_of_topics_what_is_deleted_can_be_restored(
    tmp_path: Path, untold: int, saved: list[str]
) -> None:
    admin, layout = HalfUpgraded(), layout_in(tmp_path)
    admin.add("a", ("t", 0, 5))
    admin.ends, admin.ids = {T0: (0, 50)}, {"t": "id-of-t"}
    plan = await planned(admin, layout)
    admin.untold = untold
    backup = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    assert list(backup.entries) == saved
    await delete_plan(admin, layout, plan)
    admin.untold = 0
    for group_id in {"a"}.difference(admin.groups):
        (change,) = await propose_restore(admin, layout, plan.plan_id, group_ids=[group_id])
        assert (change.kept, change.skipped) == (None, {})


@pytest.mark.safety
async def test_a_broker_that_tells_no_ids_where_another_one_told_some_leaves_the_others_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot knows the ids of a sample of topics, and a restore takes one without an id for recreated then."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("a", ("t", 0, 5))
    admin.add("b", ("u", 1, 6))
    admin.ends = {T0: (0, 50), TopicPartition("u", 1): (0, 7)}
    admin.ids = {"t": "id-of-t", "u": "id-of-u"}
    plan = replace(await planned(admin, layout), view=await read_view(admin, ["t"]))
    upgraded = iter([True, False, False])  # the brokers that are asked from now on: the first compares the clusters

    async def told(topics: Iterable[str]) -> dict[str, str]:
        return {topic: admin.ids[topic] for topic in topics} if next(upgraded, True) else {}

    monkeypatch.setattr(admin, "topic_ids", told)
    backup = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    assert (list(backup.entries), list(backup.not_backed_up)) == (["a"], ["b"])
    (change,) = await propose_restore(admin, layout, plan.plan_id)
    assert (change.kept, change.skipped) == (None, {})


class SlowToAnswer(FakeAdmin):
    """A cluster whose group ``a`` cannot be read at first."""

    fails_now = False

    async def stream_consumer_group_offsets(
        self, groups: Any, *, require_stable: bool = False
    ) -> AsyncIterator[GroupResult[GroupOffsets]]:
        async for result in super().stream_consumer_group_offsets(groups, require_stable=require_stable):
            failed = self.fails_now and not require_stable and result.group_id == "a"
            yield GroupResult("a", error=timeout()) if failed else result


@pytest.mark.safety
async def test_a_group_whose_topics_no_restore_would_have_is_not_deleted(tmp_path: Path) -> None:
    """Their ids were not known when its offsets were read: its backup could be deleted by, and not restored from."""
    admin = SlowToAnswer()
    admin.add("a", ("t", 0, 5))
    admin.add("b", ("u", 1, 6))
    admin.ids = {"t": "id-of-t", "u": "id-of-u"}
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    layout.manifest(plan.snapshot_id).unlink()
    admin.fails_now = True
    backup = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    assert (list(backup.entries), list(backup.not_backed_up), backup.topic_ids) == (["b"], ["a"], {"u": "id-of-u"})
    assert "its topics could not be read" in backup.not_backed_up["a"]


async def test_a_client_that_cannot_learn_topic_ids_may_learn_topics_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def unsupported(_topics: object) -> dict[str, str]:
        raise UnsupportedByClientError("sasl.mechanism", None, "no Kerberos")

    admin = SlowToAnswer()
    admin.fails_now = True
    admin.add("a", ("t", 0, 5))
    monkeypatch.setattr(admin, "topic_ids", unsupported)
    backup = await backup_named(admin, layout_in(tmp_path), group_ids=["a"])
    assert (list(backup.entries), dict(backup.topic_ids)) == (["a"], {})
    assert "a restore may not notice a recreated topic" in caplog.text


async def test_topics_without_an_id_are_left_out_of_it(tmp_path: Path) -> None:
    admin = cluster()
    admin.ids = {"t": "id-of-t", "elsewhere": "id"}
    _, backup = await backed_up(admin, layout_in(tmp_path))
    assert backup.topic_ids == {"t": "id-of-t"}


@pytest.mark.safety
async def test_a_topic_that_was_gone_at_the_backup_and_is_there_again_is_another(tmp_path: Path) -> None:
    """Brokers keep offsets of a deleted topic for a while: without id and log, any log that has them seemed right."""
    admin = cluster()
    admin.ids = {"t": "id-of-t"}
    layout = layout_in(tmp_path)
    admin.ends[TopicPartition("gone", 3)] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    plan, _ = await backed_up(admin, layout)
    del admin.groups["b"]
    admin.ends[TopicPartition("gone", 3)] = (0, 20)
    (there,) = await propose_restore(admin, layout, plan.plan_id, group_ids=["b"])
    assert set(there.after) == {TopicPartition("gone", 3), T1}, "where nobody tells ids, the logs alone decide"
    admin.ids["gone"] = "id-of-a-new-one"
    (change,) = await propose_restore(admin, layout, plan.plan_id, group_ids=["b"])
    assert set(change.after) == {T1}
    assert "its id is id-of-a-new-one and was not known" in change.skipped[TopicPartition("gone", 3)]


def test_rows_of_a_topic_that_lie_apart_come_together_and_keep_their_order() -> None:
    names = ("topic", "partition", "committed_offset", "leader_epoch", "metadata", "log_start", "log_end")
    rows = [
        ("x", 9, 90, 1, "", 0, 99),  # of a group before: the columns of the next one begin in the middle
        ("t", 1, 10, None, "", 0, 11),
        ("u", 0, 20, 2, "m", None, None),
        ("t", 0, 30, 3, "", 1, 31),
    ]
    types = (pa.string(), pa.int32(), pa.int64(), pa.int32(), pa.string(), pa.int64(), pa.int64())
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)]
    ids = pa.array(["before", "g", "g", "g"])
    block = GroupBlock(pa.record_batch([ids, *columns], names=["group_id", *names]).slice(1))
    entry = BackupEntry(group_id="g", group_type="classic", protocol_type="consumer", partitions=3, fingerprint="f")
    (group,) = groups_of(block, [entry])
    assert [(topic.topic, len(topic)) for topic in group.offsets.topics] == [("t", 2), ("u", 1)]
    assert dict(group.offsets) == {
        TopicPartition("t", 1): OffsetAndMetadata(10),
        TopicPartition("t", 0): OffsetAndMetadata(30, "", 3),
        TopicPartition("u", 0): OffsetAndMetadata(20, "m", 2),
    }
    assert group.log_ends == {
        TopicPartition("t", 1): (0, 11),
        TopicPartition("t", 0): (1, 31),
        TopicPartition("u", 0): (None, None),
    }


@pytest.mark.safety
async def test_a_topic_that_was_recreated_since_the_plan_keeps_the_id_that_the_plan_saw(tmp_path: Path) -> None:
    admin = cluster()
    admin.ids = {topic: f"id-of-{topic}" for topic in ("t", "gone", "x", "y")}
    layout = layout_in(tmp_path)
    plan = replace(await planned(admin, layout), view=await read_view(admin, admin.ids))
    admin.ids["t"] = "id-of-the-new-t"
    backup = await backup_groups(admin, layout, plan, now=Ticking(LATER))
    assert dict(backup.topic_ids) == {"t": "id-of-t", "gone": "id-of-gone"}
    assert list(await recreated_topics(admin, ids_of(load_backup(layout, plan.plan_id)))) == ["t"]
