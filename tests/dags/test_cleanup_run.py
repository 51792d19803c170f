"""The whole clean-up on a real Airflow, a real Spark and a real three-broker Kafka: only what is dead is deleted."""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.timezone import utcnow

from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.storage.layout import Layout
from tests.dags.runs import connect, shipped_dags, states
from tests.lab.cluster import KafkaCluster
from tests.lab.spark.archive import quick_options
from tests.lab.spark.jars import connector_jars
from tests.lab.workload.groups import commit_offsets, list_groups, seed_groups
from tests.lab.workload.live import LiveConsumer, committing
from tests.lab.workload.topics import create_topics, produce
from tests.records import records
from tests.unit.operators import scene

pytestmark = [pytest.mark.safety, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

TOPIC = "dags-cleanup"
PREFIX = "cleanup-run."  # other tests share the cluster
STALE = [f"{PREFIX}stale-{i}" for i in range(20)]
LIVE = {f"{PREFIX}live-classic": "classic", f"{PREFIX}live-consumer": "consumer"}
MOVING, EXCLUDED, GUARDED = f"{PREFIX}moving", f"{PREFIX}team-a", f"{PREFIX}guarded"
KEPT = [*LIVE, MOVING, EXCLUDED, GUARDED]
IDLE_SECONDS = 3
ANN = {"id": "42", "name": "Ann"}
SPARK = {"spark.driver.extraJavaOptions": quick_options()}


@pytest.fixture(scope="module")
def kafka(kafka41: KafkaCluster) -> Iterator[str]:
    bootstrap = kafka41.bootstrap
    create_topics(bootstrap, {TOPIC: 2})
    produce(bootstrap, {(TOPIC, 0): 20, (TOPIC, 1): 20})
    seed_groups(bootstrap, [*STALE, MOVING, EXCLUDED, GUARDED], {(TOPIC, 0): 5, (TOPIC, 1): 7})
    with (
        LiveConsumer(bootstrap, f"{PREFIX}live-classic", [TOPIC], protocol="classic"),
        LiveConsumer(bootstrap, f"{PREFIX}live-consumer", [TOPIC], protocol="consumer"),
    ):
        yield bootstrap


@pytest.fixture(scope="module")
def dags() -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"spark_conf": SPARK}))
        yield shipped_dags()


