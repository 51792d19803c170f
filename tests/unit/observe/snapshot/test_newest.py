"""Which snapshot is the newest of a cluster: others show named groups only, do not fit on the disk, or are copies."""

import errno
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import SnapshotError, StorageError
from airflow_kafka_groups.hooks.retries import is_final
from airflow_kafka_groups.ledger import verdicts
from airflow_kafka_groups.ledger.verdicts import load_verdicts, newest_judged
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.observe.snapshot import reader, table
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.members import last_members
from airflow_kafka_groups.observe.snapshot.reader import latest_manifest, load_manifest, seen_before, snapshot_ids
from airflow_kafka_groups.report import metrics as group_metrics
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import new_id
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking
from tests.fakes.verdicts import verdicts_of
from tests.unit.change.scene import layout_in, snapshot

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


@pytest.fixture
async def whole(tmp_path: Path) -> tuple[Layout, str]:
    """Return a folder with one snapshot of all groups, and the snapshot's id."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("g", ("t", 0, 1))
    return layout, (await snapshot(admin, layout)).manifest.snapshot_id


def copy(layout: Layout, snapshot_id: str, after: timedelta, *, named: bool, **changes: str) -> str:
    """Write the manifest of a later snapshot, and return its id."""
    manifest = {**json.loads(Path(str(layout.manifest(snapshot_id))).read_text()), **changes}
    manifest["snapshot_id"] = new_id(datetime.strptime(snapshot_id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) + after)
    if named:  # as offsets_to_spark takes one
        manifest["scope"]["group_ids"] = ["g"]
    Path(str(layout.manifest(manifest["snapshot_id"]))).write_text(json.dumps(manifest))
    return str(manifest["snapshot_id"])


def judge(layout: Layout, snapshot_id: str, summary: bytes = b'{"groups": 1}') -> None:
    path = layout.verdict_summary(snapshot_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(summary)


def test_the_newest_snapshot_of_the_cluster_is_found_behind_many_of_named_groups(whole: tuple[Layout, str]) -> None:
    """One each ten minutes, between two clean-ups a day."""
    layout, snapshot_id = whole
    last = [copy(layout, snapshot_id, number * 10 * MINUTE, named=True) for number in range(1, 145)][-1]
    assert latest_manifest(layout, to_judge=True).snapshot_id == snapshot_id
    assert latest_manifest(layout).snapshot_id == last


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each file that is read from now on adds its name."""
    found, real = list[str](), FILES.read

    def noted(path: Path) -> bytes | None:
        found.append(path.name)
        return real(path)

    monkeypatch.setattr(FILES, "read", noted)
    return found


