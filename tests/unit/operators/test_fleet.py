import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError
from airflow_kafka_groups.hooks.links import REPORT_XCOM
from airflow_kafka_groups.operators.fleet import FleetReportOperator, ListClustersOperator
from tests.unit.judge.policy.files import write_policy

CLUSTERS = [
    {"kafka_groups_conn_id": "kafka_east", "cluster": "east"},
    {"kafka_groups_conn_id": "kafka_west", "cluster": "west"},
]
POLICY = "version: 1\nclusters: {east: {connection: kafka_east}, west: {connection: kafka_west}}\n"
RULES = "rules: [{name: a, action: delete}]\n"
STEPS = ["list_offsets", "plan", "notify", "delete", "report"]


def test_the_clusters_of_a_policy_are_what_is_mapped_over(tmp_path: Path) -> None:
    path = write_policy(tmp_path, POLICY + RULES)
    assert ListClustersOperator(task_id="c", policy_file=str(path)).execute({}) == CLUSTERS


def test_a_policy_without_clusters_is_an_error_before_anything_is_done(tmp_path: Path) -> None:
    path = str(write_policy(tmp_path, f"version: 1\n{RULES}"))
    with pytest.raises(ConfigurationError, match="has no section clusters"):
        ListClustersOperator(task_id="c", policy_file=path).execute({})
    with pytest.raises(PolicyError, match="is missing"):
        ListClustersOperator(task_id="c", policy_file=f"{path}.not").execute({})
    unnamed = r"policy_file \(got ''\): name the policy file that has the clusters: in the run's form, or"
    with pytest.raises(ConfigurationError, match=unnamed):
        ListClustersOperator(task_id="c", policy_file="")


class TaskInstance:
    """What a task sees of its run, as Airflow returns it."""

    dag_id, run_id = "cleanup_fleet", "r"

    def __init__(self, states: list[dict[str, str]], results: dict[tuple[str, int], Any]) -> None:
        self.states, self.results, self.pushed = states, results, dict[str, Any]()
        self.before_mapping: dict[str, str] = {}

    def get_task_states(self, *, dag_id: str, task_group_id: str, run_ids: list[str]) -> Any:
        assert (dag_id, task_group_id, run_ids) == (self.dag_id, "clean_up", [self.run_id])
        found = {f"clean_up.{name}": state for name, state in self.before_mapping.items()}
        for index, of_cluster in enumerate(self.states):
            found |= {f"clean_up.{name}_{index}": state for name, state in of_cluster.items()}
        return {self.run_id: found} if found else {}

    def xcom_pull(self, task_ids: str, *, map_indexes: int) -> Any:
        return self.results.get((task_ids.removeprefix("clean_up."), map_indexes))

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


RollUp = Callable[["TaskInstance"], dict[str, Any]]


@pytest.fixture
def roll_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RollUp:
    """Return a function that reports on the clusters of a run."""

    def report(ti: TaskInstance) -> dict[str, Any]:
        operator = FleetReportOperator(task_id="fleet", storage_path=str(tmp_path), clusters=CLUSTERS)
        tasks = [SimpleNamespace(task_id=f"clean_up.{name}") for name in STEPS]
        monkeypatch.setattr(FleetReportOperator, "dag", SimpleNamespace(topological_sort=lambda: tasks))
        context: Any = {"ti": ti}
        result: dict[str, Any] = operator.execute(context)
        assert json.loads(json.dumps(result)) == result
        return result

    return report


