"""What a shell sees: completion, and a program that reads the first lines of a command only, as ``head`` does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    code = (
        "import sys; from airflow_kafka_groups.cli import main, registry\n"
        "class M:\n"
        " add_arguments = staticmethod(lambda parser: None)\n"
        " run = staticmethod(lambda args, out: out._stream.writelines('x' * 100_000 for _ in range(100)))\n"
        "registry.COMMANDS['test'] = registry.Command('test', 'Test')\n"
        "registry.Command.load = lambda self: M\n"
        "sys.exit(main.main(['test']))"
    )
    reader, writer = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (1, "")


def test_without_a_stderr_messages_do_not_go_to_stdout() -> None:
    """``airflow-kafka-groups list … 2>&-``: stdout has the data and nothing else."""
    words = '"$0" -m airflow_kafka_groups list --bootstrap-servers 127.0.0.1:9 -o json 2>&-'
    done = subprocess.run(["/bin/sh", "-c", words, sys.executable], stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("airflow-kafka-groups rese", {"reset"}), ("airflow-kafka-groups reset --to ", {"earliest", "latest"})],
)
def test_a_shell_is_told_what_may_be_typed(typed: str, offered: set[str], tmp_path: Path) -> None:
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": typed, "COMP_POINT": str(len(typed))}
    environment = os.environ | asked | {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "offered")}
    subprocess.run([sys.executable, "-m", "airflow_kafka_groups"], env=environment, check=True)
    assert {word.strip() for word in (tmp_path / "offered").read_text().split("\n")} == offered
