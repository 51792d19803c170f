"""A table gets one more column: files from before it, and from after it by the code without it, are read as ever."""

import hashlib
import io
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.change.backup.file import load_backup, open_backup
from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.file_pruning import FileKind, PruningLimits, prune
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.ledger.plan_rows import find_rows, read_columns, read_rows
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage import schemas
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.schemas import PLAN_COLUMNS, Column, Columns, known_columns, with_missing
from airflow_kafka_groups.storage.sealed_table import read_sealed, write_sealed
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking
from tests.fakes.verdicts import verdicts_of
from tests.histories.judged import judge, verdict_folder, verdicts, write_hour
from tests.histories.lake import CLUSTER
from tests.histories.shorthand import snapshot_id
from tests.unit.change.scene import LATER, POLICY, layout_in, snapshot
from tests.unit.change.scene import judge as judge_groups

RACK = Column("rack", "string", nullable=True, added=True)
HOURS = range(4)
Change = Callable[[Path], None]


def add_to_code(patch: pytest.MonkeyPatch, name: str) -> None:
    """Add the column to a table of the code, wherever it is named."""
    before: Columns = getattr(schemas, name)
    for module in [each for key, each in sys.modules.items() if key.startswith("airflow_kafka_groups.")]:
        if getattr(module, name, None) is before:
            patch.setattr(module, name, (*before, RACK))


def add_to_bytes(content: bytes) -> bytes:
    with pq.ParquetFile(pa.BufferReader(content)) as file:
        table = file.read()
    table = table.append_column(RACK.name, pa.array([f"r{n}" for n in range(len(table))], pa.string()))
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()


def add_to_files(folder: Path, every: int = 1) -> None:
    """Add the column to files, as a newer version writes them; to each, or to each second one."""
    files = sorted(folder.rglob("*.parquet"))
    assert files
    for path in files[::every]:
        path.write_bytes(add_to_bytes(path.read_bytes()))
        manifest = folder.parent / "manifests" / f"{path.parent.name}.json"
        if folder.name == "data":
            content = json.loads(manifest.read_text())
            content["files"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            manifest.write_text(json.dumps(content))


def add_and_seal(path: Path, manifest: Path, entry: str | None = None) -> None:
    """Add the column to a file, and write its digest to the manifest, or to its only file's entry."""
    path.write_bytes(add_to_bytes(path.read_bytes()))
    content = json.loads(manifest.read_text())
    sealed = content[entry] if entry else content["files"][0]
    sealed |= {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size}
    manifest.write_text(json.dumps(content))


@pytest.fixture(params=["older files", "newer files", "both kinds of files"])
def change(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Change:
    """Return what brings files and code apart; the files are as the code without the column writes them."""

    def apart(folder: Path) -> None:
        if request.param != "newer files":
            add_to_code(monkeypatch, "SNAPSHOT_COLUMNS")
        if request.param != "older files":
            add_to_files(folder, 1 if request.param == "newer files" else 2)

    return apart


def test_they_are_judged_alike(tmp_path: Path, change: Change) -> None:
    for base in (tmp_path / "before", tmp_path / "after"):
        for number in HOURS:
            write_hour(base, number)
    change(tmp_path / "after" / CLUSTER / "data")
    before, after = (judge(tmp_path / name) for name in ("before", "after"))
    assert after["snapshots_reduced"] == len(HOURS)
    assert (after["verdicts"], verdicts(tmp_path / "after", 3)) == (
        before["verdicts"],
        verdicts(tmp_path / "before", 3),
    )


async def test_they_are_planned_backed_up_restored_and_pruned_alike(tmp_path: Path, change: Change) -> None:
    found = []
    for name in ("before", "after"):
        admin, layout = FakeAdmin(), layout_in(tmp_path / name)
        admin.add("a", ("t", 0, 1), ("u", 1, 7))
        admin.add("b", ("t", 0, 3))
        taken = [await snapshot(admin, layout) for _ in range(2)]
        if name == "after":
            change(tmp_path / name / "prod" / "data")
        reader = SnapshotReader(layout, taken[-1].manifest.snapshot_id)
        plan = make_plan(verdicts_of(judge_groups(reader)), reader, POLICY, LATER)
        save_plan(layout, plan)
        backup = await back_up_plan(admin, layout, plan, now=Ticking(LATER))
        changes = await RestoreRequest(plan_id=plan.plan_id, overwrite=True).propose(admin, layout)
        limits = PruningLimits(days={FileKind.SNAPSHOT: 0.0})
        removed = prune(layout, limits, now=LATER + timedelta(days=1), dry_run=False).removed
        facts = [(group.group_id, group.fingerprint, group.reason) for group in plan.groups]
        found.append((facts, sorted(backup.entries), [each.after for each in changes], len(removed["snapshot"])))
    assert found[1] == found[0]
    assert [group_id for group_id, *_ in found[0][0]] == ["b", "a"]


@pytest.mark.parametrize("newer", [False, True])
async def test_plans_and_backups_from_before_and_after_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newer: bool
) -> None:
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("a", ("t", 0, 1))
    reader = await snapshot(admin, layout)
    plan = make_plan(verdicts_of(judge_groups(reader)), reader, POLICY, LATER)
    save_plan(layout, plan)
    backup = await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    body = plan.body
    if newer:
        body = add_to_bytes(body)
        add_and_seal(Path(backup.path), Path(str(layout.backup_manifest(plan.plan_id))), "file")
    else:
        for name in ("PLAN_COLUMNS", "BACKUP_COLUMNS"):
            add_to_code(monkeypatch, name)
    planned, _ = read_rows(body)
    assert [*planned] == [*plan.groups] == find_rows(read_columns(body, [each.name for each in PLAN_COLUMNS]), "a")
    assert load_backup(layout, plan.plan_id) == backup
    assert [group.offsets.group_id for group in open_backup(layout, plan.plan_id)[1]] == ["a"]


def test_verdicts_and_observations_of_a_newer_job_are_read(tmp_path: Path) -> None:
    for number in HOURS:
        write_hour(tmp_path, number)
    judge(tmp_path)
    layout, expected = Layout(tmp_path, CLUSTER), verdicts(tmp_path, 3)
    add_to_files(verdict_folder(tmp_path, 3))
    found = load_verdicts(layout, snapshot_id(3)).table
    assert (found.to_pylist(), found.schema.names) == (expected, [*expected[0]])


@pytest.mark.parametrize("newer", [False, True])
def test_observations_from_before_and_after_need_not_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newer: bool
) -> None:
    for number in HOURS:
        write_hour(tmp_path, number)
    judge(tmp_path)
    expected = verdicts(tmp_path, 3)
    if newer:
        folder, summaries = (tmp_path / CLUSTER / name / "observations" for name in ("tables", "summaries"))
        for path in folder.rglob("*.parquet"):
            add_and_seal(path, summaries / f"{path.parent.name.removeprefix('snapshot_id=')}.json")
    else:
        add_to_code(monkeypatch, "OBSERVATION_COLUMNS")
    assert judge(tmp_path)["snapshots_reduced"] == 0
    assert verdicts(tmp_path, 3) == expected


