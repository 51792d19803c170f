"""The command line on the cluster in memory, as a function."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.ledger.approval import seal_answer, seal_question
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.ledger.run_records import RunRecord
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.records import runs
from tests.unit.operators.scene import CLUSTER

Cli = Callable[..., tuple[int, Any, str]]


def connect(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    """Restrict what the commands' connection may do."""
    connection = {"conn_type": "kafka_groups", "host": "b1:9092", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return a function that runs a command; it returns the exit code, what stdout has as JSON, and stderr."""

    def run(*arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()  # what operators logged
        code = main([*arguments, "--conn-id", "kafka_groups_default", "--output", "json"])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else None, printed.err

    return run


@pytest.fixture
def stored(cli: Cli, tmp_path: Path) -> Cli:
    """Return that function with the storage of the other tests of clean-ups."""
    return lambda *arguments: cli(*arguments, "--storage-path", str(tmp_path), "--cluster", CLUSTER)


@pytest.fixture
def to_apply(backed_up: dict[str, Any], tmp_path: Path) -> list[str]:
    """Return the words that apply a plan with its backup, for ``main``."""
    words = ["apply", backed_up["plan_id"], "--digest", backed_up["digest"], "--yes", "--output", "json"]
    return [*words, "--conn-id", "kafka_groups_default", "--storage-path", str(tmp_path), "--cluster", CLUSTER]


def only_run(storage: Path) -> RunRecord:
    """Return the only run that the journal has."""
    (run,) = runs(storage)
    return run


def ask(storage: Path, plan_id: str, *, answer: bool | None, excluded: list[str] | None = None) -> None:
    """Have a plan's approval asked for in Airflow, and answered; ``None`` for not yet."""
    layout = Layout(storage, CLUSTER)
    plan, task, at = load_plan(layout, plan_id), {"task": "approve"}, utc_now()
    seal_question(layout, plan, task, at)
    if answer is not None:
        seal_answer(
            layout,
            plan,
            asked_by=task,
            approved=answer,
            person={"id": "ada", "name": "ada"},
            responded_at=at.isoformat(),
            confirmed=len(plan.groups),
            excluded=excluded,
        )
