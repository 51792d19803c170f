import asyncio
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.change.backup.file import Backup, load_backup, open_backup
from airflow_kafka_groups.change.backup.make_backup import back_up_plan, require_backup_of
from airflow_kafka_groups.exceptions import BackupError, PlanError, StorageError
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.storage.file_storage import FILES, Storage
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import Ticking, broker_error, timeout
from tests.unit.change.backup.scene import T0, T1, cluster, log_ends_of, ready
from tests.unit.change.scene import LATER, backed_up, layout_in, planned


async def test_a_backup_holds_all_that_a_restore_needs(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    plan, backup = await backed_up(admin, layout)
    assert (sorted(backup.entries), dict(backup.not_backed_up), backup.rows) == (["a", "b"], {}, 4)
    assert require_backup_of(backup, plan) is backup
    first, second = open_backup(layout, plan.plan_id)[1]
    assert dict(first.offsets) == admin.groups["a"].offsets
    assert dict(second.offsets) == admin.groups["b"].offsets
    assert log_ends_of(first) == {T0: (2, 50), T1: (0, 7)}
    assert log_ends_of(second) == {TopicPartition("gone", 3): (-1, -1), T1: (0, 7)}
    assert (second.entry.group_type, second.entry.protocol_type) == ("classic", "consumer")
    assert second.entry.fingerprint == plan.groups[[g.group_id for g in plan.groups].index("b")].fingerprint
    (row, *_) = pq.read_table(backup.path).to_pylist()
    assert (row["cluster"], row["kafka_cluster_id"], row["plan_id"]) == ("prod", plan.kafka_cluster_id, plan.plan_id)
    manifest = json.loads((tmp_path / "prod" / "backups" / f"{plan.plan_id}.json").read_text())
    data = FILES.read(Path(backup.path)) or b""
    assert manifest["file"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert (manifest["plan_digest"], manifest["groups"]) == (plan.digest, 2)
    assert backup.to_json()["groups"] == 2


async def test_offsets_are_read_with_open_transactions_in_mind(tmp_path: Path) -> None:
    admin = cluster()
    await backed_up(admin, layout_in(tmp_path))
    assert sorted(admin.asked("stable offsets")) == ["a", "b"]


ERRORS = [code for code in ErrorCode if code is not ErrorCode.none]


@pytest.fixture(scope="module")
def backup_with_every_error(tmp_path_factory: pytest.TempPathFactory) -> Backup:
    """Back up a group for each error code, with which its offsets are refused, and the two of the cluster."""
    admin = cluster()
    for code in ERRORS:
        admin.add(code.name, ("t", 0, 5))
    layout = layout_in(tmp_path_factory.mktemp("errors"))

    async def run() -> Backup:
        plan = await planned(admin, layout)
        admin.offset_errors.update({code.name: broker_error(code.name.upper()) for code in ERRORS})
        return await back_up_plan(admin, layout, plan, now=Ticking(LATER))

    return asyncio.run(run())


@pytest.mark.parametrize("code", ERRORS)
def test_no_error_reads_as_a_backup(code: ErrorCode, backup_with_every_error: Backup) -> None:
    assert sorted(backup_with_every_error.entries) == ["a", "b"]
    assert code.name.upper() in backup_with_every_error.not_backed_up[code.name]


async def test_what_moved_vanished_or_did_not_answer_is_not_backed_up(tmp_path: Path) -> None:
    admin = cluster()
    for name in ("moved", "vanished", "silent", "noted"):
        admin.add(name, ("t", 0, 1))
    layout = layout_in(tmp_path)
    plan = await planned(admin, layout)
    admin.commit("moved", "t", 0, 2)
    admin.groups["noted"].offsets[T0] = OffsetAndMetadata(1, "still here", 3)
    del admin.groups["vanished"]
    admin.silent.add("silent")
    backup = await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert sorted(backup.entries) == ["a", "b"]
    assert {name: reason.split(":")[0] for name, reason in backup.not_backed_up.items()} == {
        "moved": "its offsets moved since the plan was made",
        "noted": "its offsets moved since the plan was made",
        "vanished": "no committed offset is visible any more",
        "silent": "could not be read",
    }
    assert load_backup(layout, plan.plan_id) == backup


async def test_its_progress_counts_the_groups(tmp_path: Path) -> None:
    admin, layout, said = cluster(), layout_in(tmp_path), list[tuple[str, int, int]]()
    plan = await planned(admin, layout)
    await back_up_plan(admin, layout, plan, now=Ticking(LATER), progress=lambda *step: said.append(step))
    assert said == [("backup", 1, 2), ("backup", 2, 2)]


async def test_an_empty_plan_has_an_empty_backup(tmp_path: Path) -> None:
    _, backup = await backed_up(FakeAdmin(), layout_in(tmp_path))
    assert (dict(backup.entries), backup.rows) == ({}, 0)


async def test_a_repeated_run_keeps_the_backup_of_what_is_deleted_by_now(tmp_path: Path) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    plan, first = await backed_up(admin, layout)
    admin.groups.clear()
    again = await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert again == first
    assert len(list(open_backup(layout, plan.plan_id)[1])) == 2


@pytest.mark.safety
@pytest.mark.parametrize("when", ["offsets", "log ends"])
@pytest.mark.promise(2)
async def test_a_slow_run_does_not_replace_the_backup_of_what_is_deleted_by_now(tmp_path: Path, when: str) -> None:
    """Airflow takes a worker for dead and runs the task again; the first one goes on, and finds the groups gone."""
    admin, layout, plan = await ready(tmp_path)
    slow = FakeAdmin(dict(admin.groups))
    first: list[Backup] = []

    def meanwhile(call: str) -> None:
        if call == {"offsets": "stable offsets", "log ends": "list_offsets"}[when] and not first:
            with ThreadPoolExecutor(1) as pool:
                backing_up = back_up_plan(admin, layout, plan, now=Ticking(LATER))
                first.append(pool.submit(asyncio.run, backing_up).result())
            slow.groups.clear()

    slow.before = meanwhile
    late = await back_up_plan(slow, layout, plan, now=Ticking(LATER))
    assert load_backup(layout, plan.plan_id).entries == first[0].entries
    assert sorted(late.entries) == ["a", "b"]


@pytest.mark.safety
async def test_a_try_that_died_before_its_manifest_stands_in_nobodys_way(tmp_path: Path) -> None:
    admin, layout, plan = await ready(tmp_path)
    folder = tmp_path / "prod" / "backups"
    folder.mkdir()
    (folder / f"{plan.plan_id}-00000000.parquet").write_bytes(b"half")
    with pytest.raises(BackupError, match="there is no backup"):
        load_backup(layout, plan.plan_id)
    backup = await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert sorted(backup.entries) == ["a", "b"]
    assert (folder / f"{plan.plan_id}-00000000.parquet").read_bytes() == b"half"


@pytest.mark.safety
@pytest.mark.promise(2)
async def test_of_two_tries_at_once_the_first_manifest_counts_and_nothing_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout, plan = await ready(tmp_path)
    create, first = FILES.create, list[Backup]()

    def create_after_another(path: Any, data: bytes) -> None:
        if path.name.endswith(".json") and not first:
            monkeypatch.setattr(FILES, "create", create)
            with ThreadPoolExecutor(1) as pool:
                first.append(pool.submit(asyncio.run, back_up_plan(admin, layout, plan, now=Ticking(LATER))).result())
            admin.groups.clear()  # and deleted by it
        create(path, data)

    monkeypatch.setattr(FILES, "create", create_after_another)
    late = await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert late == first[0] == load_backup(layout, plan.plan_id)


@pytest.mark.safety
@pytest.mark.parametrize("changed", ["rows", "plan_digest"])
async def test_what_lies_in_the_storage_after_the_manifest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """The rows are not decoded twice, but they are read again, and compared with what was decoded."""
    admin, layout, plan = await ready(tmp_path)

    def create_and_change(path: Path, data: bytes) -> None:
        manifest = json.loads(data) if path.name.endswith(".json") else None
        if manifest is not None and changed == "rows":
            file = path.parent / manifest["file"]["name"]
            file.write_bytes(file.read_bytes()[:-1] + b"!")
        elif manifest is not None:
            manifest[changed] = "another"
        Storage().create(path, data if manifest is None else json.dumps(manifest).encode())

    monkeypatch.setattr(FILES, "create", create_and_change)
    with pytest.raises(BackupError, match="differs when read back"):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER))


