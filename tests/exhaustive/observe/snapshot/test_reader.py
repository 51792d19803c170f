import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupState, GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.observe.snapshot import reader
from airflow_kafka_groups.observe.snapshot.reader import (
    SnapshotReader,
    latest_manifest,
    load_manifest,
    seen_before,
    snapshot_ids,
)
from airflow_kafka_groups.storage.json_files import write_json
from airflow_kafka_groups.storage.paths import time_prefix
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, FakeGroup, Ticking, timeout
from tests.fakes.snapshot_groups import groups_in
from tests.unit.change.scene import layout_in, snapshot

ID = "20260301T120000Z-0123abcd"

offsets = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "ü"]), st.integers(0, 5)),
    st.builds(OffsetAndMetadata, st.integers(0, 2**62), st.text(max_size=5), st.none() | st.integers(0, 2**31 - 1)),
    max_size=6,
)
groups = st.dictionaries(
    st.text(min_size=1, max_size=6),
    st.builds(
        FakeGroup,
        offsets=offsets,
        state=st.sampled_from(GroupState),
        type=st.sampled_from([GroupType.CLASSIC, GroupType.CONSUMER]),
        members=st.integers(0, 3),
    ),
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(groups)
async def test_what_is_written_is_read_back(found: dict[str, FakeGroup]) -> None:
    admin = FakeAdmin(found)
    with tempfile.TemporaryDirectory() as folder:
        taken = await snapshot(admin, layout_in(Path(folder)))
        read = {group.group_id: group for group in groups_in(taken)}
        assert list(read) == sorted(found)
        for group_id, group in found.items():
            assert dict(read[group_id].offsets) == group.offsets
            assert (read[group_id].state, read[group_id].group_type) == (group.state.value, group.type.value)
            is_described = group.state is not GroupState.EMPTY or group.type is GroupType.CONSUMER
            assert read[group_id].members == (group.members if is_described else 0)
        some = set(sorted(found)[::2])
        assert {group.group_id for group in groups_in(taken, some)} == some


async def test_many_groups_across_batches_and_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BATCH_ROWS", 7)
    admin = FakeAdmin()
    for number in range(40):
        admin.add(f"g{number:02}", *[("t", partition, number) for partition in range(5)])
    taken = await snapshot(admin, layout_in(tmp_path))
    assert [len(group.offsets) for group in groups_in(taken)] == [5] * 40
    assert [group.group_id for group in groups_in(taken, ["g07", "g33", "nowhere"])] == ["g07", "g33"]


Damage = Callable[[Path, Path, dict[str, Any]], object]


def rewrite(manifest: Path, data: dict[str, Any], **changes: Any) -> None:
    manifest.write_text(json.dumps({**data, **changes}))


def remove(manifest: Path, folder: Path) -> None:
    manifest.unlink()
    rmtree(folder)


DAMAGES: list[tuple[str, Damage, str]] = [
    ("no manifest", lambda m, p, d: m.unlink(), "incomplete"),
    ("nothing at all", lambda m, p, d: remove(m, p.parent), "missing"),
    ("half a manifest", lambda m, p, d: m.write_text(json.dumps(d)[:60]), "incomplete"),
    ("a key is missing", lambda m, p, d: rewrite(m, {k: v for k, v in d.items() if k != "complete"}), "damaged"),
    ("a time without zone", lambda m, p, d: rewrite(m, d, observed_at="2026-01-01T00:00:00"), "damaged"),
    ("newer format", lambda m, p, d: rewrite(m, d, format=2), "format 2"),
    ("another cluster", lambda m, p, d: rewrite(m, d, cluster="x"), "belongs to snapshot"),
    ("other rows", lambda m, p, d: rewrite(m, d, rows=7, files=[{**d["files"][0], "rows": 7}]), "manifest says 7"),
    ("no data", lambda m, p, d: p.unlink(), "missing: .*part-00000"),
    ("half the data", lambda m, p, d: p.write_bytes(p.read_bytes()[:200]), "other bytes than its manifest"),
    ("a flipped bit", lambda m, p, d: p.write_bytes(p.read_bytes().replace(b"t", b"u", 1)), "other bytes"),
]


@pytest.mark.parametrize(("damage", "message"), [item[1:] for item in DAMAGES], ids=[item[0] for item in DAMAGES])
async def test_no_damaged_snapshot_is_believed(damage: Damage, message: str, tmp_path: Path) -> None:
    admin = FakeAdmin()
    admin.add("a", ("t", 0, 1))
    admin.add("b", ("t", 0, 1))
    layout = layout_in(tmp_path)
    snapshot_id = (await snapshot(admin, layout)).manifest.snapshot_id
    manifest = tmp_path / "prod" / "manifests" / f"{snapshot_id}.json"
    parquet = tmp_path / "prod" / "data" / snapshot_id / "part-00000.parquet"
    damage(manifest, parquet, json.loads(manifest.read_text()))
    with pytest.raises(SnapshotError, match=message):
        list(SnapshotReader(layout, snapshot_id).summaries())


async def test_the_latest_complete_snapshot(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    assert snapshot_ids(layout) == []
    with pytest.raises(SnapshotError, match="no snapshot"):
        latest_manifest(layout)
    from airflow_kafka_groups.observe.snapshot.collect import take_snapshot

    admin = FakeAdmin()
    clock = Ticking(NOW)
    admin.missing_brokers = {2: timeout()}
    await take_snapshot(admin, layout, now=clock)
    with pytest.raises(SnapshotError, match=r"none of the newest 1 .* is complete"):
        latest_manifest(layout)
    admin.missing_brokers = {}
    whole = await take_snapshot(admin, layout, now=clock)
    admin.missing_brokers = {2: timeout()}
    await take_snapshot(admin, layout, now=clock)
    assert latest_manifest(layout).snapshot_id == whole.snapshot_id
    assert len(snapshot_ids(layout)) == 3
    assert load_manifest(layout, whole.snapshot_id).complete


async def test_a_long_streak_of_incomplete_snapshots_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each manifest is a request to an object store, and every plan of a broken cluster would send them."""
    layout = layout_in(tmp_path)
    manifest = (await snapshot(FakeAdmin(), layout)).manifest

    def add_incomplete(hours: range) -> None:
        for hour in hours:
            id_ = f"{time_prefix(manifest.observed_at + timedelta(hours=hour))}-00000001"
            write_json(layout.manifests, f"{id_}.json", replace(manifest, snapshot_id=id_, complete=False).to_json())

    asked: list[str] = []

    def note(name: str) -> None:
        call = getattr(Path, name)

        def noted(path: Path) -> Any:
            asked.append(name)
            return call(path)

        monkeypatch.setattr(Path, name, noted)

    monkeypatch.setattr(reader, "MOST_PASSED", 100)
    note("read_bytes")
    note("exists")
    add_incomplete(range(1, 100))
    asked.clear()
    assert latest_manifest(layout).snapshot_id == manifest.snapshot_id
    assert asked == ["read_bytes"] * 100, "a manifest that is there is asked for once"
    add_incomplete(range(100, 151))
    asked.clear()
    why = "none of the newest 100 snapshots .* is complete: take one while all brokers answer"
    with pytest.raises(SnapshotError, match=why):
        latest_manifest(layout)
    assert asked == ["read_bytes"] * 100


async def test_a_damaged_newest_manifest_hides_nothing(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    await snapshot(FakeAdmin(), layout)
    (tmp_path / "prod" / "manifests" / "99990301T120000Z-0123abcd.json").write_text("{")
    with pytest.raises(SnapshotError, match="incomplete"):
        latest_manifest(layout)


async def test_a_snapshot_of_the_same_groups_is_not_looked_for_in_the_history_of_a_year(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever changes what is snapshotted has no older snapshot of the same groups."""
    layout = layout_in(tmp_path)
    manifest = (await snapshot(FakeAdmin(), layout)).manifest
    at = manifest.observed_at
    for hour in range(24, 24 + 200):
        older = replace(manifest, snapshot_id=f"{time_prefix(at - timedelta(hours=hour))}-00000001")
        older = replace(older, observed_at=at - timedelta(hours=hour))
        write_json(layout.manifests, f"{older.snapshot_id}.json", older.to_json())
    assert seen_before(layout, manifest, timedelta(days=1)) == at - timedelta(days=1)
    reads: list[Path] = []
    read = Path.read_bytes

    def noted(path: Path) -> bytes:
        reads.append(path)
        return read(path)

    monkeypatch.setattr(reader, "MOST_PASSED", 100)
    monkeypatch.setattr(Path, "read_bytes", noted)
    others = replace(manifest, scope={**manifest.scope, "exclude": ["tmp-*"]})
    assert seen_before(layout, others, timedelta(days=1)) is None
    assert len(reads) == 100
