"""The command that examines everything: its findings, its exit code, and what it leaves behind."""

import json
import sys
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_kafka_groups.cli.commands.look import DOCTOR_COLUMNS
from airflow_kafka_groups.cli.options import Cluster
from airflow_kafka_groups.doctor import installed
from airflow_kafka_groups.exceptions import AuthenticationFailedError
from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.cli.commands.conftest import Cli, connect
from tests.unit.operators.scene import CLUSTER, Site

NEW = ApiVersions({2: (0, 6), 9: (1, 9), 10: (0, 6), 15: (0, 6), 16: (0, 5), 42: (0, 2)})


@pytest.fixture(autouse=True)
def _sound(site: Site) -> None:
    site.admin.api_versions, site.admin.operations = {1: NEW, 2: NEW}, frozenset({"read", "describe", "delete"})
    site.patch.setenv("AIRFLOW__CORE__TEST_CONNECTION", "Enabled")
    site.patch.setattr(installed, "_examine_java", lambda report: report.ok("Java", "here"))
    site.patch.setattr(installed, "_examine_connector", lambda version, report: report.ok("Kafka connector", "here"))
    site.patch.setattr(installed, "_EXTRAS", ())


def checks(found: list[dict[str, Any]]) -> dict[str, str]:
    return {row["check"]: row["status"] for row in found}


def of(found: list[dict[str, Any]], check: str) -> tuple[str, str]:
    """Return the status and the text of a check."""
    (row,) = [row for row in found if row["check"] == check]
    return row["status"], row["text"]


def test_everything_is_examined_and_nothing_is_changed(stored: Cli, site: Site) -> None:
    before = sorted(site.storage.rglob("*"))
    code, found, _ = stored("doctor")
    assert set(found[0]) == set(DOCTOR_COLUMNS)
    assert {"brokers", "groups", "delete groups", "offsets retention", "exclusive creation", "Airflow"} <= set(
        checks(found)
    )
    assert {status for status in checks(found).values()} <= {"ok", "unknown"}, found
    assert code == 0
    assert (site.admin.deleted, sorted(site.storage.rglob("*"))) == ([], before)


def test_a_warning_has_the_exit_code_3_and_a_remedy(stored: Cli) -> None:
    code, found, _ = stored("doctor", "--min-idle-seconds", "99999999")
    (retention,) = [row for row in found if row["check"] == "offsets retention"]
    assert (code, retention["status"]) == (3, "warning")
    assert "offsets.retention.minutes" in retention["remedy"]


