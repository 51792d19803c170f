"""Each sign of life, wherever it was seen, keeps a group from each decision: a table without empty cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest, keep_alive
from airflow_kafka_groups.change.restore.from_backup import propose_restore
from airflow_kafka_groups.change.restore.recorded import change_recorded
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
from tests.pages import DOCS
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


class DecidedBy(StrEnum):
    """What decides about groups by a judgement. Deletions by name and prunings of topics have tests of their own."""

    PLAN = "plan"
    DELETION = "deletion"


class Place(StrEnum):
    """Where a sign was seen. What is taken during a deletion has a test beside the deletion."""

    OWN_OLDER = "own folder, before the judged snapshot"
    OTHER_OLDER = "another connection's folder, before the judged snapshot"
    OTHER_INCOMPLETE = "the same, in snapshots that lack a broker"
    OWN_NEWER = "own folder, after the judged snapshot"
    OTHER_NEWER = "another connection's folder, after the judged snapshot"


ABSENT = {Sign.CAME_BACK, Sign.FIRST_SEEN}
"""What an incomplete snapshot cannot show: what it lacks may be there."""
NO_SIGN = {(sign, Place.OTHER_INCOMPLETE) for sign in ABSENT}


@pytest.mark.parametrize("decision", DecidedBy)
@pytest.mark.parametrize("place", Place, ids=lambda place: place.name)
@pytest.mark.parametrize("sign", SHOWN, ids=lambda sign: sign.name)
@pytest.mark.promise(6)
def test_a_sign_in_a_snapshot_keeps_the_group(
    admin: FakeAdmin, tmp_path: Path, sign: Sign, place: Place, decision: DecidedBy
) -> None:
    """A judgement that knows nothing of it calls the group stale, as one of the clean-up's own folder does."""
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    is_own = place in (Place.OWN_OLDER, Place.OWN_NEWER)
    is_newer = place in (Place.OWN_NEWER, Place.OTHER_NEWER)
    folder = Layout(tmp_path, scene.CLUSTER if is_own else "other")

    def show() -> None:
        ago = timedelta(0) if is_newer else timedelta(minutes=30)
        admin.missing_brokers = {2: timeout()} if place is Place.OTHER_INCOMPLETE else {}
        SHOWN[sign](admin, looks(admin, folder, ago))
        admin.groups["a"], admin.missing_brokers = FakeGroup(), {}

    def hide(back: bool) -> None:
        """Let the snapshots be about to be finished until the plan is made."""
        for each in Path(str(folder.manifests)).iterdir() if not back else aside.iterdir():
            each.rename((Path(str(folder.manifests)) if back else aside) / each.name)

    aside = tmp_path / "aside"
    aside.mkdir()
    if not is_newer:
        show()
        if decision is DecidedBy.DELETION:
            hide(back=False)
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "b"})
    if is_newer and decision is DecidedBy.PLAN:
        show()
    found = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)
    planned_ids = load_plan(Layout(tmp_path, scene.CLUSTER), found["plan_id"]).group_ids
    kept = (sign, place) not in NO_SIGN
    if decision is DecidedBy.PLAN:
        assert planned_ids == (["b"] if kept else ["a", "b"])
        signs = (
            Ledger(Layout(tmp_path, scene.CLUSTER), CLUSTER_ID).known(["a", "b"], utc_now() - timedelta(days=1)).signs()
        )
        if (sign, place) == (Sign.FIRST_SEEN, Place.OWN_NEWER):
            sign = Sign.CAME_BACK  # the judged snapshot has it
        assert {group_id: found.sign for group_id, found in signs.items()} == ({"a": sign} if kept else {})
        return
    assert planned_ids == ["a", "b"]
    scene.back_up(tmp_path, found)
    if is_newer:
        show()
    else:
        hide(back=True)
    scene.apply(tmp_path, found, dry_run=False)
    assert set(admin.groups) == {*(["a"] if kept else []), "live"}


def found_by_a_recheck(admin: FakeAdmin, storage: Path) -> None:
    found = by_plan(storage)
    admin.groups["a"].members = 1
    scene.apply(storage, found, dry_run=False)
    admin.groups |= {"a": FakeGroup(), "b": FakeGroup()}


