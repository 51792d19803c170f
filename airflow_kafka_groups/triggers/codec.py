"""Conditions as plain JSON, to pass them from the worker to the triggerer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.triggers import conditions, group_conditions
from airflow_kafka_groups.triggers.conditions import Condition

CONDITIONS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        conditions.CoordinatorsAvailable,
        conditions.GroupsGone,
        conditions.OffsetsReached,
        conditions.LagAtMost,
        group_conditions.GroupsExist,
        group_conditions.GroupsEmpty,
        group_conditions.EndReached,
        group_conditions.NoProgress,
    )
}
_NOT_CARRIED = frozenset({"clock"})


def condition_to_json(condition: Condition) -> dict[str, Any]:
    """Return a condition as ``{"kind": …, …}``: its constructor's arguments as JSON values."""
    data: dict[str, Any] = {"kind": type(condition).__name__}
    for item in fields(CONDITIONS[data["kind"]]):
        if item.init and item.name not in _NOT_CARRIED:
            value = getattr(condition, item.name)
            data[item.name] = _targets_to_json(value) if item.name == "targets" else value
            if isinstance(value, tuple):
                data[item.name] = list(value)
    return data


def condition_from_json(data: Mapping[str, Any]) -> Condition:
    """Build a condition from the result of ``condition_to_json()``.

    Raises ``ConfigurationError`` for anything that this version did not write.
    """
    try:
        arguments = dict(data)
        kind = CONDITIONS[arguments.pop("kind")]
        if "targets" in arguments:
            arguments["targets"] = _targets_from_json(arguments["targets"])
        if "group_ids" in arguments:
            arguments["group_ids"] = tuple(arguments["group_ids"])
        condition: Condition = kind(**arguments)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise ConfigurationError(
            "condition",
            None,
            f"cannot be read ({type(exc).__name__}: {exc}). Was the task deferred by another version of the package?",
        ) from exc
    return condition


def _targets_to_json(targets: conditions.Targets) -> dict[str, dict[str, dict[str, int]]]:
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for group_id, partitions in targets.items():
        topics = nested.setdefault(group_id, {})
        for where, offset in partitions.items():
            topics.setdefault(where.topic, {})[str(where.partition)] = offset
    return nested


def _targets_from_json(nested: Mapping[str, Any]) -> dict[str, dict[TopicPartition, int]]:
    return {
        group_id: {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        }
        for group_id, topics in nested.items()
    }
