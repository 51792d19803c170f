"""A verb is the same as an operator, as a command and as a request: names, defaults, and what it leaves alone."""

import argparse
import dataclasses
import inspect
import re
from typing import Any

import pytest

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest
from airflow_kafka_groups.change.remove_members import RemoveMembersRequest
from airflow_kafka_groups.change.restore.offset_requests import (
    CopyRequest,
    DeleteOffsetsRequest,
    ResetRequest,
    RestoreRequest,
    SetRequest,
)
from airflow_kafka_groups.change.restore.reset import ResetTarget
from airflow_kafka_groups.cli.registry import COMMANDS
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import RemoveMembersOperator
from airflow_kafka_groups.operators.keep_alive import KeepOffsetsAliveOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    CopyGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.prune_topics import PruneTopicOffsetsOperator
from airflow_kafka_groups.operators.support.base import DryRunOperator, StoredOperator
from tests.reference.tasks import own_bases

VERBS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "backup": (BackupGroupOffsetsOperator, ()),
    "copy": (CopyGroupOffsetsOperator, (CopyRequest,)),
    "delete": (DeleteGroupsOperator, ()),
    "delete-offsets": (DeleteGroupOffsetsOperator, (DeleteOffsetsRequest,)),
    "apply": (DeleteGroupsOperator, ()),
    "keep-alive": (KeepOffsetsAliveOperator, (KeepAliveRequest,)),
    "plan": (PlanCleanupOperator, ()),
    "prune-topics": (PruneTopicOffsetsOperator, ()),
    "remove-members": (RemoveMembersOperator, (RemoveMembersRequest,)),
    "reset": (ResetGroupOffsetsOperator, (ResetRequest, ResetTarget)),
    "restore": (RestoreGroupOffsetsOperator, (RestoreRequest,)),
    "set": (AlterGroupOffsetsOperator, (SetRequest,)),
}
ALIASES = {
    "group_ids": "groups",
    "group_id": "group",
    "groups": "target",
    "plan_digest": "digest",
    "assignors": "assignor",
}
"""Arguments whose option has another name: those of a command are shown in messages."""
ONLY_OPERATORS = {
    "lease": "no_lease",  # a command without the lease is a risk that is said out loud
    "if_lease_held": "a command fails where another run holds it",
    "wait_for_quiet_end": "a command does not wait for hours",
    "fail_if_kept": "a command has an exit code for it",
    "protected": "a command goes by the connection's",
}
OTHERS = {
    "apply": {"group_ids", "ignore_missing", "observe_seconds", "allow_hidden_topics", "ignore_signs_of_life"},
    "delete": {"plan_id", "plan_digest", "groups_per_second", "bytes_per_second", "approval_rule", "approve_above"},
    "prune-topics": {"approval_rule", "approve_above"},
}
"""Arguments of an operator that are another command's."""
IN_REQUEST = {"timestamp": "timestamp_ms", "ago": "ago_seconds"}


def actions_of(command: str) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    COMMANDS[command].load().add_arguments(parser)
    return {action.dest: action for action in parser._actions}


def defaults_of(operator: Any) -> dict[str, Any]:
    """Return the defaults of an operator's own arguments, without those of all that store files."""
    shared = set(inspect.signature(StoredOperator.__init__).parameters) | {"dry_run", "kafka_groups_conn_id", "self"}
    found: dict[str, Any] = {}
    for base in reversed(own_bases(operator)):
        if base not in (StoredOperator, DryRunOperator) and "__init__" in vars(base):
            parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            found |= {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    return {name: value for name, value in found.items() if name not in shared}


CASES = [(command, name) for command, (operator, _) in VERBS.items() for name in defaults_of(operator)]


@pytest.mark.parametrize(("command", "name"), CASES)
def test_an_operators_argument_is_an_option_with_the_same_default(command: str, name: str) -> None:
    operator, actions = VERBS[command][0], actions_of(command)
    if name in ONLY_OPERATORS or name in OTHERS.get(command, ()):
        return
    action = actions.get(name) or actions[ALIASES[name]]
    default = defaults_of(operator)[name]
    if default in (None, False, (), ("*",), inspect.Parameter.empty, 0):
        assert action.default in (None, False, "0", []), "left out means the same"
        return
    said = re.search(r"\(default: ([^)]+)\)", action.help or "")
    shown = action.default if action.default is not None else said[1] if said else None
    read = vars(next(base for base in operator.__mro__ if name in vars(base)))[name]._read
    assert read(name, shown) == read(name, default), "the default that the help says"


@pytest.mark.parametrize("command", [name for name, (_, requests) in VERBS.items() if requests])
def test_a_request_has_the_operators_arguments_and_defaults(command: str) -> None:
    operator, requests = VERBS[command]
    fields = {field.name: field for request in requests for field in dataclasses.fields(request)}
    for name, default in defaults_of(operator).items():
        if name == "from_file":  # it is read where paths are known
            continue
        field = fields[IN_REQUEST.get(name, name)]
        if default not in (None, inspect.Parameter.empty, ()):
            assert field.default == default, name


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_changes_groups_is_a_dry_run_without_yes(command: str) -> None:
    changes = command in VERBS.keys() - {"backup", "plan"}
    assert ("yes" in actions_of(command)) == changes