def kept_alive(admin: FakeAdmin, storage: Path) -> None:
    request = KeepAliveRequest(group_ids=("a",), observe_seconds=0)
    asyncio.run(keep_alive(admin, Layout(storage, "other"), request, protects=lambda _: False, dry_run=False))


def restored(admin: FakeAdmin, storage: Path) -> None:
    found = by_plan(storage)
    layout = Layout(storage, scene.CLUSTER)
    propose = partial(propose_restore, admin, layout, found["plan_id"], group_ids=["a"])
    asyncio.run(
        change_recorded(
            admin,
            Layout(storage, "other"),
            "restore",
            propose,
            protects=lambda _: False,
            dry_run=False,
            may_be_absent=True,
        )
    )


def in_the_log(admin: FakeAdmin, storage: Path, column: str = "last_moved_at") -> Path:
    """Let another connection's judgement know of life of group a; return the file of its rows."""
    other = Layout(storage, "other")
    looks(admin, other, timedelta(seconds=2))()
    (snapshot_id,) = snapshot_ids(other)
    scene.judge(storage, snapshot_id, stale={"a", "b"}, cluster="other")
    (rows,) = Path(str(other.verdicts(snapshot_id))).iterdir()
    table = pq.read_table(str(rows)).to_pylist()
    for row in table:
        if row["group_id"] == "a":
            row[column] = row["observed_at"]
    pq.write_table(pa.Table.from_pylist(table), str(rows))
    return rows


RECORDED: dict[Sign, Callable[[FakeAdmin, Path], object]] = {
    Sign.RECHECK: found_by_a_recheck,
    Sign.KEPT_ALIVE: kept_alive,
    Sign.RESTORED: restored,
    Sign.COMMIT: in_the_log,
}
"""How a sign comes to be known that no snapshot shows; all but the first by another connection."""


def by_plan(storage: Path) -> dict[str, Any]:
    """Snapshot, judge, plan and back up."""
    snapshot_id = scene.take_snapshot(storage)
    scene.judge(storage, snapshot_id, stale={"a", "b"})
    found = scene.plan(storage, snapshot_id=snapshot_id, max_share=1)
    scene.back_up(storage, found)
    return found


@pytest.mark.parametrize("decision", DecidedBy)
@pytest.mark.parametrize("sign", RECORDED, ids=lambda sign: sign.name)
@pytest.mark.promise(6)
def test_a_sign_on_record_keeps_the_group(admin: FakeAdmin, tmp_path: Path, sign: Sign, decision: DecidedBy) -> None:
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    if decision is DecidedBy.PLAN:
        RECORDED[sign](admin, tmp_path)
        assert "a" not in planned(tmp_path)
        known = Ledger(Layout(tmp_path, scene.CLUSTER), CLUSTER_ID).known(["a"])
        assert known.signs()["a"].sign is sign
        assert known.watched_since is not None
        return
    found = by_plan(tmp_path)
    RECORDED[sign](admin, tmp_path)
    scene.apply(tmp_path, found, dry_run=False)
    assert "a" in admin.groups


def test_the_table_has_no_empty_cell() -> None:
    assert SHOWN.keys() | RECORDED.keys() == set(Sign)
    page = (DOCS / "safety.md").read_text().partition("\n## Signs of life\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    assert rows == ["The group", *(sign.value for sign in Sign)]


def test_a_member_that_the_log_of_commits_shows_keeps_the_group(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    in_the_log(admin, tmp_path, "last_record_at")
    assert planned(tmp_path) == ["b"]


def test_a_judgement_that_cannot_be_read_keeps_all_groups(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    rows = in_the_log(admin, tmp_path)
    rows.write_bytes(rows.read_bytes()[:-9])
    with pytest.raises(SnapshotError, match=r"a judgement in the folder 'other': .*Restore its files"):
        planned(tmp_path)
    other = Layout(tmp_path, "other")
    Path(str(other.verdict_summary(snapshot_ids(other)[0]))).unlink()
    assert planned(tmp_path) == ["a", "b"], "a job that judges again, or was killed, says nothing"


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
