"""Each sign of life, wherever it was seen, keeps a group from each decision: a table without empty cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import JournalError, SnapshotError
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.life.signs import Sign
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import snapshot_ids
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, Ticking, timeout
from tests.unit.operators import scene

pytestmark = pytest.mark.safety

Look = Callable[[], None]


def member(admin: FakeAdmin, look: Look) -> None:
    admin.groups["a"] = FakeGroup(members=2)
    look()


def state(admin: FakeAdmin, look: Look) -> None:
    admin.groups["a"] = FakeGroup(state=GroupState.PREPARING_REBALANCE)
    look()


def moved(admin: FakeAdmin, look: Look) -> None:
    admin.commit("a", "t", 0, 3)
    look()
    admin.groups["a"] = FakeGroup()
    look()


def kind(admin: FakeAdmin, look: Look) -> None:
    admin.groups["a"] = FakeGroup(type=GroupType.CONSUMER)
    look()
    admin.groups["a"] = FakeGroup()
    look()


def came_back(admin: FakeAdmin, look: Look) -> None:
    look()
    group = admin.groups.pop("a")
    look()
    admin.groups["a"] = group
    look()


def first_seen(admin: FakeAdmin, look: Look) -> None:
    group = admin.groups.pop("a")
    look()
    admin.groups["a"] = group
    look()


SHOWN = {
    Sign.MEMBER: member,
    Sign.STATE: state,
    Sign.MOVED: moved,
    Sign.KIND: kind,
    Sign.CAME_BACK: came_back,
    Sign.FIRST_SEEN: first_seen,
}
"""How snapshots come to show a sign."""


def looks(admin: FakeAdmin, folder: Layout, ago: timedelta) -> Look:
    """Return what takes the snapshots of a connection, one a second, beginning so long ago."""
    clock = Ticking(utc_now() - ago)

    def look() -> None:
        asyncio.run(take_snapshot(admin, folder, now=clock))

    return look


def planned(storage: Path) -> list[str]:
    """Take and judge the newest snapshot of the clean-up, and plan by it."""
    snapshot_id = scene.take_snapshot(storage)
    scene.judge(storage, snapshot_id, stale={"a", "b"})
    found = scene.plan(storage, snapshot_id=snapshot_id, max_share=1)
    return load_plan(Layout(storage, scene.CLUSTER), found["plan_id"]).group_ids


@pytest.mark.parametrize("sign", SHOWN, ids=lambda sign: sign.name)
@pytest.mark.promise(6)
def test_a_sign_in_an_older_snapshot_of_another_connection_keeps_the_group_from_a_plan(
    admin: FakeAdmin, tmp_path: Path, sign: Sign
) -> None:
    """The judge reads the history of its own folder, and knows nothing of it."""
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    SHOWN[sign](admin, looks(admin, Layout(tmp_path, "other"), timedelta(minutes=30)))
    admin.groups["a"] = FakeGroup()
    assert planned(tmp_path) == ["b"]
    known = Ledger(Layout(tmp_path, scene.CLUSTER), CLUSTER_ID).known(["a", "b"])
    assert (known.signs()["a"].sign, "in the folder 'other'" in known.signs()["a"].by) == (sign, True)
    assert "b" not in known.signs()


@pytest.mark.parametrize("sign", SHOWN, ids=lambda sign: sign.name)
@pytest.mark.promise(6)
def test_it_keeps_the_group_from_the_deletion_as_well(admin: FakeAdmin, tmp_path: Path, sign: Sign) -> None:
    """The other connection's snapshots were about to be finished when the plan was made."""
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    SHOWN[sign](admin, looks(admin, Layout(tmp_path, "other"), timedelta(minutes=30)))
    admin.groups["a"] = FakeGroup()
    manifests = (tmp_path / "other" / "manifests").rename(tmp_path / "aside")
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "b"})
    found = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)
    assert load_plan(Layout(tmp_path, scene.CLUSTER), found["plan_id"]).group_ids == ["a", "b"]
    scene.back_up(tmp_path, found)
    manifests.rename(tmp_path / "other" / "manifests")
    scene.apply(tmp_path, found, dry_run=False)
    assert set(admin.groups) == {"a", "live"}


