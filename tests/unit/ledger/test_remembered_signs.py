"""Signs of life stay known: where the log could not be written, snapshots were removed, or by another version."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.change import file_pruning
from airflow_kafka_groups.change.file_pruning import FileKind, PruneReport, PruningLimits, prune
from airflow_kafka_groups.exceptions import JournalError, SnapshotError, StorageError
from airflow_kafka_groups.judge.evidence import Evidence
from airflow_kafka_groups.ledger.ledger import Ledger, fold_for_removal
from airflow_kafka_groups.ledger.life.signs import Sign
from airflow_kafka_groups.observe.cluster_log import ClusterLog, EntryKind
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, Ticking
from tests.unit.operators import scene

pytestmark = pytest.mark.safety

LIMIT = timedelta(days=5)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    monkeypatch.setattr(file_pruning, "LEAST_AGE", LIMIT)
    return FakeAdmin({"a": FakeGroup(), "b": FakeGroup()})


def look(admin: FakeAdmin, storage: Path, cluster: str = "other", ago: timedelta = timedelta(minutes=30)) -> str:
    clock = Ticking(utc_now() - ago)
    return asyncio.run(take_snapshot(admin, Layout(storage, cluster), now=clock)).snapshot_id


def show(admin: FakeAdmin, storage: Path, **at: Any) -> str:
    """Take a snapshot in which group a has a member."""
    admin.groups["a"].members = 1
    snapshot_id = look(admin, storage, **at)
    admin.groups["a"] = FakeGroup()
    return snapshot_id


def signs(storage: Path, since: timedelta = timedelta(days=20)) -> dict[str, Sign]:
    found = Ledger(Layout(storage, "mine"), CLUSTER_ID).seen(["a", "b"], utc_now() - since)
    return {group_id: sign.sign for group_id, sign in found.items()}


def table(storage: Path) -> Path:
    return storage / "_journal" / CLUSTER_ID / "signs.parquet"


def prune_old(storage: Path) -> PruneReport:
    limits = PruningLimits(days={FileKind.SNAPSHOT: LIMIT.days}, keep_newest=1)
    return prune(Layout(storage, "other"), limits, now=utc_now(), dry_run=False)


@pytest.mark.promise(6)
def test_a_snapshot_that_could_not_be_logged_counts_for_other_connections(admin: FakeAdmin, tmp_path: Path) -> None:
    look(admin, tmp_path, "mine")
    log = tmp_path / "_journal" / CLUSTER_ID / "log"
    aside = log.rename(tmp_path / "aside")
    log.write_text("")  # nothing can be created in it
    show(admin, tmp_path)
    log.unlink()
    aside.rename(log)
    assert signs(tmp_path) == {"a": Sign.MEMBER}


@pytest.mark.promise(6)
def test_what_a_removed_snapshot_showed_stays_known(admin: FakeAdmin, tmp_path: Path) -> None:
    old = show(admin, tmp_path, ago=timedelta(days=10))
    look(admin, tmp_path)
    assert prune_old(tmp_path).removed["snapshot"] == (old,)
    assert signs(tmp_path) == {"a": Sign.MEMBER}


@pytest.mark.promise(6)
def test_nothing_is_removed_where_what_it_shows_cannot_be_remembered(admin: FakeAdmin, tmp_path: Path) -> None:
    old = show(admin, tmp_path, ago=timedelta(days=10))
    look(admin, tmp_path)
    table(tmp_path).mkdir()
    with pytest.raises(StorageError, match=r"signs\.parquet"):
        prune_old(tmp_path)
    table(tmp_path).rmdir()
    assert prune_old(tmp_path).removed["snapshot"] == (old,)
    assert signs(tmp_path) == {"a": Sign.MEMBER}


def test_nothing_is_removed_where_the_log_cannot_be_read(admin: FakeAdmin, tmp_path: Path) -> None:
    show(admin, tmp_path, ago=timedelta(days=10))
    look(admin, tmp_path)
    (tmp_path / "_journal" / CLUSTER_ID / "log" / "00000001.json").write_text("{")
    with pytest.raises(JournalError):
        prune_old(tmp_path)
    assert len([*tmp_path.glob("other/manifests/*.json")]) == 2


@pytest.mark.promise(6)
def test_a_snapshot_that_cannot_be_read_is_not_removed(admin: FakeAdmin, tmp_path: Path) -> None:
    old = show(admin, tmp_path, ago=timedelta(days=10))
    look(admin, tmp_path, ago=timedelta(days=9))
    look(admin, tmp_path)
    (rows,) = (tmp_path / "other" / "data" / old).iterdir()
    rows.write_bytes(rows.read_bytes()[:-9])
    report = prune_old(tmp_path)
    assert (report.removed["snapshot"], [*report.foreign]) == ((), [f"snapshot {old}"])


@pytest.mark.promise(6)
@pytest.mark.parametrize("damage", [b"", None], ids=["damaged", "lost"])
def test_removed_snapshots_are_in_doubt_where_the_table_is_made_again(
    admin: FakeAdmin, tmp_path: Path, damage: bytes | None
) -> None:
    old = show(admin, tmp_path, ago=timedelta(days=10))
    look(admin, tmp_path)
    prune_old(tmp_path)
    table(tmp_path).unlink() if damage is None else table(tmp_path).write_bytes(damage)
    for _ in range(2):
        with pytest.raises(SnapshotError, match=f"snapshot {old} .*is not there any more"):
            signs(tmp_path)
    assert signs(tmp_path, since=timedelta(days=9)) == {}, "it cannot have shown anything since"


@pytest.mark.promise(8)
def test_a_question_whose_kind_is_damaged_in_the_table_withdraws_still(tmp_path: Path) -> None:
    log, about = ClusterLog(tmp_path, CLUSTER_ID), {"folder": "mine", "plan_id": "p", "plan_digest": "0"}
    asked = [EntryKind.QUESTION, EntryKind.ANSWER, EntryKind.QUESTION]
    for kind in asked:
        log.add({"kind": kind, **about})
    fold_for_removal(Layout(tmp_path, "mine"), CLUSTER_ID)
    content = table(tmp_path).read_bytes()
    at = content.rindex(b'"question"')
    table(tmp_path).write_bytes(content[:at] + b'"qwestion"' + content[at + 10 :])
    found = Ledger(Layout(tmp_path, "mine"), CLUSTER_ID).of_plan("p", asked)
    assert [entry.data["kind"] for entry in found] == asked


@pytest.mark.promise(10)
def test_a_column_whose_name_is_damaged_hides_no_sign(admin: FakeAdmin, tmp_path: Path) -> None:
    show(admin, tmp_path)
    assert signs(tmp_path) == {"a": Sign.MEMBER}
    content = table(tmp_path).read_bytes()
    assert b"used_at" in content
    table(tmp_path).write_bytes(content.replace(b"used_at", b"usad_at"))
    assert signs(tmp_path) == {"a": Sign.MEMBER}


def judge(storage: Path, snapshot_id: str, evidence: Evidence, **life: Any) -> None:
    """Let another connection's judgement know when group a committed last."""
    scene.judge(storage, snapshot_id, stale={"a", "b"}, cluster="other")
    summary = storage / f"other/summaries/verdicts/{snapshot_id}.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "evidence": evidence.to_json()}))
    rows = storage / f"other/tables/verdicts/snapshot_id={snapshot_id}/part-0.parquet"
    changed = [row | (life if row["group_id"] == "a" else {}) for row in pq.read_table(str(rows)).to_pylist()]
    pq.write_table(pa.Table.from_pylist(changed), str(rows))


def hours(ago: float) -> Any:
    return utc_now() - timedelta(hours=ago)


@pytest.mark.parametrize(
    "later",
    [Evidence(not_read="it is switched off"), Evidence(commits_since=hours(2), commits_until=hours(0))],
    ids=["without the log", "with the end of the log"],
)
@pytest.mark.promise(6)
def test_what_the_log_of_commits_showed_stays_known_after_a_judgement_that_read_less_of_it(
    admin: FakeAdmin, tmp_path: Path, later: Evidence
) -> None:
    judge(tmp_path, look(admin, tmp_path), Evidence(commits_until=hours(0)), last_record_at=hours(5))
    assert signs(tmp_path) == {"a": Sign.COMMIT}
    judge(tmp_path, look(admin, tmp_path, ago=timedelta(0)), later)
    assert signs(tmp_path) == {"a": Sign.COMMIT}
