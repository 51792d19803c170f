"""What the pages show is what runs here."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

from tests.dags.airflow_env import ROOT
from tests.dags.runs import connect, parsed, runnable, states
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics, produce
from tests.pages import PAGES, shown_parts
from tests.records import records

EXAMPLES = Path(__file__).parent / "examples" / "kafka_groups_examples.py"
SOURCES = [*sorted(EXAMPLES.parent.rglob("*.py")), *sorted((ROOT / "dags").glob("*.py"))]


def marked_parts() -> dict[str, str]:
    parts = {}
    for source in SOURCES:
        for match in re.finditer(r"^ *# \[START (\w+)\]\n(.*?)^ *# \[END \1\]", source.read_text(), re.M | re.S):
            parts[match[1]] = dedent(match[2]).strip()
    return parts


def test_every_marked_part_is_in_the_docs_as_it_is() -> None:
    shown, marked = shown_parts(), marked_parts()
    assert {name: shown.get(name) for name in marked} == marked


def test_every_operator_and_sensor_is_in_the_docs() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for folder in ("operators", "sensors"):
        for path in (ROOT / "airflow_kafka_groups" / folder).glob("*.py"):
            for name in re.findall(r"^class ([A-Z]\w+(?:Operator|Sensor))\b", path.read_text(), re.M):
                if path.stem != "base":
                    assert f"`{name}`" in text, name


def test_the_example_of_metrics_is_a_dag() -> None:
    dags = parsed(EXAMPLES.with_name("kafka_groups_metrics.py"))
    assert list(dags["group_metrics"].task_dict) == ["group_metrics"]


@pytest.mark.airflow
def test_the_examples_run_on_a_real_cluster(
    kafka41: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = kafka41.bootstrap
    create_topics(bootstrap, {"orders": 2, "orders-v1": 1})
    produce(bootstrap, {("orders", 0): 50, ("orders", 1): 30, ("orders-v1", 0): 5})
    seed_groups(bootstrap, ["orders-1", "orders-2", "orders-test"], {("orders", 0): 45, ("orders", 1): 25})
    seed_groups(bootstrap, ["orders-done"], {("orders", 0): 50, ("orders", 1): 30})
    seed_groups(bootstrap, ["orders-moved"], {("orders", 0): 50, ("orders-v1", 0): 4})
    connect(monkeypatch, bootstrap, "my_cluster")
    monkeypatch.setenv("KAFKA_GROUPS_STORAGE", str(tmp_path))

    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

    done, sentence = KafkaGroupsHook("my_cluster").test_connection()
    assert done, sentence
    assert "3 brokers" in sentence

    runnable(dag := parsed(EXAMPLES)["kafka_groups_examples"])
    run = dag.test()
    assert run.state == "success", states(run)

    read = KafkaGroupsHook("my_cluster").list_consumer_group_offsets(
        ["orders-1", "orders-2", "orders-test", "orders-done", "orders-moved"]
    )
    assert {
        group_id: {tuple(where): value.offset for where, value in offsets.items() if value is not None}
        for group_id, offsets in read.succeeded.items()
    } == {
        "orders-1": {("orders", 0): 45, ("orders", 1): 25},
        "orders-2": {("orders", 0): 30, ("orders", 1): 5},
        "orders-test": {("orders", 0): 45, ("orders", 1): 25},  # deleted, and restored
        "orders-done": {("orders", 0): 40, ("orders", 1): 20},
        "orders-moved": {("orders", 0): 50},
    }
    (record,) = records(tmp_path)
    assert record["counts"]["deleted"] == 1
    assert len(list((tmp_path / "prod" / "backups").glob("*.parquet"))) == 1