def test_what_cannot_be_read_keeps_all_groups(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    other = Layout(tmp_path, "other")
    looks(admin, other, timedelta(minutes=30))()
    (rows,) = Path(str(other.snapshot_data(snapshot_ids(other)[0]))).iterdir()
    content = rows.read_bytes()
    rows.write_bytes(content[: len(content) // 2])
    with pytest.raises(SnapshotError, match=r"in the folder 'other'.*What it showed is not known"):
        planned(tmp_path)
    rows.write_bytes(content)
    assert planned(tmp_path) == ["a", "b"]


def test_a_snapshot_that_was_killed_before_its_manifest_is_no_sign_and_counts_once_it_is_there(
    admin: FakeAdmin, tmp_path: Path
) -> None:
    admin.groups = {"a": FakeGroup(members=1), "b": FakeGroup(), "live": FakeGroup()}
    looks(admin, Layout(tmp_path, "other"), timedelta(minutes=30))()
    (manifest,) = tmp_path.glob("other/manifests/*.json")
    manifest.rename(tmp_path / "aside")
    admin.groups["a"] = FakeGroup()
    assert planned(tmp_path) == ["a", "b"]
    (tmp_path / "aside").rename(manifest)
    assert planned(tmp_path) == ["b"]


@pytest.mark.promise(6)
def test_a_move_counts_also_where_the_snapshot_from_before_it_is_found_last(admin: FakeAdmin, tmp_path: Path) -> None:
    """As two of one second may be, whose ids are in any order: a live group was deleted by its name."""
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    look = looks(admin, Layout(tmp_path, "other"), timedelta(minutes=30))
    look()
    (manifest,) = tmp_path.glob("other/manifests/*.json")
    manifest.rename(tmp_path / "aside")
    admin.commit("a", "t", 0, 3)
    look()
    ledger = Ledger(Layout(tmp_path, scene.CLUSTER), CLUSTER_ID)
    assert ledger.seen(["a", "b"]) == {}
    (tmp_path / "aside").rename(manifest)
    assert {group_id: sign.sign for group_id, sign in ledger.seen(["a", "b"]).items()} == {"a": Sign.MOVED}


@pytest.mark.parametrize("damage", [b"", b"PAR1", None], ids=["empty", "no table", "gone"])
def test_the_folded_table_is_made_again_where_it_is_damaged(
    admin: FakeAdmin, tmp_path: Path, damage: bytes | None
) -> None:
    admin.groups = {"a": FakeGroup(members=1), "b": FakeGroup(), "live": FakeGroup()}
    looks(admin, Layout(tmp_path, "other"), timedelta(minutes=30))()
    admin.groups["a"] = FakeGroup()
    assert planned(tmp_path) == ["b"]
    (table,) = tmp_path.glob("_journal/*/signs.parquet")
    table.unlink() if damage is None else table.write_bytes(damage)
    assert planned(tmp_path) == ["b"]


@pytest.mark.promise(10)
def test_a_log_that_lacks_an_entry_plans_nothing(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    look = looks(admin, Layout(tmp_path, "other"), timedelta(minutes=30))
    look()
    look()
    assert planned(tmp_path) == ["a", "b"]
    first, *_, last = sorted(tmp_path.glob("_journal/*/log/*.json"))
    aside = last.rename(tmp_path / "aside")
    with pytest.raises(JournalError, match="is not what it was"):
        Ledger(Layout(tmp_path, scene.CLUSTER), CLUSTER_ID).known()
    aside.rename(last)
    next(tmp_path.glob("_journal/*/signs.parquet")).unlink()
    first.unlink()
    with pytest.raises(JournalError, match="has a gap"):
        planned(tmp_path)


def test_a_snapshot_lacking_a_broker_shows_life_and_no_absence(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup(members=1), "b": FakeGroup(), "live": FakeGroup()}
    look = looks(admin, Layout(tmp_path, "other"), timedelta(minutes=30))
    admin.missing_brokers = {2: timeout()}
    look()
    admin.groups = {"a": FakeGroup()}
    look()
    admin.missing_brokers = {}
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    look()
    assert planned(tmp_path) == ["b"]
