"""The shipped DAG files: they parse quickly, are wired as promised, and are safe by default."""

import itertools
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.dags.airflow_env import ROOT
from tests.dags.runs import DAGS, parsed

CLEANUP = ["policy", "find_coordinators", "list_offsets", "judge_staleness", "plan"]
CLEANUP += ["backup", "approve", "delete", "verify", "report", "done"]
OF_CLUSTER = ("kafka_groups_conn_id", "cluster", "application_args")


def parse(monkeypatch: pytest.MonkeyPatch, defaults: Any) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps(defaults))
    return DagBag(dag_folder=str(DAGS), collect_dags=True)


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    return parsed(DAGS)


def test_all_files_parse_to_their_dag(dags: dict[str, Any]) -> None:
    assert sorted(dags) == sorted(path.stem for path in DAGS.glob("*.py"))


def test_the_examples_of_the_docs_parse() -> None:
    folder = ROOT / "tests" / "dags" / "examples"
    assert len(parsed(folder)) >= len(list(folder.rglob("*.py")))


def test_the_steps_follow_one_another(dags: dict[str, Any]) -> None:
    cleanup = dags["cleanup_stale_groups"]
    assert [task.task_id for task in cleanup.topological_sort() if task.task_id != "notify"] == CLEANUP
    for before, after in itertools.pairwise(CLEANUP):
        assert after in cleanup.get_task(before).downstream_task_ids
    snapshot = dags["snapshot_group_offsets"]
    assert [task.task_id for task in snapshot.topological_sort()] == CLEANUP[1:3]


@pytest.mark.parametrize(("name", "prefix"), [("cleanup_stale_groups", ""), ("cleanup_fleet", "clean_up.")])
def test_an_owner_who_cannot_be_notified_does_not_hold_the_others_up(
    name: str, prefix: str, dags: dict[str, Any]
) -> None:
    """One address that a mail server refuses ended each run before the groups of all other owners were backed up."""
    notify = dags[name].get_task(f"{prefix}notify")
    after = {task.task_id for task in notify.get_flat_relatives(upstream=False)}
    assert not after & {f"{prefix}{task}" for task in ("backup", "approve", "delete", "verify")}
    assert f"{prefix}plan" in notify.upstream_task_ids
    assert {f"{prefix}report", "done"} <= after, "the report waits for it, and the run fails with it"
    assert "done" in notify.downstream_task_ids
    assert dags[name].get_task("done").trigger_rule == "none_failed", "also where the deletion is skipped before"


@pytest.mark.parametrize(
    "name",
    [
        "cleanup_stale_groups",
        "cleanup_fleet",
        "prune_abandoned_topics",
        "prune_kafka_groups_files",
        "backup_and_restore_drill",
    ],
)
def test_first_unpausing_a_dag_that_changes_something_starts_no_run(name: str, dags: dict[str, Any]) -> None:
    import pendulum
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.timetables.base import DataInterval, TimeRestriction

    timetable = DagSerialization.from_dict(DagSerialization.to_dict(dags[name])).timetable
    never = TimeRestriction(dags[name].start_date, None, catchup=False)
    first = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=never)
    assert first is not None
    assert first.run_after > datetime.now(UTC), "the schedule begins with its next time"
    long_ago = DataInterval.exact(pendulum.datetime(2026, 1, 4))
    after_a_pause = timetable.next_dagrun_info(last_automated_data_interval=long_ago, restriction=never)
    assert after_a_pause is not None
    assert after_a_pause.run_after <= datetime.now(UTC), "Airflow makes up for the newest time: pages say so"
    (schedule,) = re.findall(r"schedule=.*", (ROOT / "dags" / f"{name}.py").read_text())
    assert schedule.endswith("# not when first unpaused")


def test_no_task_holds_a_worker_for_ever(dags: dict[str, Any]) -> None:
    tasks = [task for dag in dags.values() for task in dag.tasks]
    assert [task for task in tasks if task.execution_timeout is None] == []


