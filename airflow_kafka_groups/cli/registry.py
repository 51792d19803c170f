"""The commands by name. A module is imported when its command is used, so that the command line starts quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import argparse

    from airflow_kafka_groups.cli.output import Output


class ExitCode(IntEnum):
    """The exit codes of all commands, documented in docs/howto/command-line.md."""

    DONE = 0
    FAILED = 1
    BAD_USAGE = 2
    INCOMPLETE = 3
    INTERRUPTED = 130


class ArgumentTarget(Protocol):
    """What arguments are added to: a parser of ``argparse``, or the list for Airflow's command line."""

    def add_argument(self, *flags: str, **settings: Any) -> Any:
        """Add an argument."""


class CommandModule(Protocol):
    """The functions of a command's module."""

    def add_arguments(self, parser: ArgumentTarget) -> None:
        """Add the command's arguments."""

    def run(self, args: argparse.Namespace, out: Output) -> ExitCode:
        """Run the command."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    :param module: its module within ``commands``.
    :param help: one line for the overview.
    """

    module: str
    help: str

    def load(self) -> CommandModule:
        """Import the command's module."""
        return cast("CommandModule", import_module(f"airflow_kafka_groups.cli.commands.{self.module}"))


GROUPS: Mapping[str, Mapping[str, Command]] = {
    "Look": {
        "list": Command("look.list_groups", "List the groups of the cluster"),
        "describe": Command("look.describe", "Describe groups with their members"),
        "offsets": Command("look.offsets", "Show the committed offsets of groups"),
        "lag": Command("look.lag", "Measure how far groups are behind"),
        "readiness": Command("look.readiness", "Show which groups can move to the protocol of KIP-848"),
        "metrics": Command("metrics", "Write the metrics of groups for a scraper (OpenMetrics)"),
    },
    "Judge": {
        "snapshot": Command("snapshot", "Take a snapshot of groups with their offsets"),
        "judge": Command("judge", "Judge which groups are stale, from the snapshots in the storage"),
        "plan": Command("plan", "Plan a clean-up from the verdicts in the storage"),
        "explain": Command("look.explain", "Explain why a group would be deleted or kept"),
        "policy": Command("policy", "Check a policy file, without a cluster; print its schema"),
    },
    "Change, without --yes a dry run": {
        "apply": Command("apply", "Delete the groups of a plan"),
        "delete": Command("change.delete", "Delete named groups"),
        "prune-topics": Command("prune_topics", "Prune topics that live groups stopped reading"),
        "keep-alive": Command("keep_alive", "Keep sleeping groups from being forgotten"),
        "reset": Command("change.reset", "Reset offsets to an end of the log, a time, by a distance, or from a file"),
        "set": Command("change.set_offsets", "Set offsets of a group"),
        "copy": Command("change.copy", "Copy a group's offsets to another group"),
        "delete-offsets": Command("change.delete_offsets", "Delete groups' offsets of a topic"),
        "remove-members": Command("change.remove_members", "Remove static members that are gone, and zombies"),
    },
    "Undo": {
        "backup": Command("backup", "Back up the committed offsets of groups"),
        "restore": Command("change.restore", "Restore offsets of a backup, without --yes a dry run"),
    },
    "Help": {
        "doctor": Command("look.doctor", "Examine a connection, its storage and this machine"),
        "copy-dags": Command("copy_dags", "Copy the package's DAG files to a folder"),
    },
}
"""The commands in the order of the overview."""
COMMANDS: Mapping[str, Command] = {name: command for group in GROUPS.values() for name, command in group.items()}
