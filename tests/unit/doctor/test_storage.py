"""The storage folder is tried out, and left as it was."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.doctor import storage as doctor_storage
from airflow_kafka_groups.doctor.finding import Report, Status
from airflow_kafka_groups.doctor.storage import examine_storage
from airflow_kafka_groups.storage.disk import Disk
from airflow_kafka_groups.storage.file_storage import Storage


def found(root: Path) -> dict[str, Status]:
    report = Report()
    examine_storage(root, report)
    return {finding.check: finding.status for finding in report.findings}


def test_a_good_folder_passes_and_nothing_stays_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    checks = found(tmp_path)
    assert list(checks) == ["storage", "exclusive creation", "listing", "storage clock"]
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert set(found(tmp_path / "new")) == set(checks)


def test_a_file_where_the_folder_should_be_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert found(tmp_path / "file")["storage"] is Status.FAILED


def test_a_storage_that_replaces_files_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(_: Disk, path: Path, data: bytes, **how: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    monkeypatch.setattr(Disk, "create", replace)
    assert found(tmp_path)["exclusive creation"] is Status.FAILED


def test_a_storage_that_lists_late_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Storage, "list", lambda *_: {})
    assert found(tmp_path)["listing"] is Status.WARNING


def test_a_folder_that_this_user_may_not_enter_ends_no_other_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command showed one line, and none of what it had found out about the cluster before."""

    def deny(path: object = "x", *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    for place, name in ((Path, "exists"), (Disk, "create")):
        monkeypatch.setattr(place, name, deny)
    checks = found(tmp_path / "locked" / "kafka-groups")
    monkeypatch.undo()
    assert checks == {"storage": Status.FAILED}


@pytest.mark.parametrize(
    ("executor", "elsewhere"),
    [
        ("LocalExecutor", None),
        ("KubernetesExecutor", "KubernetesExecutor"),
        ("LocalExecutor,CeleryExecutor;team=my.module.OursExecutor", "CeleryExecutor, OursExecutor"),
    ],
)
def test_a_folder_of_one_machine_is_no_storage_for_tasks_on_others(
    executor: str, elsewhere: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a pod for each task, backup and journal of a deletion by name are gone when it ends."""
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    report = Report()
    examine_storage(tmp_path, report)
    places = [finding for finding in report.findings if finding.check == "place"]
    assert [finding.status for finding in places] == ([Status.WARNING] if elsewhere else [])
    assert not elsewhere or f"{elsewhere} runs tasks" in places[0].text


@pytest.mark.parametrize(("by", "status"), [(299, Status.OK), (400, Status.FAILED), (-400, Status.FAILED)])
def test_a_storage_whose_clock_is_another_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: int, status: Status
) -> None:
    monkeypatch.setattr(doctor_storage, "utc_now", lambda: datetime.now(UTC) - timedelta(seconds=by))
    assert found(tmp_path)["storage clock"] is status