def test_defaults_are_safe(dags: dict[str, Any]) -> None:
    cleanup = dags["cleanup_stale_groups"]
    params = cleanup.params.dump()
    assert params["dry_run"] is True
    assert params["require_approval"] is True
    assert params["lease"] is True
    assert cleanup.get_task("delete").lease == "{{ params.lease }}"
    assert params["min_idle_seconds"] == "7d"
    assert params["max_share"] <= 0.5
    assert params["min_observations"] >= 2
    assert cleanup.get_task("delete").retries == 0
    prune = dags["prune_kafka_groups_files"]
    assert prune.params.dump()["dry_run"] is True
    assert "dag_run.conf" in prune.get_task("prune").dry_run, "two keys, as for a deletion of groups"
    topics = dags["prune_abandoned_topics"]
    params = topics.params.dump()
    assert (params["dry_run"], params["require_approval"], params["topic_idle_seconds"]) == (True, True, "7d")
    assert topics.get_task("prune").retries == 0
    for name in ("plan_id", "plan_digest", "dry_run", "approval_rule", "approve_above"):
        asked = getattr(topics.get_task("approve"), name)
        assert asked == getattr(topics.get_task("prune"), name), "no other plan than the approved one"
    restore = dags["restore_group_offsets"]
    assert restore.params.dump() == {
        "plan_id": None,
        "group_ids": None,
        "overwrite": False,
        "dry_run": True,
        **{name: cleanup.params.dump()[name] for name in ("kafka_groups_conn_id", "cluster", "storage_path")},
    }
    assert "dag_run.conf" in restore.get_task("restore").dry_run
    for dag in dags.values():
        assert dag.max_active_runs == 1
        assert dag.catchup is False


def test_a_fleet_goes_through_the_same_steps_for_each_cluster(dags: dict[str, Any]) -> None:
    fleet, cleanup = dags["cleanup_fleet"], dags["cleanup_stale_groups"]
    steps = [name for name in CLEANUP if name not in ("policy", "done")]
    assert [task.task_id for task in fleet.topological_sort() if task.task_id != "clean_up.notify"] == [
        "clusters", "policy", *(f"clean_up.{name}" for name in steps), "fleet", "done",
    ]  # fmt: skip
    for name in (*steps, "notify"):
        one, many = cleanup.get_task(name), fleet.get_task(f"clean_up.{name}")
        assert (type(one), one.retries, one.trigger_rule) == (type(many), many.retries, many.trigger_rule), name
        for argument in {*one.template_fields} - {"plan_id", "plan_digest", "snapshot_id", "audit_path", *OF_CLUSTER}:
            assert getattr(one, argument) == getattr(many, argument), (name, argument)
    params = fleet.params.dump()
    assert params == {name: cleanup.params.dump()[name] for name in params}
    assert set(cleanup.params) - set(params) == {"kafka_groups_conn_id", "cluster"}
    ends = {f"clean_up.{name}" for name in ("verify", "notify", "report")}
    assert fleet.get_task("done").upstream_task_ids == {*ends, "fleet"}
    assert fleet.get_task("fleet").trigger_rule == "all_done"


def test_the_report_comes_whatever_happens_and_hides_no_failure(dags: dict[str, Any]) -> None:
    cleanup = dags["cleanup_stale_groups"]
    assert cleanup.get_task("report").trigger_rule == "all_done"
    (leaf,) = cleanup.leaves
    assert leaf.upstream_task_ids == {"verify", "notify", "report"}
    assert leaf.trigger_rule == "none_failed", "all_success would skip it, and the run succeed, once one is skipped"


def test_the_tasks_of_a_cleanup_lead_to_its_report(dags: dict[str, Any]) -> None:
    for name in ("plan", "backup", "approve", "delete", "verify", "report"):
        links = dags["cleanup_stale_groups"].get_task(name).operator_extra_links
        assert [link.name for link in links] == ["Clean-up report"], name


def test_approval_and_deletion_go_by_the_same_rules(dags: dict[str, Any]) -> None:
    approve, delete = (dags["cleanup_stale_groups"].get_task(name) for name in ("approve", "delete"))
    for name in ("plan_id", "plan_digest", "dry_run", "approval_rule", "approve_above"):
        assert getattr(approve, name) == getattr(delete, name)
    assert approve.defaults == ["Reject"]
    assert approve.response_timeout is not None
    assert not hasattr(delete, "approval"), "an XCom approves nothing"