def test_a_table_beside_a_snapshot_is_read_with_the_columns_that_the_code_knows(tmp_path: Path) -> None:
    columns = schemas.SUBSCRIPTION_COLUMNS
    table = pa.Table.from_pylist([{"group_id": "g", "topics": ["t"], "complete": True}], schemas.arrow_schema(columns))
    path = tmp_path / "s.parquet"
    write_sealed(path, table)
    written = path.read_bytes()
    for content, known in (
        (written, (*columns, RACK)),
        (add_to_bytes(written), columns),
        (add_to_bytes(written), (*columns, RACK)),
    ):
        path.write_bytes(content)
        found = read_sealed(path, "subscriptions", known, hashlib.sha256(content).hexdigest())
        assert found.schema.equals(schemas.arrow_schema(known))
        assert found.select(table.column_names).equals(table)


COLUMNS = schemas.columns({"a": "int32", "b": "string, null", "c": "int64, added"})


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"b": pa.string()}, "column a is missing, not int32"),
        ({"a": pa.int32()}, "column b is missing, not string"),
        ({"a": pa.int64(), "b": pa.string()}, "column a is int64, not int32"),
        ({"a": pa.int32(), "b": pa.string(), "c": pa.string()}, "column c is string, not int64"),
    ],
)
def test_what_contradicts_the_table_is_refused(found: dict[str, Any], problem: str) -> None:
    """Also a column that may be null: all files have it, and one whose name is damaged would read as null."""
    with pytest.raises(ValueError, match=f"^{problem}$"):
        known_columns(pa.schema(found), COLUMNS)


@pytest.mark.parametrize("make", [pa.table, pa.record_batch])
def test_what_is_lacking_is_null_and_the_order_is_the_table_s(make: Callable[..., Any]) -> None:
    rows = make({"b": pa.array(["x"]), "new": pa.array([1]), "a": pa.array([1], pa.int32())})
    assert with_missing(rows, COLUMNS).to_pylist() == [{"a": 1, "b": "x", "c": None}]
