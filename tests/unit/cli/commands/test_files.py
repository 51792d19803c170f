"""Commands about files: DAGs, a policy, metrics, a snapshot; nothing in Kafka is changed."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups import example_dags
from airflow_kafka_groups.cli.commands import files
from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, latest_manifest
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.openmetrics import read_openmetrics
from tests.unit.cli.commands.conftest import Cli
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators.scene import CLUSTER, Site

ROOT = Path(__file__).parents[4]
FILES = sorted(path.name for path in (ROOT / "dags").glob("*.py"))


def test_a_checkout_has_its_dags_in_the_package() -> None:
    assert example_dags.folder() == ROOT / "dags"
    assert [path.name for path in example_dags.dag_files()] == FILES
    assert importlib.util.find_spec("airflow_kafka_groups.example_dags.lag_alert") is not None


def test_the_folder_without_files_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(example_dags, "_CHECKOUT", tmp_path)
    with pytest.raises(FileNotFoundError, match="install airflow-kafka-groups again"):
        example_dags.folder()


def test_only_the_chosen_dag_is_copied(tmp_path: Path) -> None:
    assert main(["copy-dags", str(tmp_path), "--only", "lag_alert"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["lag_alert.py"]


def test_a_second_copy_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "dags"
    assert main(["copy-dags", str(folder)]) == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        name: (ROOT / "dags" / name).read_bytes() for name in FILES
    }
    assert capsys.readouterr().out.count("copied") == len(FILES)
    assert main(["copy-dags", str(folder)]) == 0
    assert capsys.readouterr().out.count("unchanged") == len(FILES)


def test_a_file_that_differs_is_kept_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "lag_alert.py"
    mine.write_text("# mine\n")
    assert main(["copy-dags", str(tmp_path), "-o", "csv"]) == 3
    printed = capsys.readouterr()
    assert f"lag_alert,kept,{mine}" in printed.out
    assert "--force" in printed.err
    assert mine.read_text() == "# mine\n"
    assert main(["copy-dags", str(tmp_path), "-o", "csv", "--force"]) == 0
    assert f"lag_alert,overwritten,{mine}" in capsys.readouterr().out
    assert mine.read_bytes() == (ROOT / "dags" / "lag_alert.py").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "named"), [(["--only", "no_such_dag"], "no_such_dag"), ([], "is not a folder")], ids=["dag", "file"]
)
def test_bad_usage_copies_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    target = tmp_path / "target"
    if not arguments:
        target.write_text("a file")
    assert main(["copy-dags", str(target), *arguments]) == 2
    assert named in capsys.readouterr().err
    assert not target.is_dir()


DELETE_A = """\
version: 1
rules:
  - name: temp
    action: delete
    idle: 3d
    match: {groups: ["a*"]}
tests:
  - {group: a1, rule: temp, action: delete}
