"""The demo's DAGs are the shipped ones; only the clean-up has one thing more."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

import pytest

from airflow_kafka_groups.example_dags import dag_files
from tests.demo.dag_folder import CLEANUP, with_notifier, write_dags


def test_the_folder_has_the_shipped_dags_and_the_clean_up_has_a_notifier(tmp_path: Path) -> None:
    write_dags(folder := tmp_path / "dags")
    for path in dag_files():
        shipped, written = path.read_text(), (folder / path.name).read_text()
        if path.name != CLEANUP:
            assert written == shipped
            continue
        ast.parse(written)
        lines = list(difflib.ndiff(shipped.splitlines(), written.splitlines()))
        assert [line for line in lines if line.startswith("- ")] == [
            '-     notify = NotifyOwnersOperator(task_id="notify", dry_run=asked["dry_run"], **planned)'
        ]
        assert sum("SmtpNotifier(" in line for line in lines if line.startswith("+ ")) == 1
    assert (folder / "keep_groups_alive.py").is_file()


@pytest.mark.parametrize("text", ["", "NotifyOwnersOperator(\nNotifyOwnersOperator("])
def test_another_dag_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must have one"):
        with_notifier(text)