def clusters_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the file beside the page says of each cluster."""
    read: list[dict[str, Any]] = json.loads(Path(found["report_path"]).with_suffix(".json").read_text())["clusters"]
    return read


def test_each_cluster_is_reported_whatever_happened_to_it(roll_up: RollUp) -> None:
    done = dict.fromkeys(STEPS, "success")
    down = {**dict.fromkeys(STEPS[1:], "upstream_failed"), "list_offsets": "failed", "report": "skipped"}
    plan = {"plan_id": "p", "counts": {"found": 10, "stale": 3, "planned": 2}, "warnings": ["w"]}
    report = {"report_path": "/r.html", "dry_run": False, "outcomes": {"deleted": 2}, "warnings": []}
    notified = {"marked": 1, "notified": {"pay": 1}}
    results = {("plan", 0): plan, ("report", 0): report, ("notify", 0): notified}
    ti = TaskInstance([done, down], results)
    found = roll_up(ti)
    assert (found["done"], found["failed"], found["failed_clusters"]) == (1, 1, ["west"])
    assert (found["groups"], found["planned"], found["outcomes"]) == (10, 2, {"deleted": 2})
    assert ti.pushed == {REPORT_XCOM: found["report_path"]}
    east, west = clusters_of(found)
    assert (east["plan_id"], east["notified"], east["report"], east["warnings"]) == ("p", {"pay": 1}, "/r.html", ["w"])
    assert (west["failed_at"], west["plan_id"], west["counts"]) == ("list_offsets", None, {})


@pytest.mark.parametrize("report", [{"dry_run": True}, {"dry_run": None}, {}], ids=["reported", "no-deletion", "none"])
def test_a_dry_run_does_not_look_as_if_owners_were_notified(roll_up: RollUp, report: dict[str, Any]) -> None:
    """The report of a clean-up that did not get as far as its deletion says nothing of a dry run."""
    dry = {"dry_run": True, "marked": 1, "notified": {"pay": 1}}
    reported = {"report_path": "/r.html", "outcomes": {}, "warnings": [], **report} if report else {}
    results = {("notify", 0): dry, ("report", 0): reported}
    found = roll_up(TaskInstance([dict.fromkeys(STEPS, "success")] * 2, results))
    assert [each["dry_run"] for each in clusters_of(found)] == [True, None]
    assert "pay 1 (dry run)" in Path(found["report_path"]).read_text()


def test_what_was_deleted_counts_where_the_report_failed(roll_up: RollUp) -> None:
    states = {**dict.fromkeys(STEPS, "success"), "report": "failed"}
    deleted = {"dry_run": False, "counts": {"deleted": 2, "kept": 0, "gone": 1}, "warnings": ["slow"]}
    ti = TaskInstance([states, {}], {("delete", 0): deleted})
    found = roll_up(ti)
    assert (found["outcomes"], found["failed_clusters"]) == ({"deleted": 2, "gone": 1}, ["east", "west"])
    east = clusters_of(found)[0]
    assert (east["failed_at"], east["dry_run"], east["warnings"]) == ("report", False, ["slow"])


@pytest.mark.parametrize(("second", "warned"), [("K1", True), ("K2", False), (None, False)])
def test_a_cluster_that_is_in_the_fleet_twice_is_a_warning(roll_up: RollUp, second: str | None, warned: bool) -> None:
    results = {("list_offsets", 0): {"kafka_cluster_id": "K1"}, ("list_offsets", 1): {"kafka_cluster_id": second}}
    done = dict.fromkeys(STEPS, "success")
    found = roll_up(TaskInstance([done, done], results))
    data = json.loads(Path(found["report_path"]).with_suffix(".json").read_text())
    said = [text for text in data["warnings"] if "east, west are the same Kafka cluster (K1)" in text]
    assert bool(said) is warned
    assert ("are the same Kafka cluster" in Path(found["report_path"]).read_text()) is warned


def test_what_an_earlier_try_returned_does_not_count(roll_up: RollUp) -> None:
    results = {
        (task, index): value
        for index in (0, 1)
        for task, value in {
            "plan": {"plan_id": "p", "counts": {"found": 10, "stale": 3, "planned": 2}},
            "report": {"report_path": "/r.html", "dry_run": False, "outcomes": {"deleted": 2}},
        }.items()
    }
    cleared = {"list_offsets": "failed", **dict.fromkeys(STEPS[1:-1], "upstream_failed"), "report": "skipped"}
    found = roll_up(TaskInstance([dict.fromkeys(STEPS, "success"), cleared], results))
    assert (found["groups"], found["planned"], found["outcomes"]) == (10, 2, {"deleted": 2})
    west = clusters_of(found)[1]
    assert (west["failed_at"], west["plan_id"], west["counts"], west["report"]) == ("list_offsets", None, {}, None)


def test_a_report_of_the_plan_of_an_earlier_try_does_not_count(roll_up: RollUp) -> None:
    """Airflow forgets what a task returned when it begins again: the report still finds the plan that was not made."""
    results = {("report", 1): {"report_path": "/r.html", "dry_run": False, "outcomes": {"deleted": 2}, "plan_id": "p"}}
    cleared = {"list_offsets": "failed", **dict.fromkeys(STEPS[1:-1], "upstream_failed"), "report": "success"}
    found = roll_up(TaskInstance([dict.fromkeys(STEPS, "success"), cleared], results))
    assert (found["failed_clusters"], found["outcomes"]) == (["west"], {})
    west = clusters_of(found)[1]
    assert (west["dry_run"], west["report"]) == (None, None)


@pytest.mark.parametrize("storage", ["/data", "s3://east/west", "/plans/west/manifests/east"])
def test_tasks_that_were_of_another_cluster_do_not_count(roll_up: RollUp, storage: str) -> None:
    """The policy file got another first cluster, and only its list was cleared: each place now is another cluster's."""
    path = f"{storage}/east/plans/p.json"
    plan = {"plan_id": "p", "plan_path": path, "counts": {"found": 10, "stale": 3, "planned": 2}}
    results = {
        ("list_offsets", 0): {"manifest": f"{storage}/north/manifests/s.json"},
        ("list_offsets", 1): {"manifest": f"{storage}/east/manifests/s.json"},
        ("plan", 1): plan,
        ("report", 1): {"report_path": "/r.html", "dry_run": False, "outcomes": {"deleted": 2}},
    }
    found = roll_up(TaskInstance([dict.fromkeys(STEPS, "success")] * 2, results))
    assert (found["failed_clusters"], found["groups"], found["outcomes"]) == (["east", "west"], 0, {})
    assert "tasks were of another cluster" in Path(found["report_path"]).read_text()