def lead_to(bootstrap: str, monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    connect(monkeypatch, bootstrap, extra={"protected_groups": [GUARDED], **extra})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")


def reports(storage: Path) -> list[Path]:
    return sorted((storage / "lab" / "reports").glob("2*.html"))  # the trend is beside them


def groups_of(audit: dict[str, Any], outcome: str) -> list[str]:
    return [item["group_id"] for item in audit["outcomes"] if item["outcome"] == outcome]


def liar(storage: Path, bootstrap: str) -> Callable[[Any, Any], None]:
    """Judge in place of Spark, and wrongly: every group is stale. One of them commits right after that."""

    def execute(self: Any, context: Any) -> None:
        arguments = dict(itertools.pairwise(self.application_args))
        scene.judge(storage, arguments["--snapshot-id"], stale=[*STALE, *KEPT], cluster=arguments["--cluster"])
        committed = int(time.time())
        commit_offsets(bootstrap, {MOVING: {(TOPIC, 0): committed, (TOPIC, 1): 7}})

    return execute


def answer(
    patched: pytest.MonkeyPatch,
    storage: Path,
    option: str,
    *,
    keep: Sequence[str] = (),
    user: dict[str, str] | None = ANN,
) -> None:
    """Answer in place of a human (or of time), with what the form asks for; Airflow tells the asking task only."""

    def execute(self: Any, context: Any) -> Any:
        plan = json.loads((storage / "lab" / "plans" / f"{self.plan_id}.json").read_text())
        assert f"{plan['groups']} groups" in self.body
        typed = {"confirm_groups": str(plan["groups"]), "exclude_groups": list(keep)} if user else {}
        event = {"chosen_options": [option], "params_input": typed, "responded_at": utcnow(), "responded_by_user": user}
        return self.execute_complete(context, event)

    patched.setattr(ApprovalOperator, "execute", execute)


def test_the_dags_delete_what_is_dead_and_nothing_else(
    kafka: str, dags: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = {"storage_path": str(tmp_path), "cluster": "lab"}
    policy = {
        "include": [f"{PREFIX}*"],
        "exclude": [f"{PREFIX}team-*"],
        "min_idle_seconds": IDLE_SECONDS,
        "max_share": 1.0,
    }
    cleanup = dags["cleanup_stale_groups"]

    # One snapshot, then time passes, in which one group without members commits.
    lead_to(kafka, monkeypatch)
    run = dags["snapshot_group_offsets"].test(run_conf=storage)
    assert run.state == "success", states(run)
    time.sleep(IDLE_SECONDS)

    # Nobody approves in time: nothing is deleted. Nor is it when the approval is marked as success by hand.
    real = {**storage, **policy, "dry_run": False}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(KafkaSparkSubmitOperator, "execute", liar(tmp_path, kafka))
        answer(patched, tmp_path, "Reject", user=None)
        run = cleanup.test(run_conf=real)
        found = states(run)
        assert (found["approve"], found["delete"], found["verify"]) == ("success", "skipped", "skipped")
        assert found["report"] == "success"
        run = cleanup.test(run_conf=real, mark_success_pattern="approve")
        assert run.state == "failed"
        assert states(run)["delete"] == "failed"
        assert set(list_groups(kafka)) >= {*STALE, *KEPT}
        assert records(tmp_path) == []

    # Through a read-only connection the deletion fails, and so does the run; the report is made all the same.
    lead_to(kafka, monkeypatch, read_only=True)
    with pytest.MonkeyPatch.context() as wrong:
        wrong.setattr(KafkaSparkSubmitOperator, "execute", liar(tmp_path, kafka))
        run = cleanup.test(run_conf={**real, "require_approval": False})
        assert run.state == "failed", "the report must not hide a failed delete"
        found = states(run)
        assert (found["backup"], found["delete"], found["verify"]) == ("success", "failed", "upstream_failed")
        assert (found["report"], found["done"]) == ("success", "upstream_failed")
        assert len(reports(tmp_path)) == 3
        assert set(list_groups(kafka)) >= {*STALE, *KEPT}

        # A dry run (the default) goes all the way and deletes nothing. The DAG object is that of the run before:
        # Airflow has left dry_run=False in its Params, and the second key holds. The verdicts are wrong, and still
        # only the dead would go: members, movement and patterns are looked at again.
        lead_to(kafka, monkeypatch)
        run = cleanup.test(run_conf={**storage, **policy})
        assert run.state == "success", states(run)
        assert set(list_groups(kafka)) >= {*STALE, *KEPT}
        (audit,) = records(tmp_path)
        assert sorted(groups_of(audit, "would_delete")) == sorted(STALE)
        assert audit["dry_run"] is True

    # For real, judged by Spark, approved by a human who keeps one group.
    with pytest.MonkeyPatch.context() as patched:
        answer(patched, tmp_path, "Approve", keep=[STALE[0]])
        run = cleanup.test(run_conf=real)
    assert run.state == "success", states(run)
    left = {group_id for group_id in list_groups(kafka) if group_id.startswith(PREFIX)}
    assert left == {*KEPT, STALE[0]}
    _, audit = records(tmp_path)
    assert sorted(groups_of(audit, "deleted")) == sorted(STALE[1:])
    (kept,) = [item for item in audit["outcomes"] if item["group_id"] == STALE[0]]
    assert (kept["outcome"], kept["code"]) == ("kept", "excluded")
    assert audit["actor"]["dag_id"] == "cleanup_stale_groups"
    assert audit["approval"]["approved_by"] == "Ann (42)"

    (path,) = (tmp_path / "lab" / "plans").glob(f"{audit['plan_id']}.json")
    plan = json.loads(path.read_text())
    assert plan["policy"]["max_gap_seconds"] == 172_800
    assert "the log of commits was not read: Spark has no" in plan["evidence"]["sentence"], "it is optional"

    # And what is left of the stale, without a human, by the run's own word; the verdicts are wrong again.
    conf = {**real, "require_approval": False}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(KafkaSparkSubmitOperator, "execute", liar(tmp_path, kafka))
        run = cleanup.test(run_conf=conf)
    assert run.state == "success", states(run)
    assert {group_id for group_id in list_groups(kafka) if group_id.startswith(PREFIX)} == set(KEPT)
    assert len(reports(tmp_path)) == 6


def test_a_consumer_that_commits_the_same_offset_is_kept_where_the_log_of_commits_can_be_read(
    kafka41: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap, prefix = kafka41.bootstrap, "cleanup-quiet."
    dead, alive = f"{prefix}dead", f"{prefix}alive"
    topic = "dags-cleanup-quiet"
    create_topics(bootstrap, {topic: 2})
    seed_groups(bootstrap, [dead], {(topic, 0): 5})
    lead_to(bootstrap, monkeypatch)
    jars = ",".join(str(jar) for jar in connector_jars())
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"spark_conf": {**SPARK, "spark.jars": jars}}))
    parsed = shipped_dags()
    conf = {"storage_path": str(tmp_path), "cluster": "lab", "include": [f"{prefix}*"], "max_share": 1.0}
    conf |= {"min_idle_seconds": IDLE_SECONDS, "dry_run": False, "require_approval": False, "commit_log": "required"}
    with committing(bootstrap, alive, (topic, 0), 5):
        scope = {name: conf[name] for name in ("storage_path", "cluster")}
        assert parsed["snapshot_group_offsets"].test(run_conf=scope).state == "success"
        time.sleep(IDLE_SECONDS)
        run = parsed["cleanup_stale_groups"].test(run_conf=conf)
        assert run.state == "success", states(run)
    assert {group_id for group_id in list_groups(bootstrap) if group_id.startswith(prefix)} == {alive}
    (path,) = (tmp_path / "lab" / "plans").glob("*.json")
    plan = load_plan(Layout(tmp_path, "lab"), path.stem)
    assert plan.group_ids == [dead]
    assert {group.group_id: group.verdict for group in plan.kept}[alive] == "moving"
    assert plan.policy.require_commit_log is True
    assert plan.evidence is not None
    assert "and the log of commits until" in plan.evidence["sentence"]
    (report,) = reports(tmp_path)
    assert "and the log of commits until" in report.read_text()
