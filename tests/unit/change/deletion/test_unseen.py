"""Offsets that are no longer seen keep a group, say why, and are no proof of life."""

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_groups.change.deletion import run as run_module
from airflow_kafka_groups.change.deletion.chunk_reader import unseen_topics
from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicPartition
from airflow_kafka_groups.ledger.journal import read_history
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, offsets_of
from tests.unit.change.deletion.steps import delete, fates
from tests.unit.change.scene import backed_up, delete_names, layout_in, planned

OFFSETS = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 6, TopicPartition("pay", 0): 7}


def world() -> FakeAdmin:
    admin = FakeAdmin()
    admin.groups = {name: FakeGroup(OFFSETS) for name in ("a", "b")}
    return admin


def lose(admin: FakeAdmin, *topics: str) -> None:
    """Take topics away from group a."""
    for at in [at for at in OFFSETS if at.topic in topics]:
        del admin.groups["a"].offsets[at]


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("topics", "reason"),
    [
        (("pay",), "its offsets in 1 topic(s) are no longer seen: 'pay': deleted, or hidden from this user"),
        (
            ("orders", "pay"),
            "its offsets in 2 topic(s) are no longer seen: 'orders', 'pay': deleted, or hidden from this user",
        ),
    ],
)
async def test_it_is_kept_with_the_reason_and_nobody_used_it(
    topics: tuple[str, ...], reason: str, dry_run: bool, tmp_path: Path
) -> None:
    admin, layout = world(), layout_in(tmp_path)
    plan = await planned(admin, layout) if dry_run else (await backed_up(admin, layout))[0]
    lose(admin, *topics)
    report = await delete(admin, layout, plan, dry_run=dry_run)
    assert fates(report) == {"a": "kept:offsets_unseen", "b": "would_delete:safe" if dry_run else "deleted:safe"}
    assert [item.reason for item in report.outcomes if item.group_id == "a"] == [reason]
    assert "a" in admin.groups
    history = read_history(layout, CLUSTER_ID)
    assert "a" not in history.lives()
    assert "a" not in history.idle_resets()


MOVES: dict[str, Callable[[FakeAdmin], object]] = {
    "another offset moved": lambda admin: admin.commit("a", "orders", 0, 9),
    "a new one came": lambda admin: admin.commit("a", "new", 0, 9),
}


@pytest.mark.parametrize("move", MOVES)
async def test_where_anything_else_moved_somebody_used_it(move: str, tmp_path: Path) -> None:
    admin, layout = world(), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    lose(admin, "pay")
    MOVES[move](admin)
    assert fates(await delete(admin, layout, plan))["a"] == "kept:moved"
    assert "a" in read_history(layout, CLUSTER_ID).lives()


async def test_where_nobody_knows_what_it_had_it_counts_as_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> dict[str, GroupOffsets]:
        raise SnapshotError("the snapshot is gone")

    admin, layout = world(), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    lose(admin, "pay")
    monkeypatch.setattr(run_module, "offsets_in_snapshot", lost)
    assert fates(await delete(admin, layout, plan))["a"] == "kept:moved"


async def test_named_groups_are_compared_with_what_was_seen_first(tmp_path: Path) -> None:
    admin, layout = world(), layout_in(tmp_path)

    async def meanwhile(seconds: float) -> None:
        lose(admin, "pay")

    report = (await delete_names(admin, layout, ["a", "b"], sleep=meanwhile)).report
    assert fates(report) == {"a": "kept:offsets_unseen", "b": "deleted:safe"}
    assert "a" not in read_history(layout, CLUSTER_ID).lives()


def test_topics_are_unseen_only_if_all_else_is_the_same() -> None:
    then = offsets_of("g", ("t", 0, 1), ("t", 1, 2), ("u", 0, 3))
    assert unseen_topics(then, offsets_of("g", ("t", 0, 1), ("u", 0, 3))) == {"t"}
    assert unseen_topics(then, offsets_of("g")) == {"t", "u"}
    assert unseen_topics(then, then) == set()
    assert unseen_topics(then, offsets_of("g", ("t", 0, 2))) == set()
    assert unseen_topics(then, offsets_of("g", ("v", 0, 1))) == set()
