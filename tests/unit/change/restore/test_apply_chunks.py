"""Changes of many groups: in chunks, the next one judged while one is written."""

import asyncio
from typing import Any

import pytest

from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.exceptions import ConnectionFailedError, MaintenanceError
from airflow_kafka_groups.kafka.cluster.routing import offsets_partitions
from airflow_kafka_groups.kafka.models import OffsetAndMetadata
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, counts_of
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.change.restore.test_apply import AFTER, BEFORE, T0, cluster


async def test_each_change_has_one_result_in_order_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_kafka_groups.change.restore.commit_changes._CHUNK_GROUPS", 200)
    names = [f"g{number}" for number in range(401)]
    admin = cluster(**{name: FakeGroup({T0: 5}) for name in names})
    changes = [Change(group_id=name, before=BEFORE, after=AFTER) for name in names]
    changes[1] = Change(group_id="g1", kept="the proposal says so")
    told: list[tuple[str, int, int]] = []
    results = await apply_changes(admin, changes, dry_run=False, progress=lambda *args: told.append(args))
    assert [result.group_id for result in results] == names
    assert counts_of(results) == dict.fromkeys(ChangeOutcome, 0) | {"changed": 400, "kept": 1}
    assert results[1].reason == "the proposal says so"
    assert told == [("commit", 200, 401), ("commit", 400, 401), ("commit", 401, 401)]
    assert "g1" not in admin.asked("describe"), "what is kept anyway is not asked about"
    assert admin.groups["g1"].positions == {T0: 5}


async def test_a_chunk_has_many_groups_of_few_partitions_of_the_offsets_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers write and replicate commits of one partition together; neighbours have different leaders."""
    monkeypatch.setattr("airflow_kafka_groups.change.restore.commit_changes._CHUNK_GROUPS", 100)
    names = [f"group-{number:04d}" for number in range(2_000)]
    admin = cluster(**{name: FakeGroup({T0: 5}) for name in names})
    admin.hosts = {1: "b1", 2: "b2"}
    chunks: list[set[int]] = []
    write = admin.alter_consumer_group_offsets

    async def note(offsets: Any, **how: Any) -> Any:
        chunks.append(set(offsets_partitions(list(offsets), 50)))
        return await write(offsets, **how)

    monkeypatch.setattr(admin, "alter_consumer_group_offsets", note)
    changes = [Change(group_id=name, before=BEFORE, after=AFTER) for name in names]
    results = await apply_changes(admin, changes, dry_run=False)
    assert [result.group_id for result in results] == names
    assert {result.outcome for result in results} == {ChangeOutcome.CHANGED}
    assert sorted(admin.asked("alter")) == names
    assert len(chunks) == 20
    assert all(len(chunk) <= 3 * 4 for chunk in chunks), "as given, each would have groups of nearly all partitions"
    assert all({of % 2 for of in chunk} == {0, 1} for chunk in chunks)


async def test_the_order_of_commits_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_kafka_groups.change.restore.commit_changes._CHUNK_GROUPS", 100)
    names = [f"group-{number:04d}" for number in range(201)]
    admin = cluster(**{name: FakeGroup({T0: 5}) for name in names})

    async def unknown() -> Any:
        raise ConnectionFailedError("b1:9092", "refused")

    monkeypatch.setattr(admin, "brokers", unknown)
    changes = [Change(group_id=name, before=BEFORE, after=AFTER) for name in names]
    results = await apply_changes(admin, changes, dry_run=False)
    assert [result.group_id for result in results] == names
    assert {result.outcome for result in results} == {ChangeOutcome.CHANGED}


async def test_the_next_chunk_is_judged_while_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_kafka_groups.change.restore.commit_changes._CHUNK_GROUPS", 1)
    monkeypatch.setattr("airflow_kafka_groups.change.restore.commit_changes._CHUNKS_AT_ONCE", 2)
    names = ["a", "b", "c"]
    admin = cluster(**{name: FakeGroup({T0: 5}) for name in names})
    write, waiting = admin.alter_consumer_group_offsets, asyncio.Event()

    async def slow(offsets: Any, **_: Any) -> Any:
        if "a" in offsets:
            await waiting.wait()
        return await write(offsets)

    monkeypatch.setattr(admin, "alter_consumer_group_offsets", slow)
    changes = [Change(group_id=name, before=BEFORE, after=AFTER) for name in names]
    applying = asyncio.create_task(apply_changes(admin, changes, dry_run=False))
    for _ in range(100):
        await asyncio.sleep(0)
    assert [admin.groups[name].positions[T0] for name in names] == [5, 7, 5], "the third waits until the first is done"
    assert set(admin.asked("describe")) == {"a", "b"}
    waiting.set()
    assert [result.group_id for result in await applying] == names
    assert all(group.offsets == AFTER for group in admin.groups.values())


async def test_a_group_that_is_absent_is_no_reason_to_ask_any_broker_about_the_others() -> None:
    """As brokers of Kafka 4 say it: by an error, which names no coordinator."""
    admin = cluster(a=FakeGroup({T0: 5}))
    admin.describe_errors = {"gone": broker_error("GROUP_ID_NOT_FOUND")}
    used = {T0: OffsetAndMetadata(9)}

    def another_broker_takes_over(call: str) -> None:
        if call == "alter" and admin.groups["a"].coordinator == 1:
            admin.groups["a"].coordinator, admin.groups["a"].offsets = 2, dict(used)

    admin.before = another_broker_takes_over
    changes = [Change(group_id="a", before=BEFORE, after=AFTER), Change(group_id="gone", after=AFTER)]
    results = await apply_changes(admin, changes, dry_run=False, may_be_absent=True, max_read_age_seconds=15)
    assert [result.outcome for result in results] == [ChangeOutcome.KEPT, ChangeOutcome.CHANGED]
    assert (admin.groups["a"].offsets, admin.groups["gone"].offsets) == (used, AFTER)


async def test_nothing_is_begun_after_a_chunk_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_kafka_groups.change.restore.commit_changes._CHUNK_GROUPS", 1)
    monkeypatch.setattr("airflow_kafka_groups.change.restore.commit_changes._CHUNKS_AT_ONCE", 2)
    names = ["a", "b", "c", "d"]
    admin = cluster(**{name: FakeGroup({T0: 5}) for name in names})

    async def broken(offsets: Any, **_: Any) -> Any:
        raise MaintenanceError("no")

    monkeypatch.setattr(admin, "alter_consumer_group_offsets", broken)
    with pytest.raises(MaintenanceError, match="no"):
        await apply_changes(admin, [Change(group_id=name, before=BEFORE, after=AFTER) for name in names], dry_run=False)
    assert set(admin.asked("describe")) <= {"a", "b"}
    assert asyncio.all_tasks() == {asyncio.current_task()}
