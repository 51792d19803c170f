"""What all sensors share: one connection and one batched poll, however many groups."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, conf
from airflow.sdk.exceptions import AirflowSensorTimeout

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    RequestTimeoutError,
)
from airflow_kafka_groups.hooks.argument_validation import check_argument, check_rendered
from airflow_kafka_groups.hooks.retries import set_retry_policy

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
    from airflow_kafka_groups.triggers.conditions import Condition

_GRACE = timedelta(minutes=5)


class KafkaGroupsSensor(BaseSensorOperator):
    """Poll a condition until it is reached.

    A subclass says what to wait for in ``condition()``. A broker that cannot be reached just now counts as "not yet";
    a wrong password or argument fails the task at once.

    :param kafka_groups_conn_id: the connection, default ``kafka_groups_default`` (templated).
    :param deferrable: wait in the triggerer and not in a worker; default: Airflow's ``[operators] default_deferrable``.
    """

    template_fields: Sequence[str] = ("kafka_groups_conn_id",)
    ui_color = "#e2d4f0"

    def __init__(
        self,
        *,
        kafka_groups_conn_id: str = "kafka_groups_default",
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        if not isinstance(deferrable, bool):
            raise ConfigurationError("deferrable", deferrable, "must be True or False")
        self.kafka_groups_conn_id = kafka_groups_conn_id
        self.deferrable = deferrable
        set_retry_policy(self)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an argument, checked: in a DAG file and again once it is rendered (see ``hooks.literals``)."""
        check_rendered(name, vars(self).get(name), value)
        check_argument(name, value)
        super().__setattr__(name, value)

    def require_one_process(self) -> None:
        """Refuse the mode in which every poll is a new process: the condition remembers what it saw."""
        if self.mode == "reschedule" and not self.deferrable:
            raise ConfigurationError(
                "mode", self.mode, "every poll would forget the one before: use deferrable=True, or mode='poke'"
            )

    @cached_property
    def hook(self) -> KafkaGroupsHook:
        """Give the hook of the connection; first used after the connection's id is rendered."""
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        return KafkaGroupsHook(self.kafka_groups_conn_id)

    def condition(self) -> Condition:
        """Say what to wait for; called after templates are rendered. Raises ``ConfigurationError`` for bad input."""
        raise NotImplementedError

    @cached_property
    def asked(self) -> Condition:
        """Give the condition, made once: some remember what they saw."""
        return self.condition()

    def poke(self, context: Context) -> bool:
        """Ask once."""
        try:
            result = self.hook.run(self.asked.check)
        except AuthenticationFailedError:
            raise
        except (ConnectionFailedError, RequestTimeoutError, DeadlineExceededError) as exc:
            self.log.warning("Not reached, the cluster cannot be asked: %s", exc)
            return False
        self.log.info("%s: %s", "Reached" if result.reached else "Not reached", result)
        return result.reached

    def execute(self, context: Context) -> Any:
        """Ask until it is reached; deferrable, ask once and leave the rest to the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        if self.poke(context):
            return None
        from airflow_kafka_groups.triggers.codec import condition_to_json
        from airflow_kafka_groups.triggers.poll import ConditionTrigger

        trigger = ConditionTrigger(
            kafka_groups_conn_id=self.kafka_groups_conn_id,
            condition=condition_to_json(self.asked),
            poll_interval=self.poke_interval,
            deadline=time.time() + self.timeout,
            backoff=self.exponential_backoff,
        )
        # The trigger keeps the time and says what it waited for; Airflow's own limit is for one that hangs.
        limit = timedelta(seconds=self.timeout) + _GRACE
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=limit)

    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> None:
        """End as the trigger did. Anything but a clear "reached" is a failure; out of time is Airflow's time-out."""
        from airflow_kafka_groups.triggers.poll import EVENT_VERSION, EventStatus

        data = event if isinstance(event, Mapping) else {}
        status, message = data.get("status"), data.get("message")
        if data.get("version") != EVENT_VERSION or status not in set(EventStatus):
            raise KafkaGroupsError(f"the trigger ended with an event that is not understood: {event!r}")
        if status == EventStatus.TIMEOUT:
            raise AirflowSensorTimeout(f"Not reached within {self.timeout:g} s: {message}")
        if status == EventStatus.FAILED:
            raise KafkaGroupsError(f"the waiting failed: {message}")
        self.log.info("Reached: %s", message)
