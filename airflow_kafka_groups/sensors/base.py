"""What all sensors share: one connection and one batched poll, however many groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConnectionFailedError,
    DeadlineExceededError,
    RequestTimeoutError,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
    from airflow_kafka_groups.triggers.conditions import Condition


class KafkaGroupsSensor(BaseSensorOperator):
    """Poll a condition until it is reached.

    A subclass says what to wait for in ``condition()``. A broker that cannot be reached just now counts as "not yet";
    a wrong password or argument fails the task at once.

    :param kafka_groups_conn_id: the connection, default ``kafka_groups_default`` (templated).
    """

    template_fields: Sequence[str] = ("kafka_groups_conn_id",)
    ui_color = "#e2d4f0"

    def __init__(self, *, kafka_groups_conn_id: str = "kafka_groups_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_groups_conn_id = kafka_groups_conn_id

    @cached_property
    def hook(self) -> KafkaGroupsHook:
        """Give the hook of the connection; first used after the connection's id is rendered."""
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        return KafkaGroupsHook(self.kafka_groups_conn_id)

    def condition(self) -> Condition:
        """Say what to wait for; called after templates are rendered. Raises ``ConfigurationError`` for bad input."""
        raise NotImplementedError

    def poke(self, context: Context) -> bool:
        """Ask once."""
        condition = self.condition()
        try:
            result = self.hook.run(condition.check)
        except AuthenticationFailedError:
            raise
        except (ConnectionFailedError, RequestTimeoutError, DeadlineExceededError) as exc:
            self.log.warning("Not reached, the cluster cannot be asked: %s", exc)
            return False
        self.log.info("%s: %s", "Reached" if result.reached else "Not reached", result)
        return result.reached
