"""Two clusters, one policy: on a real Airflow and two real Kafka clusters, one of which goes down.

Verdicts come from a script that calls every group stale: test_cleanup_run.py has Spark judge the same steps.
"""

import itertools
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.operators.plan import CheckPolicyOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from tests.dags.runs import connect, result, shipped_dags
from tests.dags.test_small_dags import asset_events
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import list_groups, seed_groups
from tests.lab.workload.topics import create_topics
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators import scene

pytestmark = [pytest.mark.safety, pytest.mark.airflow, pytest.mark.timeout(600)]

IDLE_SECONDS = 3
POLICY = """\
    version: 1
    clusters:
      east: {{connection: kafka_east}}
      west: {{connection: kafka_west, description: it goes down}}
    limits: {{max_share: 1}}
    rules:
      - {{name: dead, match: {{groups: "{prefix}.dead*"}}, action: delete, idle: {idle}s}}
    """


@pytest.fixture(scope="module")
def dags() -> Any:
    dags = shipped_dags()
    for task in dags["cleanup_fleet"].tasks:
        task.retries = 0  # a broker that is down is down
    return dags


def states(run: Any) -> dict[tuple[str, int], str]:
    return {(task.task_id, task.map_index): str(task.state) for task in run.get_task_instances()}


def test_one_cluster_that_is_down_holds_the_other_up_in_nothing(
    kafka41: KafkaCluster, dags: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"fleet-{uuid4().hex[:8]}"
    dead, other = [f"{prefix}.dead-{number}" for number in range(5)], f"{prefix}.other"
    policy = write_policy(tmp_path, POLICY.format(prefix=prefix, idle=IDLE_SECONDS))
    storage = tmp_path / "storage"
    conf = {"policy_file": str(policy), "storage_path": str(storage)}

    def judge(operator: Any, context: Any) -> None:
        asked = dict(itertools.pairwise(operator.application_args))
        assert float(asked["--min-idle-seconds"]) == IDLE_SECONDS, "the policy's"
        scene.judge(storage, asked["--snapshot-id"], stale=[*dead, other], cluster=asked["--cluster"])

    monkeypatch.setattr(KafkaSparkSubmitOperator, "execute", judge)
    with KafkaCluster(version="4.4.0", brokers=1) as west:
        for name, cluster in (("east", kafka41), ("west", west)):
            connect(monkeypatch, cluster.bootstrap, f"kafka_{name}", extra={"api_timeout_seconds": 20})
            create_topics(cluster.bootstrap, {prefix: 1})
            seed_groups(cluster.bootstrap, [*dead, other], {(prefix, 0): 5})
        run = dags["snapshot_fleet"].test(run_conf=conf)
        assert run.state == "success", states(run)
        assert {folder.name for folder in storage.iterdir()} == {"_journal", "east", "west"}

    run = dags["cleanup_fleet"].test(run_conf={**conf, "dry_run": False, "require_approval": False, "max_share": 1})
    found = states(run)
    assert found["clean_up.delete", 0] == found["clean_up.verify", 0] == "success", found
    assert found["clean_up.find_coordinators", 1] == "failed", found
    assert found["clean_up.delete", 1] == "upstream_failed"
    assert (found["fleet", -1], found["done", -1], run.state) == ("success", "upstream_failed", "failed")
    left = {group_id for group_id in list_groups(kafka41.bootstrap) if group_id.startswith(prefix)}
    assert left == {other}

    rolled_up = result(run, "fleet")
    numbers = {name: rolled_up[name] for name in ("clusters", "done", "skipped", "failed", "planned", "outcomes")}
    assert numbers == {
        "clusters": 2, "done": 1, "skipped": 0, "failed": 1, "planned": 5, "outcomes": {"deleted": 5},
    }  # fmt: skip
    page = Path(rolled_up["report_path"])
    assert "west failed at find_coordinators" in page.read_text()
    data = json.loads(page.with_suffix(".json").read_text())
    assert [(each["cluster"], each["state"], each["failed_at"]) for each in data["clusters"]] == [
        ("east", "done", None),
        ("west", "failed", "find_coordinators"),
    ]
    (event,) = [event for event in asset_events("kafka_groups_fleet") if event["report_path"] == str(page)]
    assert event["failed_clusters"] == ["west"]


def run_fleet(dags: dict[str, Any], folder: Path) -> Any:
    """Clean up both clusters, in a dry run."""
    policy = write_policy(folder, POLICY.format(prefix="p", idle=IDLE_SECONDS))
    return dags["cleanup_fleet"].test(run_conf={"policy_file": str(policy), "storage_path": str(folder)})


def test_a_fleet_whose_policy_is_refused_is_reported_as_failed(
    dags: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(operator: Any, context: Any) -> None:
        raise PolicyError("edited since")

    monkeypatch.setattr(CheckPolicyOperator, "execute", refuse)
    run = run_fleet(dags, tmp_path)
    assert (states(run)["fleet", -1], run.state) == ("success", "failed")
    assert (result(run, "fleet")["done"], result(run, "fleet")["failed_clusters"]) == (0, ["east", "west"])


@pytest.mark.parametrize("skipped", [False, True])
def test_a_report_that_fails_is_hidden_by_neither_the_roll_up_nor_a_cluster_that_was_skipped(
    dags: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, skipped: bool
) -> None:
    """The run was a success, though its own roll-up said that clusters had failed at their reports.

    Skipped: after a rejected approval, or while another clean-up is in progress.
    """
    id_ = "20261126T000000Z-00000000"
    ids = {"snapshot_id": id_, "plan_id": id_, "digest": "0" * 64, "audit_path": str(tmp_path / "a.json")}
    # What later tasks need of earlier ones, whichever has it.
    returned = {**ids, "counts": {}, "dry_run": True, "warnings": [], "notified": {}, "marked": 0}

    def run_one(operator: Any, context: Any) -> Any:
        task_id, cluster = operator.task_id.removeprefix("clean_up."), context["ti"].map_index
        if skipped and (task_id, cluster) == ("delete", 0):
            raise AirflowSkipException("another clean-up is in progress")
        if task_id == "report" and not (skipped and cluster == 0):
            raise PolicyError("the report cannot be written")
        return returned

    for task in dags["cleanup_fleet"].tasks:
        if task.task_id.startswith("clean_up."):
            monkeypatch.setattr(task.operator_class, "execute", run_one)
    run = run_fleet(dags, tmp_path)
    found = states(run)
    verified = "skipped" if skipped else "success"
    assert (found["clean_up.verify", 0], found["clean_up.report", 1]) == (verified, "failed"), found
    assert result(run, "fleet")["failed_clusters"] == (["west"] if skipped else ["east", "west"])
    assert (found["done", -1], run.state) == ("upstream_failed", "failed")
