"""The commands by name. A module is imported when its command is used, so that the command line starts quickly."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import argparse

    from airflow_kafka_groups.cli.output import Output


PROGRAM = "airflow-kafka-groups"
Argument = tuple[tuple[str, ...], dict[str, Any]]
Reader = Callable[[str, Any], Any]
OTHER_NAMES = {"kafka_groups_conn_id": "conn_id"}
"""Arguments of operators whose option has another name."""
_OF_ANOTHER = re.compile(r"^with \S+: ")
"""What an operator says first that has the arguments of two verbs."""


class ExitCode(IntEnum):
    """The exit codes of all commands, documented in docs/howto/command-line.md."""

    DONE = 0
    FAILED = 1
    BAD_USAGE = 2
    INCOMPLETE = 3
    INTERRUPTED = 130


class ArgumentTarget:
    """Collects the arguments of a command: what argparse takes, and the reader of what is typed."""

    def __init__(self) -> None:
        self.arguments: list[Argument] = []
        self._readers: dict[str, tuple[str, Reader]] = {}

    def add_argument(self, *flags: str, read: Reader | None = None, **settings: Any) -> None:
        """Add an argument. One that is not given is not read."""
        self.arguments.append((flags, settings))
        if read is not None:
            self._readers[dest_of(flags, settings)] = name_shown(flags, settings), read

    def read(self, args: argparse.Namespace) -> None:
        """Read what was typed, in place. Raises ``ConfigurationError`` that names the option."""
        for name, (shown, read) in self._readers.items():
            if (given := getattr(args, name)) is not None:
                setattr(args, name, read(shown, given))


class Verb(NamedTuple):
    """The functions of a command: one adds its arguments, and one runs it."""

    add_arguments: Callable[[ArgumentTarget], None]
    run: Callable[[argparse.Namespace, Output], ExitCode]


class Command(NamedTuple):
    """A command.

    :param verb: its module within ``commands``, a dot, and its function there.
    :param help: one line for the overview.
    :param operator: the operators of the same verb without that word, with spaces between. Default: none.
    """

    verb: str
    help: str
    operator: str = ""

    def load(self) -> Verb:
        """Import the command's module, and return its functions."""
        module, _, name = self.verb.partition(".")
        found = import_module(f"airflow_kafka_groups.cli.commands.{module}")
        return Verb(getattr(found, f"add_{name}"), getattr(found, name))

    def target(self) -> ArgumentTarget:
        """Return the command's arguments, except for those that every command has."""
        recorded = ArgumentTarget()
        self.load().add_arguments(recorded)
        return recorded

    def arguments(self) -> list[Argument]:
        """Return the flags and settings of each argument: without help of its own, it has the operator's words."""
        from airflow_kafka_groups.cli.output import FORMATS
        from airflow_kafka_groups.operators.support.dag_form import described

        recorded = self.target()
        recorded.add_argument(
            "--output", "-o", choices=FORMATS, default="table", help="format of stdout (default: table)"
        )
        shown = {dest_of(*each): name_shown(*each) for each in recorded.arguments}
        shown |= {name: shown[typed] for name, typed in OTHER_NAMES.items() if typed in shown}
        texts = dict[str, str]()
        for operator in self.operator.split():
            texts |= described(f"{operator}Operator", shown)
        texts |= {typed: texts[name] for name, typed in OTHER_NAMES.items() if name in texts}
        for flags, settings in recorded.arguments:
            if self.operator and "help" not in settings:
                repeat = " (repeat)" if settings.get("action") == "append" else ""
                settings["help"] = (_OF_ANOTHER.sub("", texts[dest_of(flags, settings)]) + repeat).replace("%", "%%")
        return recorded.arguments


def dest_of(flags: tuple[str, ...], settings: Mapping[str, Any]) -> str:
    """Return the name of a parsed argument."""
    return str(settings.get("dest") or flags[0].lstrip("-").replace("-", "_"))


def name_shown(flags: tuple[str, ...], settings: Mapping[str, Any]) -> str:
    """Return what messages call an argument."""
    return flags[0] if flags[0].startswith("-") else str(settings.get("metavar", flags[0]))


GROUPS: Mapping[str, Mapping[str, Command]] = {
    "Look": {
        "list": Command("look.list_groups", "List the groups of the cluster", "ListGroups"),
        "describe": Command("look.describe", "Describe groups with their members", "DescribeGroups"),
        "offsets": Command("look.offsets", "Show the committed offsets of groups", "Selecting"),
        "lag": Command("look.lag", "Measure how far groups are behind", "ListGroupLag"),
        "metrics": Command(
            "files.metrics", "Write metrics of groups for a scraper (OpenMetrics)", "ExportGroupMetrics"
        ),
    },
    "Judge": {
        "snapshot": Command("plan.snapshot", "Take a snapshot of groups with their offsets", "ListGroupOffsets"),
        "judge": Command(
            "plan.judge", "Judge which groups are stale, from the snapshots in the storage", "PlanCleanup"
        ),
        "plan": Command("plan.plan", "Plan a clean-up from the verdicts in the storage", "PlanCleanup"),
        "explain": Command("look.explain", "Explain why a group would be deleted or kept"),
        "policy": Command("files.policy", "Check a policy file, without a cluster; print its schema"),
    },
    "Change, without --yes a dry run": {
        "apply": Command("remove.apply", "Delete the groups of a plan", "DeleteGroups"),
        "delete": Command("remove.delete", "Delete named groups", "DeleteGroups"),
        "prune-topics": Command(
            "remove.prune_topics", "Prune topics that live groups stopped reading", "PruneTopicOffsets PlanTopicPruning"
        ),
        "keep-alive": Command("change.keep_alive", "Keep sleeping groups from being forgotten", "KeepOffsetsAlive"),
        "reset": Command(
            "change.reset",
            "Reset offsets to an end of the log, a time, by a distance, or from a file",
            "ResetGroupOffsets",
        ),
        "set": Command("change.set_offsets", "Set offsets of a group", "AlterGroupOffsets"),
        "copy": Command("change.copy", "Copy a group's offsets to another group", "CopyGroupOffsets"),
        "migrate": Command("change.migrate", "Set groups to their positions in another cluster", "MigrateGroupOffsets"),
        "delete-offsets": Command("change.delete_offsets", "Delete groups' offsets of a topic", "DeleteGroupOffsets"),
        "remove-members": Command(
            "change.remove_members", "Remove static members that are gone, and zombies", "RemoveMembers"
        ),
    },
    "Undo": {
        "backup": Command("files.backup", "Back up the committed offsets of groups", "BackupGroupOffsets"),
        "export-backup": Command("files.export_backup", "Write a backup as CSV for Kafka's own tool, or as JSON lines"),
        "restore": Command(
            "change.restore", "Restore offsets of a backup, without --yes a dry run", "RestoreGroupOffsets"
        ),
    },
    "Help": {
        "doctor": Command("look.doctor", "Examine a connection, its storage and this machine"),
        "copy-dags": Command("files.copy_dags", "Copy the package's DAG files to a folder"),
    },
}
"""The commands in the order of the overview."""
COMMANDS: Mapping[str, Command] = {name: command for group in GROUPS.values() for name, command in group.items()}