def test_a_cluster_that_was_rejected_is_no_failure(roll_up: RollUp) -> None:
    rejected = {"list_offsets": "success", "plan": "success", "delete": "skipped", "report": "success"}
    found = roll_up(TaskInstance([rejected, dict.fromkeys(STEPS, "success")], {}))
    assert (found["skipped"], found["done"], found["failed"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("state", "failed_at"),
    [({}, "clean_up, which did not begin"), ({"list_offsets": "success", "plan": "removed"}, "plan")],
)
def test_a_cluster_of_which_nothing_is_known_was_not_cleaned_up(
    roll_up: RollUp, state: dict[str, str], failed_at: str
) -> None:
    found = roll_up(TaskInstance([dict.fromkeys(STEPS, "success"), state], {}))
    assert (found["done"], found["failed_clusters"]) == (1, ["west"])
    assert clusters_of(found)[1]["failed_at"] == failed_at


def test_what_failed_before_the_clusters_were_mapped_failed_for_each(roll_up: RollUp) -> None:
    ti = TaskInstance([{"report": "skipped"}, {}], {})
    ti.before_mapping = dict.fromkeys(STEPS[:-1], "upstream_failed")
    found = roll_up(ti)
    assert (found["done"], found["failed_clusters"]) == (0, ["east", "west"])


@pytest.mark.parametrize("wrong", ['[{"cluster": "a"}]', [{"cluster": "a"}], ["a"], 7])
def test_what_are_no_clusters_is_an_error(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="clusters"):
        FleetReportOperator(task_id="fleet", storage_path=str(tmp_path), clusters=wrong)


def test_a_group_of_tasks_that_the_dag_does_not_have_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within another group, its id has the other's before it. Airflow's own error is one of its API."""
    outer = SimpleNamespace(topological_sort=lambda: [SimpleNamespace(task_id="outer.clean_up.plan")])
    monkeypatch.setattr(FleetReportOperator, "dag", outer)
    operator = FleetReportOperator(task_id="fleet", storage_path=str(tmp_path), clusters=CLUSTERS)
    context: Any = {"ti": TaskInstance([], {})}
    with pytest.raises(ConfigurationError, match=r"mapped_group \(got 'clean_up'\): .*no task group .*outer\.clean_up"):
        operator.execute(context)
