"""A misspelt key of a run's configuration: no task of a shipped DAG runs with the default in its place."""

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.dag_params import refuse_unknown_conf
from tests.dags.runs import connect, shipped_dags, states


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    return shipped_dags()


def refused(conf: Any, *names: str) -> str:
    dag = SimpleNamespace(params=dict.fromkeys(names))
    with pytest.raises(ConfigurationError) as raised:
        refuse_unknown_conf({"dag": dag, "dag_run": SimpleNamespace(conf=conf)})  # type: ignore[typeddict-item]
    return str(raised.value)


def test_the_message_names_the_key_and_the_closest_parameter() -> None:
    assert refused({"dry_run": False, "exlude": ["a"]}, "include", "exclude", "dry_run") == (
        "run configuration, key 'exlude': is not a parameter of the DAG; did you mean 'exclude'? This task did nothing"
    )
    assert "known parameters: dry_run, exclude." in refused({"zzz": 1}, "exclude", "dry_run")
    assert len(refused({"x" * 100_000: 1}, "exclude")) < 300


@pytest.mark.parametrize("conf", [None, {}, {"exclude": ["a"]}])
def test_known_keys_and_no_configuration_pass(conf: Any) -> None:
    dag = SimpleNamespace(params={"exclude": None})
    refuse_unknown_conf({"dag": dag, "dag_run": SimpleNamespace(conf=conf)})  # type: ignore[typeddict-item]


def test_every_task_of_a_shipped_dag_checks_the_run(dags: dict[str, Any]) -> None:
    for dag in dags.values():
        for task in dag.tasks:
            hook = task.partial_kwargs["pre_execute"] if task.is_mapped else task._pre_execute_hook
            assert hook is refuse_unknown_conf, task.task_id


@pytest.mark.airflow
@pytest.mark.parametrize("dag_id", ["cleanup_stale_groups", "prune_kafka_groups_files"])
def test_a_run_with_a_misspelt_key_does_nothing(dags: dict[str, Any], dag_id: str, tmp_path: Any) -> None:
    conf = {"exlude": ["team-keep-*"], "storage_path": str(tmp_path), "cluster": "lab"}
    for _ in range(2):  # what one run is given does not become a parameter of the next
        run = dags[dag_id].test(run_conf=conf)
        assert run.state == "failed"
        assert set(states(run).values()) <= {"failed", "upstream_failed"}, states(run)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.airflow
def test_a_run_with_known_keys_or_none_goes_on(
    dags: dict[str, Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "localhost:1")
    prune = dags["prune_kafka_groups_files"]
    assert prune.test(run_conf={"storage_path": str(tmp_path), "keep_newest": 1}).state == "success"


@pytest.mark.airflow
def test_marking_the_first_tasks_as_success_does_not_pass_the_check(dags: dict[str, Any], tmp_path: Any) -> None:
    cleanup, task_id = dags["cleanup_stale_groups"], "delete"
    tasks = [task.task_id for task in cleanup.topological_sort()]
    before = "|".join(f"^{name}$" for name in tasks[: tasks.index(task_id)])
    run = cleanup.test(run_conf={"exlude": [], "storage_path": str(tmp_path)}, mark_success_pattern=before)
    assert states(run)[task_id] == "failed"
    assert list(tmp_path.iterdir()) == []
