"""Nobody reads stderr on: ``apply --yes 2>&1 | tee log`` and Ctrl-C, which ends tee, too."""

from __future__ import annotations

import os
import signal
import sys
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.main import main
from tests.fakes.admin import FakeAdmin
from tests.unit.cli.commands.conftest import only_run


def nobody_reads() -> TextIOWrapper:
    read, write = os.pipe()
    os.close(read)
    return TextIOWrapper(FileIO(write, "w"), write_through=True)


def test_an_interrupt_whose_message_nobody_reads_completes_the_record(
    admin: FakeAdmin,
    backed_up: dict[str, Any],
    to_apply: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delete = admin.delete_consumer_groups

    async def interrupted(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(sys, "stderr", nobody_reads())
        done = await delete(*args, **options)
        signal.raise_signal(signal.SIGINT)  # Ctrl-C while the brokers' answer is waited for; tee is gone by now
        return done

    monkeypatch.setattr(admin, "delete_consumer_groups", interrupted)
    main(to_apply)
    assert sorted(admin.deleted) == ["a", "b"]
    run = only_run(tmp_path, backed_up)
    assert run.ended, "howto/command-line.md: Ctrl-C: the groups that are left are kept, and the record is completed"
    assert {name: item.outcome.value for name, item in run.outcomes.items()} == {"a": "deleted", "b": "deleted"}


def test_a_warning_that_nobody_reads_does_not_end_a_deletion(
    admin: FakeAdmin,
    backed_up: dict[str, Any],
    to_apply: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``apply --yes 2>&1 | head``: the run is complete in the journal, and the exit code is that of the run."""
    from airflow_kafka_groups.exceptions import KafkaGroupsError

    async def fails(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(sys, "stderr", nobody_reads())
        raise KafkaGroupsError("the connection broke")

    monkeypatch.setattr(admin, "delete_consumer_groups", fails)
    main(to_apply)
    run = only_run(tmp_path, backed_up)
    assert run.ended
