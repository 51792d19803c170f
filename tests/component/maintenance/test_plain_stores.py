"""Files on a real SFTP server, by ``ObjectStoragePath`` and sshfs, as Airflow's provider of SFTP reaches it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from airflow_kafka_groups.doctor.finding import Report, Status
from airflow_kafka_groups.doctor.storage import examine_storage
from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError, StorageError
from airflow_kafka_groups.maintenance import durable_files
from airflow_kafka_groups.maintenance.deletion.guards.stop_switch import why_stopped
from airflow_kafka_groups.maintenance.durable_files import (
    create_file,
    list_names,
    read_file,
    remove_file,
    remove_folder,
)
from airflow_kafka_groups.maintenance.file_pruning.file_sets import FileKind
from airflow_kafka_groups.maintenance.file_pruning.prune import PruningLimits, prune
from airflow_kafka_groups.maintenance.journal.journal import Journal
from airflow_kafka_groups.maintenance.keep_alive.records import KeepAliveRecords
from airflow_kafka_groups.maintenance.restore.from_backup import propose_restore
from airflow_kafka_groups.maintenance.restore.recorded import change_recorded
from airflow_kafka_groups.maintenance.snapshot.reader import snapshot_ids
from airflow_kafka_groups.maintenance.storage import Layout, write_file
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW
from tests.lab.machine.ports import HOST
from tests.lab.servers.sftp_server import Full, SftpServer, WithoutLinks, sftp_path
from tests.unit.maintenance.scene import backed_up, delete_plan, layout_in

pytestmark = pytest.mark.safety

WRITERS, FILES = 6, 12
PART = b'{"format": 2, "'
AT = datetime(2026, 11, 1, tzinfo=UTC)

_KILLED = """
import json, os, signal, sys
from sshfs import SSHFileSystem
from sshfs.file import SSHFile
from upath import UPath  # what ObjectStoragePath is made of; Airflow takes seconds to import
from airflow_kafka_groups.maintenance.durable_files import create_file
from airflow_kafka_groups.maintenance.storage import Layout, write_file
write = SSHFile.write
def write_a_part(file, data):
    write(file, data[: len(data) // 2])
    print("written", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
SSHFile.write = write_a_part
path, data = UPath(sys.argv[1], **json.loads(sys.argv[2])), sys.argv[3].encode()
create_file(path, data) if sys.argv[4] == "create" else write_file(path.parent, path.name, data)
"""


@pytest.fixture(params=[asyncssh.SFTPServer, WithoutLinks], ids=["links", "no links"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SftpServer]:
    with SftpServer(tmp_path, request.param) as server:
        yield server


def kill_while_it_writes(server: SftpServer, path: Any, how: str) -> None:
    where = [f"ssh://{HOST}{path.path}", json.dumps(server.options)]
    killed = [sys.executable, "-c", _KILLED, *where, (PART * 2).decode(), how]
    ended = subprocess.run(killed, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "written\n"), ended.stderr


def leftovers(server: SftpServer) -> list[Path]:
    return list(server.folder.rglob("*.tmp"))


def test_of_six_that_write_at_once_exactly_one_succeeds(server: SftpServer) -> None:
    folders, together = [sftp_path(server) for _ in range(WRITERS)], threading.Barrier(WRITERS)

    def write(me: int) -> list[int]:
        won = []
        for number in range(FILES):
            together.wait(30)
            try:
                create_file(folders[me] / "journal" / f"{number}.json", f"{me}".encode() * 10_000)
                won.append(number)
            except FileExistsAlreadyError:
                pass
        return won

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(write, range(WRITERS)))
    for number in range(FILES):
        winners = [f"{me}".encode() * 10_000 for me in range(WRITERS) if number in won[me]]
        assert [read_file(folders[0] / "journal" / f"{number}.json")] == winners
    assert leftovers(server) == []


async def test_a_clean_up_is_stopped_made_once_and_undone(server: SftpServer) -> None:
    admin = FakeAdmin(log=(0, 10))
    for group_id in ("a", "b"):
        admin.add(group_id, ("t", 0, 5), protocol_type="")
    layout = layout_in(sftp_path(server))
    plan, _ = await backed_up(admin, layout)
    assert [plan.snapshot_id] == snapshot_ids(layout)
    create_file(layout.root / "STOP", b"incident 4711")
    assert "incident 4711" in (why_stopped(layout_in(sftp_path(server))) or "")
    assert "deleted" not in {name for name, n in (await delete_plan(admin, layout, plan)).report.counts.items() if n}
    assert set(admin.groups) == {"a", "b"}
    remove_file(layout.root / "STOP")
    assert (await delete_plan(admin, layout, plan, request_id="2")).report.counts["deleted"] == 2
    assert admin.groups == {}
    propose = partial(propose_restore, admin, layout, plan.plan_id)
    await change_recorded(
        admin, layout, "restore", propose, protects=lambda _: False, dry_run=False, may_be_absent=True
    )
    assert set(admin.groups) == set(KeepAliveRecords(layout).read()) == {"a", "b"}
    assert (await delete_plan(admin, layout, plan, request_id="3")).report.counts.get("deleted", 0) == 0
    assert set(admin.groups) == {"a", "b"}
    assert leftovers(server) == []


def test_a_cluster_called_as_the_switch_stops_nothing_and_an_empty_folder_does(server: SftpServer) -> None:
    """As on a disk. The server has no code for a folder: no cluster of the storage could delete any more."""
    base = sftp_path(server)
    create_file(base / "STOP" / "plans" / "1.json", b"{}")
    assert [why_stopped(Layout(base, cluster)) for cluster in ("STOP", "prod")] == [None, None]
    (server.folder / "kafka" / "prod" / "STOP").mkdir(parents=True)
    assert "Is a directory" in (why_stopped(Layout(base, "prod")) or "")
    remove_file(base / "STOP" / "plans" / "1.json")
    remove_folder(base / "STOP" / "plans")
    assert "Is a directory" in (why_stopped(Layout(base, "STOP")) or "")


def test_of_two_runs_that_begin_at_once_one_is_refused(server: SftpServer) -> None:
    journals = [Journal(sftp_path(server), "cluster-1") for _ in range(2)]
    together = threading.Barrier(2)

    def begin(number: int) -> str:
        before = journals[number].read()
        together.wait(30)
        try:
            journals[number].begin({"run_id": f"{number}", "request_id": None}, AT, after=before)
        except JournalError as exc:
            return str(exc)
        return ""

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(begin, range(2)))
    assert sorted("another run has begun at the same time" in text for text in said) == [False, True]
    assert [run.run_id for run in journals[0].read().runs] == [f"{said.index('')}"]


def test_a_process_that_is_killed_while_it_writes_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    """A part of an entry in the journal stopped every plan and deletion until somebody removed it."""
    with SftpServer(tmp_path) as server:
        base = sftp_path(server)
        journal = Journal(base, "cluster-1")
        journal.begin({"run_id": "1", "request_id": None}, AT, after=journal.read())
        entry = base / "_journal" / "cluster-1" / "00000002.json"
        kill_while_it_writes(server, entry, "create")
        assert [path.read_bytes() for path in leftovers(server)] == [PART]
        assert read_file(entry) is None
        journal.begin({"run_id": "2", "request_id": None}, AT, after=journal.read())
        assert [run.run_id for run in Journal(base, "cluster-1").read().runs] == ["1", "2"]


def test_a_process_that_is_killed_while_it_replaces_a_file_leaves_the_one_before(tmp_path: Path) -> None:
    """A part of a snapshot's manifest stopped every plan, and one of a record each retry that moves groups."""
    with SftpServer(tmp_path) as server:
        base = sftp_path(server)
        write_file(base / "manifests", "1.json", b"the one before")
        write_file(base / "manifests", "1.json", b"this one")
        kill_while_it_writes(server, base / "manifests" / "1.json", "write")
        kill_while_it_writes(server, base / "manifests" / "2.json", "write")
        assert [path.read_bytes() for path in leftovers(server)] == [PART, PART]
        assert (read_file(base / "manifests" / "1.json"), read_file(base / "manifests" / "2.json")) == (
            b"this one",
            None,
        )


def test_a_full_disk_leaves_no_part_of_a_file_and_the_one_before(tmp_path: Path) -> None:
    with SftpServer(tmp_path, Full) as server:
        base = sftp_path(server)
        write_file(base / "manifests", "1.json", b"this one")
        for write in (partial(write_file, base / "manifests", "1.json"), partial(create_file, base / "2.json")):
            with pytest.raises(StorageError, match="No space left"):
                write(b"x" * 1_000_000)
        files = {path.name: path.read_bytes() for path in server.folder.rglob("*") if path.is_file()}
        assert files == {"1.json": b"this one"}


def test_what_is_not_there_is_absent_and_what_cannot_be_asked_is_an_error(server: SftpServer) -> None:
    base = sftp_path(server)
    assert (read_file(base / "a" / "1.json"), list_names(base / "a"), why_stopped(layout_in(base))) == (None, [], None)
    create_file(base / "a" / "1.json", b"0123456789")
    create_file(base / "a" / "2.json", b"")
    assert (read_file(base / "a" / "1.json", 2, 5), read_file(base / "a" / "2.json")) == (b"234", b"")
    assert list_names(base / "a") == ["1.json", "2.json"]
    server.stop()
    for call in (read_file, list_names, lambda path: create_file(path, b"two")):
        with pytest.raises(StorageError):
            call(base / "a" / "3.json")
    assert "could not be read" in (why_stopped(layout_in(base)) or "")


async def test_old_files_are_pruned_with_what_a_killed_process_left(server: SftpServer) -> None:
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 5), protocol_type="")
    layout = layout_in(sftp_path(server))
    plan, _ = await backed_up(admin, layout)
    create_file(layout.root / "plans" / f".{plan.plan_id}.json.0a1b2c3d.tmp", b'{"format": 1, "ki')
    old, now = plan.snapshot_id, NOW + timedelta(days=90)
    new = f"{now:%Y%m%dT%H%M%SZ}-00000002"
    for folder in ("manifests", "plans"):
        name = {"manifests": "snapshot_id", "plans": "plan_id"}[folder]
        content = f'{{"format": 1, "cluster": "prod", "{name}": "{new}"}}'
        create_file(layout.root / folder / f"{new}.json", content.encode())
    limits = PruningLimits(days={FileKind.SNAPSHOT: 60, FileKind.CLEANUP: 60}, keep_newest=1)
    report = prune(layout, limits, now=now, dry_run=False)
    assert report.foreign == {}
    assert (report.removed["snapshot"], report.removed["cleanup"]) == ((old,), (plan.plan_id,))
    assert {path.name for path in (server.folder / "kafka" / "prod").rglob("*") if path.is_file()} == {f"{new}.json"}
    again = prune(layout, limits, now=now, dry_run=False)
    assert (again.removed["snapshot"], again.removed["cleanup"]) == ((), ())  # no folder is left to be found each day


def test_the_doctor_finds_it_good_and_leaves_it_as_it_was(server: SftpServer) -> None:
    report, base = Report(), sftp_path(server)
    examine_storage(base, report)
    assert {finding.check: finding.status for finding in report.findings} == dict.fromkeys(
        ("storage", "exclusive creation", "listing"), Status.OK
    )
    assert list_names(base) == []


def test_a_folder_into_which_somebody_puts_a_file_stays(server: SftpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    base = sftp_path(server)
    create_file(base / "a" / "mine.txt", b"mine")
    remove_folder(base / "a")
    monkeypatch.setattr(durable_files, "list_names", lambda folder: [])  # it comes between the look and the removal
    with pytest.raises(StorageError):
        remove_folder(base / "a")
    assert read_file(base / "a" / "mine.txt") == b"mine"