"""


@pytest.fixture
def manifest(site: Site) -> Path:
    """Return the manifest of a snapshot with the groups a, b and live."""
    snapshot_id = site.judged_once(["a", "b"], ["live"])
    return Path(str(site.layout.manifest(snapshot_id)))


def check(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any, str]:
    capsys.readouterr()
    code = main(["policy", "check", *map(str, words), "--output", "json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out) if printed.out else None, printed.err


def test_a_valid_policy_passes_with_its_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, said = check(capsys, write_policy(tmp_path, DELETE_A + "  - {group: b, action: keep}\n"))
    assert (code, found["rules"], found["warnings"], found["groups"]) == (0, 1, [], [])
    assert "its tests pass" in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [(DELETE_A.replace("3d", "3 fortnights"), "line 5"), (DELETE_A.replace("group: a1", "group: b1"), "line 8")],
)
def test_a_wrong_policy_is_refused_with_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    code, found, said = check(capsys, write_policy(tmp_path, text))
    assert (code, found) == (2, None)
    assert problem in said


def test_what_an_edit_changes_is_shown_for_the_groups_of_a_snapshot(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old").mkdir()
    before = write_policy(tmp_path / "old", DELETE_A)
    after = write_policy(tmp_path, DELETE_A.replace('["a*"]', '["b*"]').replace("group: a1", "group: b1"))
    code, found, _ = check(capsys, after, "--against", manifest, "--before", before)
    deletes = "delete after 3d, 2 snapshots (rule 'temp')"
    keeps = "keep (rule 'default')"
    assert code == 0
    assert found["groups"] == [
        {"group_id": "a", "before": deletes, "after": keeps},
        {"group_id": "b", "before": keeps, "after": deletes},
    ]
    assert found["changed"] == 2


def test_without_a_policy_before_every_group_was_kept(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found, _ = check(capsys, write_policy(tmp_path, DELETE_A + 'protect: ["a"]\n'), "--against", manifest)
    assert [row["before"] for row in found["groups"]] == ["keep (no policy)"] * 3
    assert {row["group_id"]: row["after"] for row in found["groups"]}["a"] == "keep (protected)"


@pytest.mark.parametrize("name", ["nothing.json", "policy.yaml"])
def test_what_is_no_manifest_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, _, said = check(capsys, write_policy(tmp_path, DELETE_A), "--against", tmp_path / name)
    assert code == 2
    assert "--against" in said


def test_the_schema_is_printed_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"].keys() >= {"rules", "tests"}


@pytest.fixture
def judged(site: Site) -> str:
    site.admin.groups = {name: FakeGroup() for name in ("a", "b", "etl-1", "etl-2")}
    snapshot_id = site.take_snapshot()
    site.judge(snapshot_id, stale={"a"})
    return snapshot_id


def test_the_file_is_written_beside_the_working_folder(judged: str, stored: Cli, site: Site) -> None:
    site.patch.chdir(site.storage)
    code, found, _ = stored("metrics", "--openmetrics-path", "groups.prom")
    assert (code, found["snapshot_id"], found["openmetrics_path"]) == (0, judged, str(site.storage / "groups.prom"))
    assert [tuple(row) for row in found["metrics"]] == [files.METRICS_COLUMNS] * 3
    assert {row["group_or_family"]: row["groups"] for row in found["metrics"]} == {"a": 1, "b": 1, "etl-<number>": 2}
    read = {family.name for family in read_openmetrics((site.storage / "groups.prom").read_text())}
    assert "kafka_groups_family_lag_records" in read


def test_groups_over_the_limit_are_reported(judged: str, stored: Cli) -> None:
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


@pytest.fixture
def two_groups(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({TopicPartition("t", 0): 5}), "b": FakeGroup({TopicPartition("t", 1): 10})}


@pytest.mark.usefixtures("two_groups")
def test_a_snapshot_is_written_that_jobs_and_plans_read(stored: Cli, tmp_path: Path) -> None:
    code, _, _ = stored("snapshot")
    manifest = latest_manifest(Layout(tmp_path, CLUSTER))
    assert (code, manifest.groups, manifest.complete) == (0, 2, True)
    assert manifest.airflow_run.startswith("airflow-kafka-groups snapshot, ")
    reader = SnapshotReader(Layout(tmp_path, CLUSTER), manifest.snapshot_id)
    assert [group.group_id for group in reader.summaries()] == ["a", "b"]
    assert stored("snapshot", "--exclude", "b")[0] == 0
    both = [json.loads(path.read_text())["groups"] for path in (tmp_path / CLUSTER / "manifests").iterdir()]
    assert sorted(both) == [1, 2]


@pytest.mark.usefixtures("two_groups")
def test_what_is_missing_is_named_and_is_exit_code_3(stored: Cli, admin: FakeAdmin) -> None:
    admin.missing_brokers = {2: broker_error("COORDINATOR_LOAD_IN_PROGRESS")}
    code, _, said = stored("snapshot")
    assert (code, "groups may be missing: 2" in said) == (3, True)
    admin.missing_brokers = {}
    admin.offset_errors = {"a": broker_error("GROUP_AUTHORIZATION_FAILED")}
    code, found, said = stored("snapshot")
    assert (code, [row["group_id"] for row in found["failed"]], "1 group(s) could not be read" in said) == (
        3,
        ["a"],
        True,
    )
