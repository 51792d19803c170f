"""The reference of the command line, from its parsers."""

import argparse

from airflow_kafka_groups.cli.registry import COMMANDS, PROGRAM
from tests.reference.markdown import Row, first_sentence, listing, page, shared_by, without

_SHARED = 3
"""An argument of so many commands is in one table for all of them."""


def command_line_page() -> str:
    rows_of = {name: _rows(name) for name in COMMANDS}
    shared = shared_by(rows_of, _SHARED)
    return page(
        "Command-line options",
        "Every command with its arguments. [The command line](../howto/command-line.md) shows how to use them, and "
        "lists the exit codes. `python -m airflow_kafka_groups` and `airflow kafka-groups` are the same as "
        f"`{PROGRAM}`, and `--help` says more of each.",
        "## Shared arguments",
        "Nearly every command has the first three, and `--output`; `--help` shows which others.",
        listing(shared),
        *(f"## `{name}`\n\n{COMMANDS[name].help}.\n\n{without(rows, shared)}" for name, rows in rows_of.items()),
    )


def _rows(name: str) -> list[Row]:
    parser = argparse.ArgumentParser(prog=f"{PROGRAM} {name}")
    for flags, settings in COMMANDS[name].arguments():
        parser.add_argument(*flags, **settings)
    return [_row(action) for action in parser._actions if not isinstance(action, argparse._HelpAction)]


def _row(action: argparse.Action) -> tuple[str, str]:
    if action.nargs == 0:
        value = ""
    elif action.choices:
        value = "|".join(map(str, action.choices))
    else:
        value = str(action.metavar or action.dest.upper())
    flags = [f"{flag} {value}".strip() for flag in action.option_strings] or [value]
    return ", ".join(f"`{flag}`" for flag in flags), first_sentence(action.help or "").removesuffix(".")
