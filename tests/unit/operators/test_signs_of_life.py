"""Each sign of life, wherever it was seen, keeps a group from each decision: a table without empty cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest, keep_alive
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms
from airflow_kafka_groups.exceptions import GroupsFailedError, JournalError, SnapshotError
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.life.signs import Sign
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import snapshot_ids
from airflow_kafka_groups.operators.offset_changes import ResetGroupOffsetsOperator, RestoreGroupOffsetsOperator
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, Ticking, timeout
from tests.pages import DOCS
from tests.unit.change.scene import restored as restore_recorded
from tests.unit.operators import scene
from tests.unit.operators.scene import Site

pytestmark = pytest.mark.safety

Look = Callable[[], None]


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}


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


def proposed(storage: Path) -> dict[str, Any]:
    """Take and judge the newest snapshot of the clean-up, and plan by it."""
    snapshot_id = scene.take_snapshot(storage)
    scene.judge(storage, snapshot_id, stale={"a", "b"})
    return scene.plan(storage, snapshot_id=snapshot_id, max_share=1)


def planned(storage: Path) -> list[str]:
    return load_plan(Layout(storage, scene.CLUSTER), proposed(storage)["plan_id"]).group_ids


def by_plan(storage: Path) -> dict[str, Any]:
    """Back the plan up, too."""
    found = proposed(storage)
    scene.back_up(storage, found)
    return found


class DecidedBy(StrEnum):
    """What decides about groups. Topics of groups have signs of their own."""

    PLAN = "plan"
    DELETION = "deletion"
    BY_NAME = "deletion by name"


def found_by_a_recheck(admin: FakeAdmin, storage: Path) -> None:
    found = by_plan(storage)
    admin.groups["a"].members = 1
    scene.apply(storage, found, dry_run=False)
    admin.groups |= {"a": FakeGroup(), "b": FakeGroup()}


def kept_alive(admin: FakeAdmin, storage: Path) -> None:
    request = KeepAliveRequest(group_ids=("a",), observe_seconds=0)
    asyncio.run(keep_alive(admin, Layout(storage, "other"), request, ChangeTerms(dry_run=False)))


def restored(admin: FakeAdmin, storage: Path) -> None:
    found = by_plan(storage)
    layout = Layout(storage, scene.CLUSTER)
    asyncio.run(restore_recorded(admin, Layout(storage, "other"), found["plan_id"], "a", of=layout))


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


@pytest.mark.parametrize("decision", DecidedBy)
@pytest.mark.parametrize("sign", RECORDED, ids=lambda sign: sign.name)
@pytest.mark.promise(6)
def test_a_sign_on_record_keeps_the_group(site: Site, sign: Sign, decision: DecidedBy) -> None:
    if decision is DecidedBy.PLAN:
        RECORDED[sign](site.admin, site.storage)
        assert "a" not in planned(site.storage)
        known = Ledger(site.layout, CLUSTER_ID).known(["a"])
        assert known.signs()["a"].sign is sign
        assert known.watched_since is not None
        return
    found = by_plan(site.storage) if decision is DecidedBy.DELETION else {}
    RECORDED[sign](site.admin, site.storage)
    site.admin.groups |= {"b": FakeGroup()}
    if decision is DecidedBy.DELETION:
        site.apply(found, dry_run=False)
    else:
        site.admin.groups |= {"c": FakeGroup()}
        with pytest.raises(GroupsFailedError, match="1 of 2 failed: 'a'"):
            site.delete(group_ids=["a", "c"], dry_run=False)
        assert "c" not in site.admin.groups
    assert "a" in site.admin.groups


OF_CHANGES = {Sign.KEPT_ALIVE, Sign.RESTORED}
"""That somebody wants a group to stay is no use of it."""


@pytest.mark.parametrize("sign", Sign, ids=lambda sign: sign.name)
@pytest.mark.promise(6)
def test_a_sign_since_the_backup_keeps_a_group_that_is_there_again_from_a_restore(site: Site, sign: Sign) -> None:
    """It was made again, and is empty at this moment: its consumers would read again what they have read since."""
    plan_id = by_plan(site.storage)["plan_id"]
    if sign in SHOWN:
        SHOWN[sign](site.admin, looks(site.admin, Layout(site.storage, "other"), timedelta(0)))
    else:
        RECORDED[sign](site.admin, site.storage)
    site.admin.groups |= {"a": FakeGroup({}), "b": FakeGroup({})}
    results = [site.run(RestoreGroupOffsetsOperator, plan_id=plan_id, dry_run=dry_run) for dry_run in (True, False)]
    counted = [{name: count for name, count in result["counts"].items() if count} for result in results]
    if sign in OF_CHANGES:
        assert counted == [{"would_change": 2}, {"changed": 2}]
        return
    assert counted == [{"would_change": 1, "kept": 1}, {"changed": 1, "kept": 1}]
    for result in results:
        assert result["kept"].keys() == {"a"}
        assert f"it {sign.value}" in result["kept"]["a"]


@pytest.mark.promise(6)
def test_a_group_that_was_used_is_restored_if_it_is_gone_and_what_that_caused_is_no_sign(site: Site) -> None:
    two, lost = {TopicPartition(topic, 0): 5 for topic in "tu"}, TopicPartition("u", 0)
    site.admin.groups = {"a": FakeGroup(two), "b": FakeGroup(two), "live": FakeGroup()}
    plan_id = by_plan(site.storage)["plan_id"]
    look = looks(site.admin, site.layout, timedelta(0))
    site.admin.groups["b"].members = 1
    look()
    del site.admin.groups["a"], site.admin.groups["b"]
    look()
    assert site.run(RestoreGroupOffsetsOperator, plan_id=plan_id)["counts"]["changed"] == 2
    del site.admin.groups["a"].offsets[lost], site.admin.groups["b"].offsets[lost]
    look()
    again = site.run(RestoreGroupOffsetsOperator, plan_id=plan_id)
    assert again["counts"]["changed"] == 2, "each of them came back, and lost an offset"


def test_who_overwrites_what_was_committed_since_the_backup_knows_that_the_group_was_used(site: Site) -> None:
    plan_id = by_plan(site.storage)["plan_id"]
    site.admin.groups["a"].members = 1
    asyncio.run(take_snapshot(site.admin, Layout(site.storage, "other")))
    site.admin.groups["a"] = FakeGroup({})
    assert "had a member" in site.run(RestoreGroupOffsetsOperator, plan_id=plan_id)["kept"]["a"]
    found = site.run(RestoreGroupOffsetsOperator, plan_id=plan_id, overwrite=True)
    assert found["counts"]["changed"] == 1


@pytest.mark.promise(6)
def test_a_reset_keeps_a_group_that_a_snapshot_shows_in_use_since_it_was_proposed(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup(members=1), "b": FakeGroup()}
    other = Layout(site.storage, "other")
    looks(site.admin, other, -timedelta(minutes=1))()
    (manifest,) = site.storage.glob("other/manifests/*.json")
    manifest.rename(site.storage / "aside")
    site.admin.groups["a"] = FakeGroup()

    def finish(call: str) -> None:
        if call == "list_offsets" and not manifest.exists():
            (site.storage / "aside").rename(manifest)

    site.admin.before = finish
    found = site.run(ResetGroupOffsetsOperator, group_ids=["a", "b"], to="earliest")
    assert (found["counts"]["changed"], [*found["kept"]]) == (1, ["a"])
    assert "it had a member" in found["kept"]["a"]


BY_PLACE = ("tests.exhaustive.operators.test_signs_by_place", "test_a_sign_in_a_snapshot_keeps_the_group")
TOPICS = "tests.exhaustive.change.prune_topics.test_signs_of_life"
DECISIONS = {
    "plan.make_plan": BY_PLACE,
    "deletion.run": BY_PLACE,
    "deletion.guards.newer_snapshots": BY_PLACE,
    "deletion.ad_hoc": (__name__, "test_a_sign_on_record_keeps_the_group"),
    "deletion.guards.exclusions": (
        "tests.unit.change.deletion.test_named_signs",
        "test_each_sign_in_a_snapshot_of_any_connection_counts",
    ),
    "plan.plan_topics": (
        TOPICS,
        "test_an_older_snapshot_of_another_connection_keeps_the_topic_from_plan_and_pruning",
    ),
    "plan.abandoned_topics": (TOPICS, "test_a_newer_snapshot_that_ends_the_idle_time_keeps_the_topic"),
    "restore.change_offsets": (
        __name__,
        "test_a_sign_since_the_backup_keeps_a_group_that_is_there_again_from_a_restore",
    ),
    "file_pruning": (
        "tests.unit.ledger.test_remembered_signs",
        "test_what_a_removed_snapshot_showed_stays_known",
    ),
}
"""What asks the ledger before it removes something, in ``change``, and the test of what a sign then does."""
NO_DECISIONS = {
    "change.keep_alive": "it commits again what a group has",
    "change.restore.earlier_tries": "it asks for no group, but what a task has done before",
    "change.snapshot": "it lets the ledger know",
    "change.explain": "it shows what is known",
    "report.facts": "it shows what is known",
    "plugins.groups_facts": "it shows what is known",
    "change.plan.notify": "it marks what a plan keeps, and tells owners",
    "ledger.journal": "it records what a deletion does, by what this one asked",
    "ledger.approval": "it asks for no group, but who approved a plan",
    "ledger.notice_book": "it asks whose owner was told: without that, the group is kept",
}


def test_the_table_has_no_empty_cell() -> None:
    assert SHOWN.keys() | RECORDED.keys() == set(Sign)
    page = (DOCS / "safety.md").read_text().partition("\n## Signs of life\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    assert rows == ["The group", *(sign.value for sign in Sign)]


def test_a_member_that_the_log_of_commits_shows_keeps_the_group(site: Site) -> None:
    in_the_log(site.admin, site.storage, "last_record_at")
    assert planned(site.storage) == ["b"]


def test_a_judgement_that_cannot_be_read_keeps_all_groups(site: Site) -> None:
    rows = in_the_log(site.admin, site.storage)
    rows.write_bytes(rows.read_bytes()[:-9])
    with pytest.raises(SnapshotError, match=r"a judgement in the folder 'other': .*Restore its files"):
        planned(site.storage)
    other = Layout(site.storage, "other")
    Path(str(other.verdict_summary(snapshot_ids(other)[0]))).unlink()
    assert planned(site.storage) == ["a", "b"], "a job that judges again, or was killed, says nothing"


def test_what_cannot_be_read_keeps_all_groups(site: Site) -> None:
    other = Layout(site.storage, "other")
    looks(site.admin, other, timedelta(minutes=30))()
    (rows,) = Path(str(other.snapshot_data(snapshot_ids(other)[0]))).iterdir()
    content = rows.read_bytes()
    rows.write_bytes(content[: len(content) // 2])
    with pytest.raises(SnapshotError, match=r"in the folder 'other'.*What it showed is not known"):
        planned(site.storage)
    rows.write_bytes(content)
    assert planned(site.storage) == ["a", "b"]


def test_a_snapshot_that_was_killed_before_its_manifest_is_no_sign_and_counts_once_it_is_there(site: Site) -> None:
    site.admin.groups["a"].members = 1
    looks(site.admin, Layout(site.storage, "other"), timedelta(minutes=30))()
    (manifest,) = site.storage.glob("other/manifests/*.json")
    manifest.rename(site.storage / "aside")
    site.admin.groups["a"] = FakeGroup()
    assert planned(site.storage) == ["a", "b"]
    (site.storage / "aside").rename(manifest)
    assert planned(site.storage) == ["b"]


@pytest.mark.promise(6)
def test_a_move_counts_also_where_the_snapshot_from_before_it_is_found_last(site: Site) -> None:
    """As two of one second may be, whose ids are in any order: a live group was deleted by its name."""
    look = looks(site.admin, Layout(site.storage, "other"), timedelta(minutes=30))
    look()
    (manifest,) = site.storage.glob("other/manifests/*.json")
    manifest.rename(site.storage / "aside")
    site.admin.commit("a", "t", 0, 3)
    look()
    ledger = Ledger(site.layout, CLUSTER_ID)
    assert ledger.seen(["a", "b"]) == {}
    (site.storage / "aside").rename(manifest)
    assert {group_id: sign.sign for group_id, sign in ledger.seen(["a", "b"]).items()} == {"a": Sign.MOVED}


@pytest.mark.parametrize("damage", [b"", b"PAR1", None], ids=["empty", "no table", "gone"])
def test_the_folded_table_is_made_again_where_it_is_damaged(site: Site, damage: bytes | None) -> None:
    site.admin.groups["a"].members = 1
    looks(site.admin, Layout(site.storage, "other"), timedelta(minutes=30))()
    site.admin.groups["a"] = FakeGroup()
    assert planned(site.storage) == ["b"]
    (table,) = site.storage.glob("_journal/*/signs.parquet")
    table.unlink() if damage is None else table.write_bytes(damage)
    assert planned(site.storage) == ["b"]


@pytest.mark.promise(10)
def test_a_log_that_lacks_an_entry_plans_nothing(site: Site) -> None:
    look = looks(site.admin, Layout(site.storage, "other"), timedelta(minutes=30))
    look()
    look()
    assert planned(site.storage) == ["a", "b"]
    Ledger(site.layout, CLUSTER_ID).known()  # which folds the plan's entry
    first, *_, last = sorted(site.storage.glob("_journal/*/log/*.json"))
    aside = last.rename(site.storage / "aside")
    with pytest.raises(JournalError, match="is not what it was"):
        Ledger(site.layout, CLUSTER_ID).known()
    aside.rename(last)
    next(site.storage.glob("_journal/*/signs.parquet")).unlink()
    first.unlink()
    with pytest.raises(JournalError, match="has a gap"):
        planned(site.storage)


def test_a_snapshot_lacking_a_broker_shows_life_and_no_absence(site: Site) -> None:
    site.admin.groups["a"].members = 1
    look = looks(site.admin, Layout(site.storage, "other"), timedelta(minutes=30))
    site.admin.missing_brokers = {2: timeout()}
    look()
    site.admin.groups = {"a": FakeGroup()}
    look()
    site.admin.missing_brokers = {}
    site.admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "live": FakeGroup()}
    look()
    assert planned(site.storage) == ["b"]
