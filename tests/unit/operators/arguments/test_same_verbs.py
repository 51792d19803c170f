"""A verb is the same as an operator, as a command and as a request: names, defaults, and what it leaves alone."""

import argparse
import dataclasses
import inspect
import re
from typing import Any

import pytest

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest
from airflow_kafka_groups.change.migrate import MigrateRequest
from airflow_kafka_groups.change.remove_members import RemoveMembersRequest
from airflow_kafka_groups.change.restore.forget import DeleteOffsetsRequest
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.change.restore.reset import CopyRequest, ResetRequest, SetRequest
from airflow_kafka_groups.cli.registry import COMMANDS, OTHER_NAMES
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.dag_params import dag_params
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import RemoveMembersOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    CopyGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    KeepOffsetsAliveOperator,
    MigrateGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.pruning import PruneTopicOffsetsOperator
from airflow_kafka_groups.operators.support.base import DryRunOperator, StoredOperator
from airflow_kafka_groups.operators.support.dag_form import CLEANUP_FORM, OTHER_FORMS
from tests.reference.tasks import arguments, classes, own_bases

VERBS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "backup": (BackupGroupOffsetsOperator, ()),
    "copy": (CopyGroupOffsetsOperator, (CopyRequest,)),
    "delete": (DeleteGroupsOperator, ()),
    "delete-offsets": (DeleteGroupOffsetsOperator, (DeleteOffsetsRequest,)),
    "apply": (DeleteGroupsOperator, ()),
    "keep-alive": (KeepOffsetsAliveOperator, (KeepAliveRequest,)),
    "migrate": (MigrateGroupOffsetsOperator, (MigrateRequest,)),
    "plan": (PlanCleanupOperator, ()),
    "prune-topics": (PruneTopicOffsetsOperator, ()),
    "remove-members": (RemoveMembersOperator, (RemoveMembersRequest,)),
    "reset": (ResetGroupOffsetsOperator, (ResetRequest,)),
    "restore": (RestoreGroupOffsetsOperator, (RestoreRequest,)),
    "set": (AlterGroupOffsetsOperator, (SetRequest,)),
}
OWN_WORDS = {
    ("apply", "plan_digest"): "the plan's own counts where none is given",
    ("apply", "approval_rule"): "only an approval that was given in Airflow counts",
    ("apply", "groups_per_second"): "the default is the site's",
    ("copy", "groups"): "they are two arguments",
    ("plan", "max_gap_seconds"): "the default is that of the shipped DAGs",
    ("plan", "snapshot_id"): "the default is the newest that is judged",
    ("prune-topics", "max_gap_seconds"): "of both commands",
    ("prune-topics", "plan_digest"): "the command plans, too",
    ("set", "offsets"): "they are written as TOPIC:PARTITION=OFFSET",
}
"""Options whose help is not what the operator's docstring says, and why."""
ONLY_OPERATORS = {
    "lease": "no_lease",  # a command without the lease is a risk that is said out loud
    "fail_if_kept": "a command has an exit code for it",
    "protected": "a command goes by the connection's",
    "on_spark": "a command compares in its own process",
    "spark": "as on_spark",
}
OTHERS = {
    "apply": {"group_ids", "ignore_missing", "observe_seconds", "allow_hidden_topics", "ignore_signs_of_life", "types"},
    "delete": {"plan_id", "plan_digest", "groups_per_second", "bytes_per_second", "approval_rule", "approve_above"},
    "prune-topics": {"approval_rule", "approve_above"},
}
"""Arguments of an operator that are another command's."""
IN_REQUEST = {"source_conn_id": "source", "timestamp": "timestamp_ms", "ago": "ago_seconds", "spark": "on_spark"}


