"""A backup that lies in a storage: nothing is read that is damaged or of another plan."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.change.backup import make_backup as backup_module
from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.change.backup.make_backup import back_up_plan, require_backup_of
from airflow_kafka_groups.exceptions import BackupError
from tests.fakes.groups import Ticking
from tests.unit.change.backup.scene import cluster, ready
from tests.unit.change.scene import LATER, backed_up, layout_in


async def test_the_backup_of_another_plan_is_none(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    plan, backup = await backed_up(admin, layout)
    other = replace(plan, expires_at=plan.expires_at + timedelta(seconds=1))
    with pytest.raises(BackupError, match="not belong to plan"):
        require_backup_of(backup, other)
    with pytest.raises(BackupError, match="not belong to plan"):
        await back_up_plan(admin, layout, other, now=Ticking(LATER))


async def test_storage_that_changes_a_row_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, layout, plan = await ready(tmp_path)
    honest = backup_module.to_parquet

    def lying(columns: Any, backup: Any) -> bytes:
        table = pq.read_table(pa.BufferReader(honest(columns, backup)))
        place = table.schema.get_field_index("committed_offset")
        changed = pa.array([value + 1 for value in table["committed_offset"].to_pylist()])
        sink = pa.BufferOutputStream()
        pq.write_table(table.set_column(place, "committed_offset", changed), sink)
        return bytes(sink.getvalue())

    monkeypatch.setattr(backup_module, "to_parquet", lying)
    with pytest.raises(BackupError, match="do not match their fingerprint"):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert not (tmp_path / "prod" / "backups" / f"{plan.plan_id}.json").exists()


async def test_a_backup_that_lacks_a_group_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, layout, plan = await ready(tmp_path)
    honest = backup_module.to_parquet

    def short(columns: Any, backup: Any) -> bytes:
        table = pq.read_table(pa.BufferReader(honest(columns, backup)))
        sink = pa.BufferOutputStream()
        pq.write_table(table.filter(pa.compute.equal(table["group_id"], "a")), sink)
        return bytes(sink.getvalue())

    monkeypatch.setattr(backup_module, "to_parquet", short)
    with pytest.raises(BackupError, match="2 rows instead of 4"):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER))


def empty(path: Path) -> str:
    """Empty a file, and return its SHA-256."""
    path.write_bytes(b"")
    return sha256(b"").hexdigest()


Damage = Callable[[Path, Path, dict[str, Any]], object]


def rewrite(manifest: Path, data: dict[str, Any], **changes: Any) -> None:
    manifest.write_text(json.dumps({**data, **changes}))


DAMAGES: list[tuple[str, Damage, str]] = [
    ("no manifest", lambda m, p, d: m.unlink(), "there is no backup"),
    ("no data", lambda m, p, d: p.unlink(), "is missing"),
    ("another file", lambda m, p, d: rewrite(m, d, file={**d["file"], "name": "../x.parquet"}), "it names the file"),
    ("a byte more", lambda m, p, d: p.write_bytes(p.read_bytes() + b"x"), "damaged"),
    ("empty data", lambda m, p, d: p.write_bytes(b""), "damaged"),
    (
        "empty data with its digest",
        lambda m, p, d: rewrite(m, d, file={**d["file"], "sha256": empty(p)}),
        "cannot be read",
    ),
    ("another digest", lambda m, p, d: rewrite(m, d, file={**d["file"], "sha256": "0" * 64}), "damaged"),
    ("no digest", lambda m, p, d: rewrite(m, d, file={}), "damaged"),
    ("no file", lambda m, p, d: rewrite(m, d, file=None), "damaged"),
    ("other rows", lambda m, p, d: rewrite(m, d, file={**d["file"], "rows": 9}), "rows instead of 9"),
    ("other count", lambda m, p, d: rewrite(m, d, groups=9), "its manifest says 9"),
    ("other plan", lambda m, p, d: rewrite(m, d, plan_id="x"), "belongs to plan 'x'"),
    ("other cluster", lambda m, p, d: rewrite(m, d, cluster="x"), "of cluster 'x'"),
    ("other Kafka", lambda m, p, d: rewrite(m, d, kafka_cluster_id="x"), "another plan or cluster"),
    ("says both", lambda m, p, d: rewrite(m, d, not_backed_up={"a": "why"}), "lists as not backed up"),
    ("no plan digest", lambda m, p, d: rewrite(m, {k: v for k, v in d.items() if k != "plan_digest"}), "damaged"),
    ("newer", lambda m, p, d: rewrite(m, d, format=9), "format 9"),
]


@pytest.mark.parametrize(("damage", "message"), [item[1:] for item in DAMAGES], ids=[item[0] for item in DAMAGES])
async def test_no_damaged_backup_is_believed(damage: Damage, message: str, tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    plan, backup = await backed_up(cluster(), layout)
    folder = tmp_path / "prod" / "backups"
    manifest = folder / f"{plan.plan_id}.json"
    damage(manifest, Path(backup.path), json.loads(manifest.read_text()))
    with pytest.raises(BackupError, match=message):
        load_backup(layout, plan.plan_id)
