"""What people read on stderr: lines of this program only."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.cli.output import say
from airflow_kafka_groups.exceptions import BrokerError


@pytest.mark.safety
def test_a_brokers_message_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    error = BrokerError(41, "NOT_CONTROLLER", "no\x1b]0;owned\x07\x1b[2J\x9b1m", api="Metadata")
    say(f"error: {error}\nanother line, as policies' errors have")
    assert capsys.readouterr().err == (
        "error: Metadata: NOT_CONTROLLER (41): no\\x1b]0;owned\\x07\\x1b[2J\\x9b1m\n"
        "another line, as policies' errors have\n"
    )