@pytest.mark.safety
@pytest.mark.promise(2)
async def test_a_storage_error_is_no_proof_that_there_is_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, layout = cluster(), layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.groups.clear()

    def fail(self: Path) -> bytes:
        raise PermissionError(13, "not now")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(StorageError, match="not now"):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER))


async def test_a_plan_that_does_not_apply_is_not_backed_up(tmp_path: Path) -> None:
    admin, layout, plan = await ready(tmp_path)
    with pytest.raises(PlanError, match="expired"):
        await back_up_plan(admin, layout, plan, now=Ticking(plan.expires_at))
    with pytest.raises(PlanError, match="approved"):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER), approved_digest="0" * 64)
    with pytest.raises(BackupError, match="not for 'other'"):
        await back_up_plan(admin, Layout(tmp_path, "other"), plan, now=Ticking(LATER))
    admin.cluster = "another"
    with pytest.raises(PlanError, match="check the connection"):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    assert not (tmp_path / "prod" / "backups").exists()


async def test_reading_that_fails_as_a_whole_leaves_no_backup(tmp_path: Path) -> None:
    admin, layout, plan = await ready(tmp_path)

    def crash(call: str) -> None:
        if call == "list_offsets":
            raise timeout()

    admin.before = crash
    with pytest.raises(TimeoutError):
        await back_up_plan(admin, layout, plan, now=Ticking(LATER))
    with pytest.raises(BackupError, match="there is no backup"):
        load_backup(layout, plan.plan_id)
