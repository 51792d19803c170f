"""Bad input to the lab's command line: one plain sentence, exit code 2."""

from __future__ import annotations

import pytest

from tests.lab.__main__ import main, parse_config
from tests.unit.lab.conftest import Install


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["up", "--version", "four"], "'four' is not a Kafka version"),
        (["up", "--brokers", "0"], "A cluster needs at least one broker, not 0."),
        (["up", "--delay-ms", "-1"], "A delay cannot be negative"),
        (["up", "--config", "nonsense"], "--config 'nonsense' is not of the form KEY=VALUE."),
        (["up"], "No `java` on the PATH"),
        (["fetch"], "No `java` on the PATH"),
        (["fetch", "--version", "4.1"], "'4.1' is not a Kafka version"),
    ],
)
def test_what_cannot_be_done_is_said_and_not_thrown(
    arguments: list[str], sentence: str, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said


def test_broker_properties_may_hold_equals_signs() -> None:
    assert parse_config(["a=b=c", " d = e "]) == {"a": "b=c", "d": "e"}
