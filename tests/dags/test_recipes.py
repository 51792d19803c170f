"""The recipes of docs/howto/recipes.md: each parses, and does on a real Kafka what the page promises."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.dags.runs import DAGS, connect, parsed, runnable, states
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import list_groups, seed_groups
from tests.lab.workload.topics import create_topics, produce

RECIPES = Path(__file__).parent / "examples" / "recipes"
CLEANUP = "cleanup_stale_groups"


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    runnable(*(dags := parsed(RECIPES)).values())
    return dags


@pytest.fixture
def bootstrap(kafka41: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("prod", "staging"):
        connect(monkeypatch, kafka41.bootstrap, name)
    return kafka41.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"recipes-{uuid4().hex[:8]}"
    create_topics(bootstrap, {name: 2})
    produce(bootstrap, {(name, 0): 20, (name, 1): 10})
    return name


def offsets(group_id: str) -> dict[tuple[str, int], int]:
    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

    read = KafkaGroupsHook("prod").list_consumer_group_offsets([group_id])
    read.raise_for_errors()
    return {
        (at.topic, at.partition): value.offset for at, value in read.succeeded[group_id].items() if value is not None
    }


def test_every_recipe_is_a_dag(dags: dict[str, Any]) -> None:
    mine = {"my_cleanup", "nightly_batch", "nightly_offsets_backup", "keep_standby_alive", "delete_preview_groups"}
    assert set(dags) == mine | {"lag_to_slack", "switch_to_green", "load_orders", "load_in_steps", "weekly_cleanup"}


def test_whoever_triggers_the_clean_up_uses_parameters_that_it_has(dags: dict[str, Any]) -> None:
    shipped = parsed(DAGS / f"{CLEANUP}.py")[CLEANUP]
    task = dags["weekly_cleanup"].get_task("clean_up")
    assert task.trigger_dag_id == CLEANUP
    assert set(task.conf) <= set(shipped.params)
    for key, value in task.conf.items():
        shipped.params.get_param(key).resolve(value)  # raises for a value that the form would refuse
    assert task.conf["require_approval"] is True


def test_the_readme_s_clean_up_is_wired_as_the_shipped_one(dags: dict[str, Any]) -> None:
    """Same tasks in the same order, each with the shipped arguments: what its form offers, it obeys."""
    from airflow_kafka_groups.operators.dag_params import dry_run_argument, refuse_unknown_conf

    shipped = parsed(DAGS / f"{CLEANUP}.py")[CLEANUP]
    names = {"snapshot": "list_offsets", "judge": "judge_staleness"}
    mine = dags["my_cleanup"]
    assert set(mine.params) == set(shipped.params)
    order = [task.task_id for task in mine.topological_sort()]
    assert order == ["policy", "snapshot", "judge", "plan", "backup", "approve", "delete"]
    for task_id in order:
        task, like = mine.get_task(task_id), shipped.get_task(names.get(task_id, task_id))
        assert type(task) is type(like)
        assert vars(task)["_pre_execute_hook"] is refuse_unknown_conf
        for field in set(task.template_fields) - {"subject", "body", "params"}:
            wanted = str(getattr(like, field, None)).replace("list_offsets", "snapshot")
            assert str(getattr(task, field, None)) == wanted, (task_id, field)
    delete = mine.get_task("delete")
    assert (delete.dry_run, delete.retries) == (dry_run_argument(), 0)
    assert delete.approval_rule == mine.get_task("approve").approval_rule
    assert "'always'" in delete.approval_rule


@pytest.mark.airflow
def test_a_batch_starts_when_its_group_has_read_everything(dags: dict[str, Any], bootstrap: str, topic: str) -> None:
    dag = dags["nightly_batch"]
    sensor = dag.get_task("caught_up")
    sensor.deferrable = False
    seed_groups(bootstrap, ["orders-sink"], {(topic, 0): 20, (topic, 1): 9})
    assert not sensor.poke({}), "one record is left"
    seed_groups(bootstrap, ["orders-sink"], {(topic, 0): 20, (topic, 1): 10})
    assert states(dag.test()) == {"caught_up": "success", "batch": "success"}


@pytest.mark.airflow
def test_only_the_groups_of_the_merged_preview_are_deleted(
    dags: dict[str, Any], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    dag = dags["delete_preview_groups"]
    delete = dag.get_task("delete")
    delete.storage_path, delete.observe_seconds = str(tmp_path), 1
    mine, others = ["preview.pr-7.api", "preview.pr-7.sink"], ["preview.pr-77.api", "preview-pr-7"]
    seed_groups(bootstrap, [*mine, *others], {(topic, 0): 5})
    run = dag.test(run_conf={"preview": "pr-7"})
    assert set(states(run).values()) == {"success"}
    left = set(list_groups(bootstrap))
    assert left.isdisjoint(mine)
    assert left.issuperset(others)
    assert states(dag.test(run_conf={"preview": "pr-7"}))["delete"] == "skipped", "there are none any more"


@pytest.mark.airflow
def test_the_same_offsets_are_committed_again_only_when_they_are_due(
    dags: dict[str, Any], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    dag = dags["keep_standby_alive"]
    keep = dag.get_task("keep_alive")
    keep.storage_path, keep.observe_seconds = str(tmp_path), 0
    seed_groups(bootstrap, ["standby.east"], {(topic, 0): 20, (topic, 1): 9})
    assert states(dag.test()) == {"keep_alive": "success"}
    assert offsets("standby.east") == {(topic, 0): 20, (topic, 1): 9}
    (result,) = (tmp_path / "prod" / "changes").glob("*-result.json")
    assert json.loads(result.read_text())["counts"]["changed"] == 1
    assert states(dag.test()) == {"keep_alive": "success"}
    assert len(list((tmp_path / "prod" / "changes").iterdir())) == 2, "nothing was due"


@pytest.mark.airflow
def test_all_groups_are_backed_up_but_consoles(
    dags: dict[str, Any], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    seed_groups(bootstrap, ["console-consumer-1", f"{topic}.kept"], {(topic, 0): 5})
    dag = dags["nightly_offsets_backup"]
    dag.get_task("backup").storage_path = str(tmp_path)
    assert states(dag.test()) == {"backup": "success"}
    import pyarrow.parquet as pq

    (data,) = (tmp_path / "prod" / "backups").glob("*.parquet")
    groups = set(pq.read_table(data, columns=["group_id"]).column(0).to_pylist())
    assert f"{topic}.kept" in groups
    assert "console-consumer-1" not in groups


@pytest.mark.airflow
def test_green_begins_where_blue_has_stopped(dags: dict[str, Any], bootstrap: str, topic: str, tmp_path: Path) -> None:
    seed_groups(bootstrap, ["checkout-blue"], {(topic, 0): 13, (topic, 1): 4})
    dag = dags["switch_to_green"]
    dag.get_task("blue_has_stopped").deferrable = False
    dag.get_task("green_begins_there").storage_path = str(tmp_path)
    assert set(states(dag.test()).values()) == {"success"}
    assert offsets("checkout-green") == offsets("checkout-blue") == {(topic, 0): 13, (topic, 1): 4}


@pytest.mark.airflow
def test_what_a_run_has_processed_is_committed_only_when_it_has_succeeded(
    dags: dict[str, Any], bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = dags["load_orders"]
    fix, work, commit = (dag.get_task(f"load.{name}") for name in ("fix_range", "load", "commit_range"))
    fix.storage_path = commit.storage_path = str(tmp_path)
    fix.topics = [topic]
    does = work.python_callable

    def run() -> dict[str, str]:
        return {name.removeprefix("load."): state for name, state in states(dag.test()).items()}

    monkeypatch.setattr(work, "python_callable", lambda unread: [][0])
    assert run() == {"fix_range": "success", "load": "failed", "commit_range": "skipped"}
    assert offsets("warehouse-load") == {}
    monkeypatch.setattr(work, "python_callable", does)
    monkeypatch.setitem(does.__wrapped__.__globals__, "BROKERS", bootstrap)
    assert run() == dict.fromkeys(("fix_range", "load", "commit_range"), "success")
    assert offsets("warehouse-load") == {(topic, 0): 20, (topic, 1): 10}
    produce(bootstrap, {(topic, 1): 5})
    assert run() == dict.fromkeys(("fix_range", "load", "commit_range"), "success")
    assert offsets("warehouse-load") == {(topic, 0): 20, (topic, 1): 15}


class Slack(BaseHTTPRequestHandler):
    """What an incoming webhook is to its caller."""

    posted: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.mark.parametrize("lagging", [{}, {"<!channel> &<@U1>": 120_000, "orders": 250_000}])
def test_slack_is_told_of_groups_that_lag_and_of_nothing_else(
    dags: dict[str, Any], monkeypatch: pytest.MonkeyPatch, lagging: dict[str, int]
) -> None:
    Slack.posted = []
    server = HTTPServer(("127.0.0.1", 0), Slack)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/services/T0/B0/x"
        monkeypatch.setenv("AIRFLOW_CONN_SLACK_WEBHOOK", json.dumps({"conn_type": "http", "password": url}))
        found = {"lagging": len(lagging), "groups": 500, "lagging_groups": lagging}
        dags["lag_to_slack"].get_task("post").python_callable(found)
    finally:
        server.shutdown()
        server.server_close()
    if not lagging:
        assert Slack.posted == []
    else:
        (message,) = Slack.posted
        assert message["text"].splitlines()[0] == "2 of 500 Kafka groups lag:"
        assert "`orders`: 250,000 messages" in message["text"].splitlines()[1], "the most lagging first"
        assert "`&lt;!channel&gt; &amp;&lt;@U1&gt;`: 120,000 messages" in message["text"], "a name calls nobody"
