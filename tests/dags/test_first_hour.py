"""The pages for newcomers, as far as the connection: ``make first-hour`` runs them to their end.

The wheel is installed into an empty environment outside the repository, and the commands are run as they are printed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.first_hour.__main__ import build_wheel, environment, own_values, run_step, use_uv
from tests.first_hour.record import Ran
from tests.first_hour.shell import Shell
from tests.first_hour.steps import Step, read_steps, with_own_values
from tests.lab.cluster import KafkaCluster
from tests.pages import DOCS

CONNECTED = "3. Connect"


def steps() -> list[Step]:
    """Return the steps of Get started as far as the connection, less Airflow itself; then the look from the shell."""
    started = read_steps((DOCS / "start" / "get-started.md").read_text())
    titles = list(dict.fromkeys(step.title for step in started))
    first = titles[: titles.index(CONNECTED) + 1]
    look = read_steps((DOCS / "start" / "shell.md").read_text())
    return [
        *(step for step in started if step.title in first and not step.in_background),
        *(step for step in look if step.name == "look"),
    ]


@pytest.fixture(scope="module")
def ran(kafka41: KafkaCluster) -> Iterator[list[Ran]]:
    """Run the commands; return what they printed. One that fails is an error, with its output."""
    build_wheel()
    commands: list[Ran] = []
    with tempfile.TemporaryDirectory(prefix="kafka-groups-first-hour-", dir="/var/tmp") as folder:
        home = Path(folder)
        with Shell(home, environment(home)) as shell:
            use_uv(shell)
            for step in steps():
                run_step(shell, with_own_values(step, own_values(home, kafka41.bootstrap)), commands, home)
        yield commands


@pytest.mark.timeout(900)
def test_the_commands_lead_to_a_connection_that_is_tested_and_examined(ran: list[Ran]) -> None:
    printed = {command.command: command.printed for command in ran}
    (copied,) = (text for command, text in printed.items() if "copy-dags" in command)
    assert "cleanup_stale_groups" in copied
    assert "Connection success!" in printed["airflow connections test prod"]
    examined = printed["airflow-kafka-groups doctor --conn-id prod"]
    found = {line[:18].strip(): line.split()[-1] for line in examined.splitlines()}
    assert "3 brokers, with the APIs of Kafka 4.1." in examined
    assert "Traceback" not in examined
    assert "warning  ]" not in examined, "Airflow logs nothing between a newcomer and the findings"
    assert {"brokers", "storage", "Airflow", "Java", "pyspark"} <= found.keys()


def test_a_shell_alone_lists_groups_and_their_lag(ran: list[Ran]) -> None:
    listed, lag, offsets = (command for command in ran if command.title == "Look at groups")
    assert listed.printed.splitlines()[0].split()[:2] == ["GROUP_ID", "STATE"]
    assert isinstance(json.loads(lag.printed), list)
    assert offsets.exit_code == 0
