"""Copies of committed offsets: what a target gets, what it keeps, and what is refused before anything is read."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms, RecordedChanges, change_offsets
from airflow_kafka_groups.change.restore.reset import CopyRequest
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, committed, timeout

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


async def copy(tmp_path: Path, admin: FakeAdmin, *, dry_run: bool = False, **asked: Any) -> RecordedChanges:
    request = CopyRequest(**{"groups": {"a": "b"}, **asked})
    return await change_offsets(admin, Layout(tmp_path, "prod"), request, ChangeTerms(dry_run=dry_run))


def outcome(done: RecordedChanges) -> tuple[str, str]:
    (result,) = done.results
    return result.outcome.value, result.reason


async def test_a_new_group_gets_what_the_source_has_with_its_metadata(tmp_path: Path) -> None:
    exact = OffsetAndMetadata(5, leader_epoch=3, metadata="by hand")
    admin = FakeAdmin({"a": FakeGroup({T0: exact, U0: 7})}, log=(2, 10))
    done = await copy(tmp_path, admin)
    assert outcome(done)[0] == "changed"
    assert admin.groups["b"].offsets == {T0: exact, U0: committed(7)}
    assert admin.groups["a"].offsets[T0] == exact, "the source stays as it is"


async def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5})}, log=(2, 10))
    assert outcome(await copy(tmp_path, admin, dry_run=True))[0] == "would_change"
    assert "b" not in admin.groups


async def test_only_the_topics_that_are_named_are_copied(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5, U0: 7})}, log=(2, 10))
    await copy(tmp_path, admin, topics=["u"])
    assert admin.groups["b"].offsets == {U0: committed(7)}


@pytest.mark.parametrize(("existing", "t0", "t1"), [("keep", 3, 9), ("replace", 5, 6), ("lower", 3, 6)])
async def test_a_target_with_commits_keeps_them_gets_others_or_the_lower_ones(
    tmp_path: Path, existing: str, t0: int, t1: int
) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5, T1: 6, U0: 7}), "b": FakeGroup({T0: 3, T1: 9})}, log=(2, 10))
    await copy(tmp_path, admin, existing=existing)
    assert {where: each.offset for where, each in admin.groups["b"].offsets.items()} == {T0: t0, T1: t1, U0: 7}


async def test_a_target_that_has_all_of_it_is_kept_with_the_reason(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 3})}, log=(2, 10))
    done = await copy(tmp_path, admin)
    assert outcome(done) == ("kept", "nothing is left to copy: the group has committed 3 there, and the source 5")


async def test_a_target_with_members_is_kept_and_a_source_with_members_is_copied(tmp_path: Path) -> None:
    live = FakeGroup({T0: 5}, members=1)
    admin = FakeAdmin({"a": live, "b": FakeGroup({T0: 3}, members=1)}, log=(2, 10))
    assert outcome(await copy(tmp_path, admin, existing="replace"))[0] == "kept"
    admin = FakeAdmin({"a": live}, log=(2, 10))
    assert outcome(await copy(tmp_path, admin))[0] == "changed"


async def test_a_source_that_cannot_be_read_fails_and_one_without_offsets_is_named(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5})}, log=(2, 10))
    admin.offset_errors["a"] = timeout()
    done = await copy(tmp_path, admin)
    assert "the offsets of the source cannot be read" in str(done.failures()["b"])
    done = await copy(tmp_path, FakeAdmin({"a": FakeGroup({})}, log=(2, 10)))
    assert outcome(done) == ("kept", "'a' has no committed offsets to copy")


@pytest.mark.parametrize("groups", [{"a": "a"}, {"a": "b", "b": "c"}, {"a": "c", "b": "c"}, {}])
def test_a_group_is_a_source_or_the_target_of_one(groups: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="group"):
        CopyRequest(groups=groups)
