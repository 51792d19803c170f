"""The commands below Airflow's own command line, whose parser is Airflow's."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from airflow_kafka_groups.cli.airflow_cli import get_cli_commands
from airflow_kafka_groups.cli.main import parse
from airflow_kafka_groups.cli.registry import ExitCode

RESTORE = ["--conn-id", "c", "20260101T000000Z-0a1b2c3d", "--"]


@pytest.mark.safety
def test_a_group_that_airflow_s_parser_drops_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restore of the one group that is called -- would be one of every group in the backup."""
    ran = list[Any]()

    def run(name: str, args: Any) -> int:
        ran.append(args)
        return 0

    monkeypatch.setattr("airflow_kafka_groups.cli.airflow_cli.run_command", run)
    command: Any = next(each for each in get_cli_commands()[0].subcommands if each.name == "restore")
    parser = argparse.ArgumentParser()
    for argument in command.args:
        argument.add_to_parser(parser)
    cases = ([*RESTORE, "-x"], ExitCode.DONE), ([*RESTORE, "--"], ExitCode.BAD_USAGE), (RESTORE, ExitCode.BAD_USAGE)
    for words, code in cases:
        monkeypatch.setattr("sys.argv", ["airflow", "kafka-groups", "restore", *words])
        with pytest.raises(SystemExit) as left:
            command.func(parser.parse_args(words))
        assert left.value.code == code
    assert [args.groups for args in ran] == [["-x"]]
    said = capsys.readouterr().err
    assert "use airflow-kafka-groups restore" in said
    assert "no group follows --" in said


@pytest.mark.safety
@pytest.mark.parametrize("words", [["restore", *RESTORE], ["backup", "--conn-id", "c", "--"]])
def test_an_empty_list_behind_the_options_is_not_all_groups(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A script whose list is empty restored every group of the backup, unless its options came behind the plan."""
    with pytest.raises(SystemExit) as left:
        parse(words)
    assert left.value.code == ExitCode.BAD_USAGE
    assert "no group follows --" in capsys.readouterr().err
    assert parse([*words, "a"]).groups == ["a"]
    assert parse(words[:-1]).groups == []
