import json
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.change.lease import other_leases
from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError, SnapshotError
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.operators.plan import _growing
from airflow_kafka_groups.storage.layout import Layout, utc_now
from airflow_kafka_groups.storage.paths import new_id
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene


@pytest.fixture
def snapshot_id(admin: FakeAdmin, tmp_path: Path) -> str:
    return scene.judged_once(admin, tmp_path, ["a", "b", "c", "connect-x"], ["live"])


def test_a_plan_is_written_and_summed_up_in_plain_json(snapshot_id: str, tmp_path: Path) -> None:
    planned = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)
    written = json.loads(Path(planned["plan_path"]).read_text())
    assert planned["digest"] == written["digest"]
    assert (written["groups"], written["kept"]) == (3, 2)
    assert [group["group_id"] for group in planned["first_groups"]] == ["a", "b", "c"]
    assert (planned["counts"]["found"], planned["counts"]["planned"], planned["counts"]["protected"]) == (5, 3, 1)
    assert json.loads(json.dumps(planned)) == planned


def test_the_newest_complete_snapshot_is_planned_by_default(snapshot_id: str, tmp_path: Path) -> None:
    assert scene.plan(tmp_path)["snapshot_id"] == snapshot_id


def test_the_policy_comes_as_rendered_text(snapshot_id: str, tmp_path: Path) -> None:
    rendered = {
        "include": '["*"]',
        "exclude": '["b"]',
        "min_idle_seconds": "3600",
        "min_observations": "2",
        "max_groups": "1",
        "max_share": "0.9",
        "max_plan_age_seconds": "600",
    }
    planned = scene.plan(tmp_path, snapshot_id=snapshot_id, **rendered)
    policy = json.loads(Path(planned["plan_path"]).read_text())["policy"]
    assert (policy["min_idle_seconds"], policy["max_groups"], policy["max_share"]) == (3600.0, 1, 0.9)
    counts = planned["counts"]
    assert (counts["planned"], counts["excluded"], counts["over_cap"]) == (1, 1, 1)


def test_groups_that_the_connection_protects_are_kept(
    snapshot_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT",
        '{"conn_type": "kafka_groups", "host": "b1", "extra": {"protected_groups": ["b"]}}',
    )
    planned = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)
    assert [group["group_id"] for group in planned["first_groups"]] == ["a", "c"]


def test_the_caps_hold_by_default(snapshot_id: str, tmp_path: Path) -> None:
    assert scene.plan(tmp_path, snapshot_id=snapshot_id)["counts"]["planned"] == 2, "half of five"


def test_a_snapshot_that_was_not_judged_makes_no_plan(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup()}
    with pytest.raises(SnapshotError, match="not judged"):
        scene.plan(tmp_path, snapshot_id=scene.take_snapshot(tmp_path))


def test_an_empty_storage_makes_no_plan(admin: FakeAdmin, tmp_path: Path) -> None:
    with pytest.raises(MaintenanceError):
        scene.plan(tmp_path)


@pytest.mark.parametrize(("field", "value"), [("snapshot_id", "../../etc"), ("min_idle_seconds", "0")])
def test_bad_input_is_a_clear_error_and_no_plan(snapshot_id: str, tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=field):
        scene.plan(tmp_path, **{"snapshot_id": snapshot_id, field: value})
    assert not (tmp_path / scene.CLUSTER / "plans").exists()


def test_a_plan_is_bound_to_what_the_snapshot_saw_of_the_cluster(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.ids = dict.fromkeys(("orders", "t", "billing"), "an-id")
    view = json.loads(Path(scene.plan_of(admin, tmp_path, ["a"], ())["plan_path"]).read_text())["view"]
    assert view["brokers"] == {"1": "b1:9092", "2": "b2:9092"}
    assert view["topic_ids"].keys() == {where.topic for where in admin.groups["a"].offsets}
    assert view["topic_ids"], "the fake group has commits"
    assert view["connection"] == {"servers": admin.connection.servers, "identity": admin.connection.identity}


def test_another_lease_on_the_cluster_is_a_warning_in_plan_summary_and_report(admin: FakeAdmin, tmp_path: Path) -> None:
    leases = ("airflow-kafka-groups-lease", "team-b-airflow-kafka-groups-lease")
    planned = scene.plan_of(admin, tmp_path, ["a"], leases)
    (warning,) = planned["warnings"]
    assert "'team-b-airflow-kafka-groups-lease'" in warning
    report = (tmp_path / scene.CLUSTER / "reports" / f"{planned['plan_id']}.html").read_text()
    assert "team-b-airflow-kafka-groups-lease&#39;; this run" in report


def test_so_is_the_lease_of_a_recent_run_whose_group_is_gone(admin: FakeAdmin, tmp_path: Path) -> None:
    """The group of a lease disappears soon after its run; the journal has its name."""

    def run(began: datetime, lease: str) -> None:
        journal = Journal(Layout(tmp_path, scene.CLUSTER).base, admin.cluster)
        facts = {"run_id": new_id(began), "request_id": lease, "lease": {"group_id": lease}}
        journal.begin(facts, began, after=journal.read())

    run(utc_now() - timedelta(days=8), "renamed-since-airflow-kafka-groups-lease")
    run(utc_now() - timedelta(days=6), "other-airflow-kafka-groups-lease")
    run(utc_now() - timedelta(days=6), "airflow-kafka-groups-lease")
    (warning,) = scene.plan_of(admin, tmp_path, ["a"], ())["warnings"]
    assert warning.startswith("other leases are used on this cluster ('other-airflow-kafka-groups-lease'; this run's")


def test_leases_with_the_longest_names_are_a_warning_of_a_bearable_length() -> None:
    groups = [f"{number}{'x' * 32_000}airflow-kafka-groups-lease" for number in range(3)]
    (warning,) = other_leases(groups, "airflow-kafka-groups-lease")
    assert len(warning) < 1_000


def test_growing_families_of_one_shown_name_are_both_in_the_event() -> None:
    """Names may differ only beyond what an event shows: the last one took the place of the others."""
    fast = [{"rule": rule, "per_day": 60.0, "allowed_per_day": 50.0} for rule in ("a", "b")]
    families = [{"name": f"{'x' * 300}{number}-<uuid>", "too_fast": [each]} for number, each in enumerate(fast)]
    plan: Any = SimpleNamespace(families=[*families, {"name": "y-<uuid>"}])
    (shown,) = _growing(plan)["growing_families"].values()
    assert shown == fast
