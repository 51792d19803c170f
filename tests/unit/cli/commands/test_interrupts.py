"""Ctrl-C while the command writes to stderr, or after the deletion."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.cli.output import Output, say
from tests.fakes.admin import FakeAdmin
from tests.unit.cli.commands.conftest import only_run


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """What a shell runs in the background ignores interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_a_message_is_written_completes_the_record(
    admin: FakeAdmin, backed_up: dict[str, Any], to_apply: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``apply --yes 2>&1 | less`` whose pipe is full, or a terminal paused by Ctrl-S: the write waits, then Ctrl-C."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write, True)
    stderr = TextIOWrapper(BufferedWriter(FileIO(write, "w")), line_buffering=True)  # as Python opens stderr

    def user() -> None:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C
        time.sleep(0.5)
        while os.read(read, 65536):  # Ctrl-Q: the reader goes on
            pass

    delete = admin.delete_consumer_groups

    async def warned(*args: Any, **options: Any) -> Any:
        done = await delete(*args, **options)
        monkeypatch.setattr(sys, "stderr", stderr)
        threading.Thread(target=user, daemon=True).start()
        say("warning: something about this run")  # any message of the run
        return done

    monkeypatch.setattr(admin, "delete_consumer_groups", warned)
    main(to_apply)
    run = only_run(tmp_path, backed_up)
    assert sorted(admin.deleted) == ["a", "b"]
    assert {name: item.outcome.value for name, item in run.outcomes.items()} == {"a": "deleted", "b": "deleted"}


def test_an_interrupt_while_the_result_is_written_names_the_record(
    admin: FakeAdmin, to_apply: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a deletion, ``apply --yes | less`` waits for its reader. Ctrl-C then: what happened must be findable."""

    def interrupted(self: Output, *args: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Output, "_json", interrupted)
    code = main(to_apply)
    said = capsys.readouterr().err
    assert sorted(admin.deleted) == ["a", "b"]
    assert code == 130
    assert "what happened is in" in said, said


def nobody_reads() -> TextIOWrapper:
    read, write = os.pipe()
    os.close(read)
    return TextIOWrapper(FileIO(write, "w"), write_through=True)


def test_an_interrupt_whose_message_nobody_reads_completes_the_record(
    admin: FakeAdmin, backed_up: dict[str, Any], to_apply: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    admin: FakeAdmin, backed_up: dict[str, Any], to_apply: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