def test_snapshots_of_named_groups_are_not_looked_through_without_end(
    whole: tuple[Layout, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count: each is a request, and a folder may have no other for a year."""
    layout, snapshot_id = whole
    last = [copy(layout, snapshot_id, number * 10 * MINUTE, named=True) for number in range(1, 145)][-1]
    for path in Path(str(layout.manifests)).iterdir():
        judge(layout, path.stem)
    layout.manifest(snapshot_id).unlink()
    for module in (reader, verdicts):
        monkeypatch.setattr(module, "MOST_PASSED", 20)
    asked = reads(monkeypatch)
    assert latest_manifest(layout, to_judge=True).snapshot_id == last
    assert len(asked) <= 20
    monkeypatch.setattr(group_metrics, "load_verdicts", lambda *_: verdicts_of([]))
    assert group_metrics.metrics_of_snapshot(layout, None, GroupFilter(), 5)[0] == last
    assert len(asked) <= 130, "two requests and a manifest for each"


def test_the_newest_judged_snapshot_is_found_without_a_request_for_each_that_is_not(
    whole: tuple[Layout, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, judged = whole
    for number in range(1, 60):
        copy(layout, judged, number * MINUTE, named=False)
    asked = reads(monkeypatch)
    assert newest_judged(layout) is None
    judge(layout, judged)
    assert newest_judged(layout) == judged
    assert len(asked) <= 12


def test_an_older_snapshot_of_the_same_groups_is_found_behind_many_of_named_groups(whole: tuple[Layout, str]) -> None:
    """By it, a plan knows which groups are new."""
    layout, before = whole
    for number in range(1, 145):
        copy(layout, before, number * 10 * MINUTE, named=True)
    newest = load_manifest(layout, copy(layout, before, 3 * DAY, named=False))
    newest = replace(newest, observed_at=newest.observed_at + 3 * DAY)
    assert seen_before(layout, newest, DAY) == load_manifest(layout, before).observed_at


def test_an_older_snapshot_of_another_cluster_is_none_of_the_same_groups(whole: tuple[Layout, str]) -> None:
    """After three days on a standby, what appeared meanwhile seemed to have appeared within a day."""
    layout, before = whole
    at = load_manifest(layout, before).observed_at
    copy(layout, before, DAY, named=False, kafka_cluster_id="another", observed_at=(at + DAY).isoformat())
    newest = load_manifest(layout, copy(layout, before, 3 * DAY, named=False))
    newest = replace(newest, observed_at=newest.observed_at + 3 * DAY)
    assert seen_before(layout, newest, DAY) == at
    assert seen_before(layout, replace(newest, kafka_cluster_id="rebuilt"), DAY) is None


def test_verdicts_about_named_groups_are_not_those_of_the_cluster(
    whole: tuple[Layout, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody judged it by its id."""
    layout, judged = whole
    judge(layout, judged)
    named = copy(layout, judged, MINUTE, named=True)
    judge(layout, named)
    copy(layout, judged, 2 * MINUTE, named=False)
    assert newest_judged(layout) == judged
    monkeypatch.setattr(group_metrics, "load_verdicts", lambda *_: verdicts_of([]))
    assert group_metrics.metrics_of_snapshot(layout, None, GroupFilter(), 5)[0] == judged
    for snapshot_id in (path.stem for path in Path(str(layout.manifests)).iterdir() if path.stem != named):
        Path(str(layout.manifest(snapshot_id))).unlink()
    assert newest_judged(layout) == named, "there is no other"


@pytest.mark.parametrize("left", [b'{"groups": null}', b'{"gro', b""])
def test_what_a_killed_judgement_has_left_is_none(
    whole: tuple[Layout, str], left: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed between its two summaries, or while it wrote one: the judgement before it is the newest."""
    layout, judged = whole
    killed = copy(layout, judged, DAY, named=False)
    monkeypatch.setattr(group_metrics, "load_verdicts", lambda *_: verdicts_of([]))
    judge(layout, killed, left)
    assert newest_judged(layout) is None
    with pytest.raises(SnapshotError, match=r"no snapshot in .* is judged"):
        group_metrics.metrics_of_snapshot(layout, None, GroupFilter(), 5)
    judge(layout, judged)
    assert newest_judged(layout) == judged
    assert group_metrics.metrics_of_snapshot(layout, None, GroupFilter(), 5)[0] == judged
    with pytest.raises(SnapshotError, match=f"snapshot {killed} is not judged: no complete summary .* run the Spark"):
        load_verdicts(layout, killed)


COPIES = ["README.json", "{} copy.json", "{}.bak.json", "{} (1).json", "0-notes.json"]


@pytest.mark.parametrize("name", COPIES)
async def test_a_file_of_somebody_else_among_the_manifests_is_no_snapshot(tmp_path: Path, name: str) -> None:
    """Whoever edits a manifest copies it first. The jobs leave such a file out, and so does pruning."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("g", ("t", 0, 1))
    first = (await snapshot(admin, layout)).manifest.snapshot_id
    manifest = Path(str(layout.manifest(first)))
    other = manifest.with_name(name.format(first))
    shutil.copy(manifest, other)
    second = (await take_snapshot(admin, layout, now=Ticking(NOW + timedelta(hours=1)))).snapshot_id
    assert last_members(layout, ["g"], await admin.cluster_id()) == {}
    assert latest_manifest(layout).snapshot_id == second
    assert snapshot_ids(layout) == [first, second]
    assert other.exists()


async def test_a_snapshot_that_does_not_fit_leaves_nothing_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it left would fill the disk for good: a running deletion could not write its journal any more."""
    create = FILES.create

    def fill(path: Path, data: bytes) -> None:
        if path.name == "part-00001.parquet":
            raise StorageError("No space left on device")
        create(path, data)

    monkeypatch.setattr(table, "ROWS_OF_A_FILE", 1)
    monkeypatch.setattr(FILES, "create", fill)
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    for name in "gh":
        admin.add(name, ("t", 0, 1))
    with pytest.raises(StorageError, match="No space left"):
        await snapshot(admin, layout)
    assert list((tmp_path / "prod" / "data").rglob("*")) == []


async def test_a_storage_that_does_not_give_a_manifest_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What s3fs makes of a 503, and a disk of EIO, is an OSError: it was taken for a file that is not fit for good."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("g", ("t", 0, 1))
    await snapshot(admin, layout)

    def fail(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(StorageError, match="Input/output error") as caught:
        latest_manifest(layout)
    assert not is_final(caught.value), "Airflow retries it"
