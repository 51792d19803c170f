"""Rules that every operator and sensor keeps."""

import importlib
import inspect
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.operators.support.base import KafkaGroupsOperator
from airflow_kafka_groups.provider_info import get_provider_info
from airflow_kafka_groups.sensors.base import KafkaGroupsSensor
from tests.reference.markdown import parameters
from tests.reference.tasks import arguments, own_bases

ARGUMENTS: dict[str, dict[str, Any]] = {
    "AlterGroupOffsetsOperator": {"storage_path": "/x", "offsets": {"a": {"t": {0: 1}}}},
    "ApproveCleanupOperator": {"storage_path": "/x", "plan_id": "p", "plan_digest": "d"},
    "ApprovePruningOperator": {"storage_path": "/x", "plan_id": "p", "plan_digest": "d"},
    "BackupGroupOffsetsOperator": {"storage_path": "/x", "plan_id": "p", "plan_digest": "d"},
    "CheckPolicyOperator": {"policy_file": "/x/policy.yaml"},
    "ChunkGroupsOperator": {},
    "CopyGroupOffsetsOperator": {"storage_path": "/x", "groups": {"a": "b"}},
    "CleanupReportOperator": {"storage_path": "/x", "plan_id": "p"},
    "CommitGroupBacklogOperator": {"storage_path": "/x", "backlog_id": "b", "result_path": "/x/r.json"},
    "CommitUnreadRangeOperator": {"storage_path": "/x", "range_path": "/x/r.json"},
    "DeleteGroupOffsetsOperator": {"storage_path": "/x", "group_ids": ["a"], "topics": ["t"]},
    "DeleteGroupsOperator": {"storage_path": "/x", "group_ids": ["a"]},
    "DeleteGroupsSensor": {"group_ids": ["a"]},
    "DescribeGroupsOperator": {"group_ids": ["a"]},
    "ExportGroupMetricsOperator": {"storage_path": "/x", "openmetrics_path": "/x.prom"},
    "FindCoordinatorsOperator": {},
    "FindCoordinatorsSensor": {"group_ids": ["a"]},
    "FixUnreadRangeOperator": {"storage_path": "/x", "group_id": "a"},
    "FleetReportOperator": {"storage_path": "/x", "clusters": []},
    "GroupOffsetsToSparkOperator": {"storage_path": "/x", "group_id": "a"},
    "GroupsEmptySensor": {"group_ids": ["a"]},
    "GroupsExistSensor": {"group_ids": ["a"]},
    "GroupsStalledSensor": {"group_ids": ["a"], "seconds": 60},
    "KafkaSparkSubmitOperator": {"application": "process_group_backlog"},
    "KeepOffsetsAliveOperator": {"storage_path": "/x", "group_ids": ["a"]},
    "ListClustersOperator": {"policy_file": "/x/policy.yaml"},
    "ListGroupLagOperator": {},
    "ListGroupOffsetsOperator": {"storage_path": "/x"},
    "ListGroupOffsetsSensor": {"group_ids": ["a"], "max_total_lag": 1},
    "ListGroupsOperator": {},
    "MigrateGroupOffsetsOperator": {"storage_path": "/x", "source_conn_id": "s", "method": "header"},
    "NotifyOwnersOperator": {"storage_path": "/x", "plan_id": "p", "plan_digest": "d"},
    "PlanCleanupOperator": {"storage_path": "/x"},
    "PlanTopicPruningOperator": {"storage_path": "/x"},
    "PruneFilesOperator": {"storage_path": "/x"},
    "PruneTopicOffsetsOperator": {"storage_path": "/x", "plan_id": "p", "plan_digest": "d"},
    "RemoveMembersOperator": {"storage_path": "/x", "group_id": "a", "all_members": True},
    "ResetGroupOffsetsOperator": {"storage_path": "/x", "group_ids": ["a"], "to": "latest"},
    "RestoreDrillOperator": {"storage_path": "/x", "plan_id": "p"},
    "RestoreGroupOffsetsOperator": {"storage_path": "/x", "plan_id": "p"},
}

WITHOUT_KAFKA = {"CheckPolicyOperator", "FleetReportOperator", "ListClustersOperator"}
"""Operators that read and write files only, and have no connection."""


def found() -> list[type[BaseOperator]]:
    classes = []
    info = get_provider_info()
    for kind in ("operators", "sensors"):
        for module_name in info[kind][0]["python-modules"]:
            module = importlib.import_module(module_name)
            classes += [
                value
                for value in vars(module).values()
                if inspect.isclass(value)
                and issubclass(value, BaseOperator)
                and value.__module__ == module_name
                and not value.__name__.startswith("_")
            ]
    return classes


def own_arguments(operator: type[BaseOperator]) -> set[str]:
    """Return the arguments of the class and of our bases, without Airflow's own."""
    names: set[str] = set()
    for base in own_bases(operator):
        if "__init__" in vars(base):
            parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
            assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters), "keyword-only"
            names |= {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    return names


def test_the_list_is_complete() -> None:
    assert sorted(ARGUMENTS) == sorted(operator.__name__ for operator in found())


@pytest.mark.parametrize("operator", found(), ids=lambda operator: operator.__name__)
def test_template_fields_are_attributes_and_arguments(operator: type[BaseOperator]) -> None:
    made = operator(task_id="t", **ARGUMENTS[operator.__name__])
    for name in made.template_fields:
        assert hasattr(made, name)
        assert name in own_arguments(operator)
    assert issubclass(operator, KafkaGroupsOperator | KafkaGroupsSensor) != (operator.__name__ in WITHOUT_KAFKA)
    assert ("kafka_groups_conn_id" in made.template_fields) != (operator.__name__ in WITHOUT_KAFKA)


@pytest.mark.parametrize("operator", found(), ids=lambda operator: operator.__name__)
def test_every_argument_is_documented_and_says_whether_it_is_templated(operator: type[BaseOperator]) -> None:
    documented = arguments(operator)
    assert documented.keys() == own_arguments(operator)
    templated = {name for name, text in documented.items() if "not templated" not in text}
    assert templated == set(operator.template_fields)


@pytest.mark.parametrize("operator", found(), ids=lambda operator: operator.__name__)
def test_no_class_repeats_what_its_bases_say_about_an_argument(operator: type[BaseOperator]) -> None:
    own, *bases = [parameters(each) for each in own_bases(operator)]
    assert not [name for name, said in own.items() if any(base.get(name) == said for base in bases)]


@pytest.mark.parametrize("operator", found(), ids=lambda operator: operator.__name__)
def test_a_misspelt_argument_is_refused(operator: type[BaseOperator]) -> None:
    with pytest.raises(TypeError, match="grup"):
        operator(task_id="t", grup=1, **ARGUMENTS[operator.__name__])


@pytest.mark.parametrize("operator", found(), ids=lambda operator: operator.__name__)
def test_what_no_argument_can_be_is_refused_by_its_name_when_the_dag_is_parsed(operator: type[BaseOperator]) -> None:
    declared = [name for name in own_arguments(operator) if isinstance(getattr(operator, name, None), Argument)]
    assert len(declared) >= 1
    for name in declared:
        made = operator(task_id="t", **ARGUMENTS[operator.__name__])
        for wrong in (object(), 5j, b"a"):
            with pytest.raises(ConfigurationError, match=name):
                setattr(made, name, wrong)
