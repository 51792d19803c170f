"""What a shell offers when somebody presses the tab key."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("airflow-kafka-groups rese", {"reset"}), ("airflow-kafka-groups reset --to ", {"earliest", "latest"})],
)
def test_a_shell_is_told_what_may_be_typed(typed: str, offered: set[str], tmp_path: Path) -> None:
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": typed, "COMP_POINT": str(len(typed))}
    environment = os.environ | asked | {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "offered")}
    subprocess.run([sys.executable, "-m", "airflow_kafka_groups"], env=environment, check=True)
    assert {word.strip() for word in (tmp_path / "offered").read_text().split("\n")} == offered
