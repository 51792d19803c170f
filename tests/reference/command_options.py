"""The reference of the command line, from its parsers."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.connection import PROGRAM
from airflow_kafka_groups.cli.options import add_output_argument
from airflow_kafka_groups.cli.registry import COMMANDS
from tests.reference.markdown import page, table


def command_line_page() -> str:
    """Return the page."""
    return page(
        "Command-line options",
        "Every command with its arguments. [The command line](../howto/command-line.md) shows how to use them, and "
        "lists the exit codes. `python -m airflow_kafka_groups` and `airflow kafka-groups` are the same as "
        f"`{PROGRAM}`.",
        *(_section(name) for name in COMMANDS),
    )


def _section(name: str) -> str:
    command = COMMANDS[name]
    parser = argparse.ArgumentParser(prog=f"{PROGRAM} {name}")
    command.load().add_arguments(parser)
    add_output_argument(parser)
    rows = [_row(action) for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    return "\n\n".join([f"## `{name}`", f"{command.help}.", table(("argument", "meaning"), rows)])


def _row(action: argparse.Action) -> tuple[str, str]:
    if action.nargs == 0:
        value = ""
    elif action.choices:
        value = "|".join(map(str, action.choices))
    else:
        value = str(action.metavar or action.dest.upper())
    flags = [f"{flag} {value}".strip() for flag in action.option_strings] or [value]
    return ", ".join(f"`{flag}`" for flag in flags), action.help or ""