@pytest.mark.parametrize(
    ("default", "conf", "rule"),
    [
        (True, {}, "always"),
        (True, None, "always"),
        (True, {"require_approval": False}, "never"),
        (True, {"require_approval": True}, "always"),
        (False, {}, "above_cap"),
        (False, None, "above_cap"),
        (False, {"require_approval": False}, "above_cap"),
        (False, {"require_approval": True}, "always"),
        (True, {"require_approval": None}, "always"),
        (True, {"require_approval": 0}, "always"),
        (True, {"require_approval": "False"}, "always"),
        (False, {"require_approval": 0}, "above_cap"),
    ],
)
def test_only_the_runs_own_word_switches_approval_off(
    monkeypatch: pytest.MonkeyPatch, default: bool, conf: dict[str, Any] | None, rule: str
) -> None:
    from types import SimpleNamespace

    from jinja2 import Environment

    from airflow_kafka_groups.operators.dag_params import approval_arguments

    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"require_approval": default}))
    template = Environment().from_string(approval_arguments()["approval_rule"])
    assert template.render(dag_run=SimpleNamespace(conf=conf)) == rule


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_idle_seconds", 0),
        ("min_observations", 1),
        ("max_gap_seconds", -1),
        ("offsets_retention_minutes", -1),
        ("max_groups", 0),
        ("max_share", 1.5),
        ("max_share", 0),
        ("dry_run", "yes"),
        ("require_approval", "no"),
        ("lease", "no"),
        ("approve_above", -1),
        ("include", "*"),
        ("cluster", "../up"),
        ("storage_path", ""),
        ("kafka_groups_conn_id", ""),
    ],
)
def test_the_form_refuses_values_that_make_no_sense(dags: dict[str, Any], name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    param = dags["cleanup_stale_groups"].params.get_param(name)
    param.resolve()
    with pytest.raises(ParamValidationError):
        param.resolve(value)


def test_every_parameter_has_a_title_and_a_description(dags: dict[str, Any]) -> None:
    for dag in dags.values():
        for name in dag.params:
            param = dag.params.get_param(name)
            assert param.description, name
            assert param.schema["title"], name
            assert param.schema["type"], name


def test_the_form_can_be_sent_as_it_is(dags: dict[str, Any]) -> None:
    """Airflow's form demands a value where null is no type, and takes an empty list for none."""
    for dag in dags.values():
        for name in dag.params:
            param = dag.params.get_param(name)
            assert param.value not in (None, []) or "null" in param.schema["type"], name


def test_defaults_come_from_one_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"kafka_groups_conn_id": "prod", "dry_run": False, "spark_conn_id": "my_spark", "spark_binary": "/x/submit"}
    bag = parse(monkeypatch, given)
    cleanup = bag.dags["cleanup_stale_groups"]
    assert (cleanup.params["kafka_groups_conn_id"], cleanup.params["dry_run"]) == ("prod", False)
    judge = cleanup.get_task("judge_staleness")
    assert (judge.spark["conn_id"], judge.spark["spark_binary"]) == ("my_spark", "/x/submit")


@pytest.mark.parametrize("given", [{"exclud": ["a"]}, ["dry_run"], {"dry_run": "no"}, {"max_share": 7}])
def test_wrong_defaults_break_the_file_and_not_the_cluster(monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    bag = parse(monkeypatch, given)
    assert any("cleanup_stale_groups" in path for path in bag.import_errors)


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: path.stem)
def test_a_file_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 120


MEASURE = """
import sys, time
started = time.process_time()
import airflow.sdk
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, Param
airflow = time.process_time() - started
started = time.process_time()
from airflow_kafka_groups.provider_info import get_provider_info
for kind in ("operators", "sensors"):
    for entry in get_provider_info()[kind]:
        for module in entry["python-modules"]:
            __import__(module)
import airflow_kafka_groups.operators.dag_params
print((time.process_time() - started) / airflow)
core = "airflow_kafka_groups.kafka.admin.client"
heavy = ("kio", "aiokafka", "confluent_kafka", "pyarrow", "pyspark", "pandas", core)
print([name for name in heavy if name in sys.modules])
"""


def test_importing_the_operators_is_cheap() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, cwd=ROOT)
    ratio, heavy = done.stdout.splitlines()[-2:]
    print(f"importing all operators and sensors took {float(ratio):.2f} of the time that Airflow itself took")
    assert heavy == "[]", "these belong inside the functions that use them"
    assert float(ratio) < 0.2
