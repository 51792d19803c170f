"""A plan, by arguments and by a policy file."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.change.lease import other_leases
from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError, PlanError, PolicyError, SnapshotError
from airflow_kafka_groups.ledger.journal import Journal
from airflow_kafka_groups.operators.plan import CheckPolicyOperator, _growing
from airflow_kafka_groups.storage.layout import utc_now
from airflow_kafka_groups.storage.paths import new_id
from tests.fakes.groups import FakeGroup
from tests.records import history_before
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators import scene
from tests.unit.operators.scene import Site


@pytest.fixture
def snapshot_id(site: Site) -> str:
    return site.judged_once(["a", "b", "c", "connect-x"], ["live"])


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


def test_groups_that_the_connection_protects_are_kept(snapshot_id: str, site: Site) -> None:
    site.patch.setenv(
        "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT",
        '{"conn_type": "kafka_groups", "host": "b1", "extra": {"protected_groups": ["b"]}}',
    )
    planned = site.plan(snapshot_id=snapshot_id, max_share=1)
    assert [group["group_id"] for group in planned["first_groups"]] == ["a", "c"]


def test_the_caps_hold_by_default(snapshot_id: str, tmp_path: Path) -> None:
    assert scene.plan(tmp_path, snapshot_id=snapshot_id)["counts"]["planned"] == 2, "half of five"


def test_a_snapshot_that_was_not_judged_makes_no_plan(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup()}
    with pytest.raises(SnapshotError, match="not judged"):
        site.plan(snapshot_id=site.take_snapshot())


def test_an_empty_storage_makes_no_plan(site: Site) -> None:
    with pytest.raises(MaintenanceError):
        site.plan()


@pytest.mark.parametrize(("field", "value"), [("snapshot_id", "../../etc"), ("min_idle_seconds", "0")])
def test_bad_input_is_a_clear_error_and_no_plan(snapshot_id: str, tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=field):
        scene.plan(tmp_path, **{"snapshot_id": snapshot_id, field: value})
    assert not (tmp_path / scene.CLUSTER / "plans").exists()


def test_a_plan_is_bound_to_what_the_snapshot_saw_of_the_cluster(site: Site) -> None:
    site.admin.ids = dict.fromkeys(("orders", "t", "billing"), "an-id")
    view = json.loads(Path(site.plan_of(["a"], ())["plan_path"]).read_text())["view"]
    assert view["brokers"] == {"1": "b1:9092", "2": "b2:9092"}
    assert view["topic_ids"].keys() == {where.topic for where in site.admin.groups["a"].offsets}
    assert view["topic_ids"], "the fake group has commits"
    assert view["connection"] == {"servers": site.admin.connection.servers, "identity": site.admin.connection.identity}


def test_another_lease_on_the_cluster_is_a_warning_in_plan_summary_and_report(site: Site) -> None:
    leases = ("airflow-kafka-groups-lease", "team-b-airflow-kafka-groups-lease")
    planned = site.plan_of(["a"], leases)
    (warning,) = planned["warnings"]
    assert "'team-b-airflow-kafka-groups-lease'" in warning
    report = (site.folder / "reports" / f"{planned['plan_id']}.html").read_text()
    assert "team-b-airflow-kafka-groups-lease&#39;; this run" in report


def test_so_is_the_lease_of_a_recent_run_whose_group_is_gone(site: Site) -> None:
    """The group of a lease disappears soon after its run; the journal has its name."""

    def run(began: datetime, lease: str) -> None:
        journal = Journal(site.layout.base, site.admin.cluster)
        facts = {"run_id": new_id(began), "request_id": lease, "lease": {"group_id": lease}}
        journal.begin(facts, began, after=history_before(journal))

    run(utc_now() - timedelta(days=8), "renamed-since-airflow-kafka-groups-lease")
    run(utc_now() - timedelta(days=6), "other-airflow-kafka-groups-lease")
    run(utc_now() - timedelta(days=6), "airflow-kafka-groups-lease")
    (warning,) = site.plan_of(["a"], ())["warnings"]
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


POLICY = """\
    version: 1
    limits: {max_gap: 1d, max_share: 1}
    rules:
      - {name: kept, match: {groups: "k*"}, action: keep, idle: 1h}
      - {name: slow, match: {groups: "s*"}, action: delete, idle: 900d}
      - {name: rest, action: delete, idle: 2h, observations: 3}
    """


def check(**arguments: Any) -> dict[str, Any]:
    operator = CheckPolicyOperator(task_id="policy", **arguments)
    result: dict[str, Any] = operator.execute({})
    assert json.loads(json.dumps(result)) == result
    return result


def test_the_job_is_asked_for_the_least_of_the_rules_that_delete(tmp_path: Path) -> None:
    found = check(policy_file=str(write_policy(tmp_path, POLICY)), min_idle_seconds="604800", max_gap_seconds="172800")
    assert (found["min_idle_seconds"], found["min_observations"], found["max_gap_seconds"]) == (7_200.0, 2, 86_400.0)
    assert (found["rules"], len(found["digest"])) == (["kept", "slow", "rest", "default"], 64)


@pytest.mark.parametrize("nothing", ["", None])
def test_without_a_file_the_arguments_count(nothing: str | None) -> None:
    found = check(policy_file=nothing, min_idle_seconds="60", min_observations="4", max_gap_seconds="9")
    assert (found["min_idle_seconds"], found["min_observations"], found["max_gap_seconds"]) == (60.0, 4, 9.0)
    assert (found["policy_file"], found["digest"], found["rules"]) == (None, None, [])


def test_a_file_that_is_wrong_fails_the_first_task(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"policy.yaml, line 2: rule is not a setting; did you mean 'rules'"):
        check(policy_file=str(write_policy(tmp_path, "version: 1\nrule: []\n")))
    with pytest.raises(PolicyError, match="is missing"):
        check(policy_file=str(tmp_path / "elsewhere.yaml"))
    with pytest.raises(ConfigurationError, match="absolute path"):
        check(policy_file="policy.yaml")


@pytest.fixture
def judged(site: Site) -> str:
    return site.judged_once(["a", "k1", "s1"], ["live"])


def planned(folder: Path, snapshot_id: str, text: str = POLICY, **arguments: Any) -> dict[str, Any]:
    path = write_policy(folder, text)
    return scene.plan(folder, snapshot_id=snapshot_id, policy_file=path.as_uri(), **arguments)


def test_a_plan_by_a_file(judged: str, tmp_path: Path) -> None:
    summary = planned(tmp_path, judged, POLICY.replace("max_gap: 1d, ", ""))
    assert [group["group_id"] for group in summary["first_groups"]] == ["a"]
    assert {name: summary["counts"][name] for name in ("by_rule", "waiting", "planned")} == {
        "by_rule": 1, "waiting": 1, "planned": 1,
    }  # fmt: skip
    header = json.loads(Path(summary["plan_path"]).read_text())
    assert header["policy"]["file"]["path"] == (tmp_path / "policy.yaml").as_uri(), "as it was given"


def test_the_limits_of_the_file_count(judged: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="judged with --max-gap-seconds 172800; the policy's max_gap_seconds is 86400"):
        planned(tmp_path, judged)


def test_without_a_file_that_can_be_read_there_is_no_plan(judged: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        scene.plan(tmp_path, snapshot_id=judged, policy_file=str(tmp_path / "none.yaml"))
    with pytest.raises(PolicyError):
        planned(tmp_path, judged, "version: 1\nrules: []\n")
    assert not (tmp_path / scene.CLUSTER / "plans").exists()


def test_a_notice_longer_than_the_brokers_retention_makes_no_plan(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup()}
    snapshot_id = site.take_snapshot()
    site.judge(snapshot_id, stale={"a"})
    manifest = site.folder / "manifests" / f"{snapshot_id}.json"
    data = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**data, "offsets_retention_minutes": 1_440}))
    text = "version: 1\ndefaults: {contact: x}\nrules: [{name: r, action: delete, idle: 2h, notice: 1d}]\n"
    with pytest.raises(PlanError, match=r"offsets\.retention\.minutes"):
        planned(site.storage, snapshot_id, text)
    warnings = planned(site.storage, snapshot_id, text.replace("notice: 1d", "notice: 23h"))["warnings"]
    assert any("rule 'r' waits for" in warning for warning in warnings)
