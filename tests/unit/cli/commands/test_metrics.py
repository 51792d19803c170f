"""The metrics of a judged snapshot from the command line."""

from pathlib import Path

import pytest

from airflow_kafka_groups.cli.commands import files
from airflow_kafka_groups.cli.main import main
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.openmetrics import read_openmetrics
from tests.unit.cli.commands.conftest import Cli
from tests.unit.operators import scene
from tests.unit.operators.scene import CLUSTER


@pytest.fixture(autouse=True)
def judged(admin: FakeAdmin, tmp_path: Path) -> str:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "etl-1", "etl-2")}
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a"})
    return snapshot_id


def test_the_file_is_written_beside_the_working_folder(
    judged: str, stored: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, found, _ = stored("metrics", "--openmetrics-path", "groups.prom")
    assert (code, found["snapshot_id"], found["openmetrics_path"]) == (0, judged, str(tmp_path / "groups.prom"))
    assert [tuple(row) for row in found["metrics"]] == [files.METRICS_COLUMNS] * 3
    assert {row["group_or_family"]: row["groups"] for row in found["metrics"]} == {"a": 1, "b": 1, "etl-<number>": 2}
    read = {family.name for family in read_openmetrics((tmp_path / "groups.prom").read_text())}
    assert "kafka_groups_family_lag_records" in read


def test_groups_over_the_limit_are_reported(stored: Cli, tmp_path: Path) -> None:
    code, found, _ = stored("metrics", "--max-groups", "1")
    assert (code, found["omitted"], found["openmetrics_path"], len(found["metrics"])) == (3, 1, None, 2)
    assert stored("metrics", "--max-groups", "0")[0] == 2
    assert [row["group_or_family"] for row in stored("metrics", "--include", "b")[1]["metrics"]] == ["b"]


@pytest.mark.parametrize("connection", [("--config", "no-such-file"), ("--conn-id", "no_such_connection")])
def test_a_connection_that_does_not_exist_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], connection: tuple[str, str]
) -> None:
    code = main(["metrics", *connection, "--storage-path", str(tmp_path), "--cluster", CLUSTER])
    printed = capsys.readouterr()
    assert (code, printed.out, connection[1] in printed.err) == (2, "", True)