def test_the_idle_time_is_that_of_the_dags(stored: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lowers it as the remedy says reads the same warning no more."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"min_idle_seconds": "5d"}))
    for words, days in (((), 5), (("--min-idle", "6d"), 6)):
        assert f"the idle time is {days}d" in of(stored("doctor", *words)[1], "offsets retention")[1]


@pytest.mark.parametrize("words", [(), ("--min-idle", "6d")])
@pytest.mark.parametrize(
    "defaults",
    [
        *(
            "no JSON",
            '{"min_idle_second": "5d"}',
            '{"min_idle_seconds": "5x"}',
            '{"max_share": 5}',
            '{"dry_run": "no"}',
        ),
        *('{"keep_newest": 0}', '{"spark_conf": "a=b"}'),
    ],
)
def test_defaults_by_which_every_dag_fails_are_found(
    stored: Cli, monkeypatch: pytest.MonkeyPatch, defaults: str, words: tuple[str, ...]
) -> None:
    """The files of all DAGs with the parameter are import errors in Airflow, and all was well here."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", defaults)
    code, found, _ = stored("doctor", *words)
    status, text = of(found, "defaults")
    assert (code, status, "KAFKA_GROUPS_DEFAULTS" in text) == (1, "failed", True)
    assert checks(found)["brokers"] == "ok"


def test_an_airflow_that_is_too_old_is_a_finding_and_hides_no_other(
    stored: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lacks a name that the forms need: the command ended with an ImportError, and showed nothing."""
    monkeypatch.delitem(sys.modules, "airflow_kafka_groups.operators.dag_params", raising=False)
    monkeypatch.delattr("airflow.sdk.exceptions.ParamValidationError")
    monkeypatch.setattr(installed, "version", lambda package: "3.0.6")
    code, found, _ = stored("doctor")
    assert (code, checks(found)["Airflow"], checks(found)["brokers"]) == (1, "failed", "ok")


def test_a_failure_has_the_exit_code_1(stored: Cli, admin: FakeAdmin) -> None:
    admin.sees_topics = False
    code, found, _ = stored("doctor")
    assert (code, checks(found)["all topics"]) == (1, "failed")


def test_a_cluster_that_cannot_be_reached_does_not_hide_the_rest(stored: Cli, site: Site) -> None:
    site.admin.fails_with = AuthenticationFailedError("b1:9092", "wrong password")
    site.patch.setattr(Cluster, "get_conn", lambda self: site.admin)
    code, found, _ = stored("doctor")
    assert (code, checks(found)["connection"]) == (1, "failed")
    assert "wrong password" in found[0]["text"]
    assert checks(found)["storage"] == "ok"


def test_without_a_storage_the_rest_is_examined(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_GROUPS_DEFAULTS", raising=False)
    code, found, _ = cli("doctor")
    assert (code, checks(found)["storage"]) == (0, "unknown")


def test_a_storage_that_cannot_be_opened_is_a_finding(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one whose library logs in at once."""
    monkeypatch.setattr("airflow.sdk.io.get_fs", Mock(side_effect=PermissionError("Permission denied for user ann")))
    code, found, _ = cli("doctor", "--storage-path", "gs://my_conn@bucket/kafka")
    assert (code, checks(found)["storage"]) == (1, "failed")
    assert checks(found)["brokers"] == checks(found)["Airflow"] == "ok", "the rest is examined"
    assert "gs://my_conn@bucket/kafka could not be opened: PermissionError" in of(found, "storage")[1]


def test_a_connection_that_refuses_every_change_is_not_all_well(stored: Cli, site: Site) -> None:
    """The Test button said that it is read-only, and the doctor that deletions are allowed with all groups."""
    site.admin.groups = {"a": FakeGroup()}
    site.connect(read_only=True)
    code, found, _ = stored("doctor")
    assert (code, checks(found)["read only"], checks(found)["delete groups"]) == (3, "warning", "ok")


@pytest.mark.parametrize("floors", [{"max_group": 5}, {"storage_path": "/elsewhere"}])
def test_a_floor_by_which_every_plan_fails_is_found(
    stored: Cli, monkeypatch: pytest.MonkeyPatch, floors: dict[str, Any]
) -> None:
    assert checks(stored("doctor")[1])["floors"] == "ok"
    connect(monkeypatch, floors=floors)
    assert stored("plan")[0] == 2
    code, found, _ = stored("doctor")
    assert (code, checks(found)["floors"]) == (1, "failed")


@pytest.mark.parametrize("place", [(), (CLUSTER,)], ids=["all clusters", "this one"])
def test_a_stop_switch_that_was_left_behind_is_found(stored: Cli, site: Site, place: tuple[str, ...]) -> None:
    """Every deletion ended with its groups kept, and all was well here."""
    folder = site.storage.joinpath(*place)
    folder.mkdir(exist_ok=True)
    assert checks(stored("doctor")[1])["stop switch"] == "ok"
    site.patch.setenv("AIRFLOW_VAR_KAFKA_GROUPS_STOP", "yes")
    assert "'kafka_groups_stop' is set" in of(stored("doctor")[1], "stop switch")[1]
    (folder / "STOP").write_text("an accident on Monday\n")
    code, found, _ = stored("doctor")
    status, text = of(found, "stop switch")
    assert (code, status) == (3, "warning")
    assert f"somebody created {folder / 'STOP'} (an accident on Monday)" in text


@pytest.mark.parametrize("by", ["defaults", "a floor"])
def test_a_policy_file_that_cannot_be_read_is_found(stored: Cli, site: Site, by: str) -> None:
    """Nothing is planned or deleted without it."""
    policy = site.storage / "policy.yaml"
    if by == "defaults":
        site.defaults({"policy_file": str(policy)})
    else:
        site.connect(floors={"policy_file": str(policy), "storage_path": str(site.storage)})
    for content in (None, "version: 1\nrules: [{name: a, acton: delete}]\n"):
        if content is not None:
            policy.write_text(content)
        code, found, _ = stored("doctor")
        status, text = of(found, "policy file")
        assert (code, status, "policy.yaml" in text) == (1, "failed", True)
    policy.write_text("version: 1\nrules: [{name: a, action: delete}]\n")
    code, found, _ = stored("doctor")
    assert (code, checks(found)["policy file"]) == (0, "ok")
