"""The same commands below Airflow's own command line: ``airflow kafka-groups …``, since Airflow 3.2."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli.main import run_command, why_no_groups
from airflow_kafka_groups.cli.output import say
from airflow_kafka_groups.cli.registry import COMMANDS, Command, ExitCode

if TYPE_CHECKING:
    import argparse

    from airflow.cli.cli_config import GroupCommand


def get_cli_commands() -> list[GroupCommand]:
    """Return the group of commands for Airflow's parser."""
    from airflow.cli.cli_config import ActionCommand, GroupCommand

    commands = [
        ActionCommand(name=name, help=command.help, func=partial(_run, name), args=_arguments(command))
        for name, command in COMMANDS.items()
    ]
    return [GroupCommand(name="kafka-groups", help="Work with Kafka consumer groups in bulk", subcommands=commands)]


def _arguments(command: Command) -> list[Any]:
    from airflow.cli.cli_config import Arg

    return [Arg(flags=flags, **settings) for flags, settings in command.arguments()]  # type: ignore[no-untyped-call]  # Airflow's own


def _run(name: str, args: argparse.Namespace) -> None:
    if why := why_no_groups(sys.argv, getattr(args, "group_ids", None)):
        say(f"error: {why}")
        sys.exit(ExitCode.BAD_USAGE)
    sys.exit(run_command(name, args))