def actions_of(command: str) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    for flags, settings in COMMANDS[command].arguments():
        parser.add_argument(*flags, **settings)
    found = {action.dest: action for action in parser._actions}
    names = {**OTHER_NAMES, **({"groups": "target"} if command == "copy" else {})}
    return found | {name: found[typed] for name, typed in names.items() if typed in found}


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
    action = actions[name]
    default = defaults_of(operator)[name]
    if default in (None, False, (), ("*",), inspect.Parameter.empty, 0):
        assert action.default in (None, False, "0", []), "left out means the same"
        return
    said = re.search(r"[dD]efault:? ([^ ;)]+)", action.help or "")
    shown = action.default if action.default is not None else said[1] if said else None
    read = vars(next(base for base in operator.__mro__ if name in vars(base)))[name]._read
    assert read(name, shown) == read(name, default), "the default that the help says"


@pytest.mark.parametrize(("command", "name"), CASES)
def test_the_help_of_an_option_says_what_the_docstring_says(command: str, name: str) -> None:
    actions = actions_of(command)
    if name not in actions or name in OTHERS.get(command, ()):
        return
    said = " ".join(arguments(VERBS[command][0])[name].replace("(not templated)", "").split())
    plain = [word for word in re.findall(r"[a-zA-Z]{4,}", re.sub(r"`.*?`|^with .*?: ", "", said))]
    help_words = re.findall(r"[a-zA-Z]{4,}", actions[name].help or "")
    in_order = iter(help_words)
    assert all(word in in_order for word in plain) == ((command, name) not in OWN_WORDS), (plain, help_words)


@pytest.mark.parametrize("name", CLEANUP_FORM | OTHER_FORMS)
def test_a_field_of_the_form_says_what_the_docstring_says(name: str) -> None:
    where = (CLEANUP_FORM | OTHER_FORMS)[name]["described_by"]
    shown = dag_params(name)[name].description or ""
    assert shown.endswith("."), "it is a sentence"
    if where:
        operator, _, argument = where.partition(".")
        known = {base.__name__: base for each in classes("operators") for base in own_bases(each)}
        said = " ".join(arguments(known[operator])[argument or name].replace("(not templated)", "").split())
        first = re.findall(r"[a-zA-Z]{4,}", re.sub(r"`.*?`", "", re.split(r"[.;] [Dd]efault", said)[0]))
        in_order = iter(re.findall(r"[a-zA-Z]{4,}", shown))
        assert all(word.lower() in (each.lower() for each in in_order) for word in first), (first, shown)


@pytest.mark.parametrize("operator", classes("operators"))
def test_the_default_that_a_docstring_states_is_the_default(operator: Any) -> None:
    for name, default in defaults_of(operator).items():
        stated = r"[.;] [Dd]efault (`.+?`|[^`;: ]+?)(?=[.;:]?(?: |$))"
        said = re.search(stated, " ".join(arguments(operator).get(name, "").split()))
        if said is None or isinstance(default, tuple):
            continue
        text = re.sub(r"(?<=\d),", "", said[1].strip("`").strip('"'))
        shown: Any = {"true": True, "false": False}.get(text, text)
        readers = [vars(base)[name]._read for base in operator.__mro__ if name in vars(base)]
        read = readers[0] if readers else lambda _, value: value
        assert read(name, shown) == read(name, default), name


@pytest.mark.parametrize("command", [name for name, (_, requests) in VERBS.items() if requests])
def test_a_request_has_the_operators_arguments_and_defaults(command: str) -> None:
    operator, requests = VERBS[command]
    fields = {field.name: field for request in requests for field in dataclasses.fields(request)}
    for name, default in defaults_of(operator).items():
        if name in ("from_file", "on_spark"):  # made where paths are known
            continue
        field = fields[IN_REQUEST.get(name, name)]
        if default not in (None, inspect.Parameter.empty, ()):
            assert field.default == default, name


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_changes_groups_is_a_dry_run_without_yes(command: str) -> None:
    changes = command in VERBS.keys() - {"backup", "plan"}
    assert ("yes" in actions_of(command)) == changes
