from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.operators import spark_submit as airflows

from airflow_kafka_groups.operators.spark_submit import PrivateSparkSubmitOperator

SECRET = "s3cr3t-k3y"


class FakeHook:
    """Stands for ``SparkSubmitHook`` in client mode: notes what it is given, and reads the file while the job runs."""

    made: list[FakeHook]
    fails = False
    _should_track_driver_status = _is_yarn_cluster_mode = _is_kubernetes = False

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.killed = False
        self.made.append(self)

    def _should_track_driver_via_k8s_api(self) -> bool:
        return False

    def submit(self, _application: str) -> None:
        self.path = Path(self.arguments["properties_file"])
        self.content = self.path.read_text()
        if self.fails:
            raise RuntimeError("the job failed")

    def on_kill(self) -> None:
        self.killed = True


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[FakeHook]:
    FakeHook.made = []
    monkeypatch.setattr(FakeHook, "fails", False)
    monkeypatch.setattr(airflows, "SparkSubmitHook", FakeHook)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return FakeHook


def operator(**arguments: Any) -> PrivateSparkSubmitOperator:
    conf = {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.kubernetes.namespace": "jobs"}
    return PrivateSparkSubmitOperator(task_id="t", application="/my/job.py", conf=conf, **arguments)


@pytest.mark.parametrize("fails", [False, True])
def test_the_properties_are_in_a_file_while_the_job_runs(
    hook: type[FakeHook], monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(hook, "fails", fails)
    if fails:
        with pytest.raises(RuntimeError, match="the job failed"):
            operator().execute({})
    else:
        operator().execute({})
    (made,) = hook.made
    assert made.arguments["conf"] == {"spark.kubernetes.namespace": "jobs"}
    assert SECRET not in str(made.arguments)
    assert f"spark.hadoop.fs.s3a.secret.key={SECRET}" in made.content
    assert not made.path.parent.exists()


def test_what_openlineage_adds_is_hidden_too(hook: type[FakeHook], monkeypatch: pytest.MonkeyPatch) -> None:
    def add(conf: dict[str, Any], _context: Any) -> dict[str, Any]:
        return {**conf, "spark.openlineage.transport.auth.apiKey": "l1neage-k3y"}

    monkeypatch.setattr(airflows, "inject_transport_information_into_spark_properties", add)
    operator(openlineage_inject_transport_info=True).execute({})
    (made,) = hook.made
    assert "l1neage-k3y" not in str(made.arguments)
    assert "l1neage-k3y" in made.content


def test_a_task_that_is_killed_before_it_began_has_nothing_to_hide(hook: type[FakeHook]) -> None:
    operator().on_kill()
    (made,) = hook.made
    assert made.killed
