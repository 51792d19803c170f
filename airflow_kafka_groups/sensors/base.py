"""The base class of all sensors: one connection, and one batched poll for any number of groups."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, Context, conf
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

from airflow_kafka_groups.exceptions import ConfigurationError, FinalTriggerError, KafkaGroupsError
from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments
from airflow_kafka_groups.hooks.arguments import read_flag, read_text
from airflow_kafka_groups.hooks.retries import set_retry_policy, why_not_yet

if TYPE_CHECKING:
    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
    from airflow_kafka_groups.triggers.conditions import Condition

_GRACE = timedelta(minutes=5)


def _read_deferrable(field: str, value: Any) -> bool:
    default = value is None and conf.getboolean("operators", "default_deferrable", fallback=False)
    return default or (value is not None and read_flag(field, value))


class KafkaGroupsSensor(DeclaredArguments, BaseSensorOperator):
    """A sensor that polls a condition until it is reached.

    Subclasses define the condition in ``condition()``. A broker that cannot be reached at the moment, or an Airflow
    that cannot be asked for the connection, counts as "not yet"; a wrong password or argument fails the task at once.

    :param deferrable: wait in the triggerer. Default: Airflow's ``[operators] default_deferrable`` (not templated).
    :param kafka_groups_conn_id: the connection. Default ``kafka_groups_default``.
    """

    kafka_groups_conn_id = Argument(read_text)
    deferrable = Argument(_read_deferrable, templated=False)

    def __init__(
        self, *, kafka_groups_conn_id: str = "kafka_groups_default", deferrable: bool | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        set_retry_policy(self)

    def require_one_process(self) -> None:
        """Raise ``ConfigurationError`` in reschedule mode: each poll would be a new process without the state."""
        if self.mode == "reschedule" and not self.deferrable:
            remedy = "loses the state between polls: use deferrable=True or mode='poke'"
            raise ConfigurationError("mode", self.mode, remedy)

    @cached_property
    def hook(self) -> KafkaGroupsHook:
        """The hook of the connection; first used after the connection's id is rendered."""
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        self.require_read()
        return KafkaGroupsHook(self.kafka_groups_conn_id)

    def condition(self) -> Condition:
        """Return the condition, after templates are rendered. Raises ``ConfigurationError`` for invalid arguments."""
        raise NotImplementedError

    @cached_property
    def asked(self) -> Condition:
        """The condition, created once because some conditions have a state."""
        return self.condition()

    def poke(self, context: Context) -> bool:
        try:
            result = self.hook.run(self.asked.check)
        except KafkaGroupsError as exc:  # what happened since the last poll is not known, also where Airflow polls on
            from airflow_kafka_groups.triggers.conditions import Watching

            if isinstance(asked := self.__dict__.get("asked"), Watching):  # unless the condition could not be made
                asked.missed()
            if (why := why_not_yet(exc)) is None:
                raise
            self.log.warning("Not reached: %s", why)
            return False
        self.log.info("%s: %s", "Reached" if result.reached else "Not reached", result)
        return result.reached

    def _first_poke(self, context: Context) -> bool:
        """Poll once, with errors as Airflow's own loop takes them."""
        try:
            return self.poke(context)
        except KafkaGroupsError as exc:
            if (why := why_not_yet(exc, silent_fail=self.silent_fail)) is not None:
                self.log.warning("Not reached, and silent_fail is set: %s", why)
                return False
            if self.never_fail:
                raise AirflowSkipException(f"Skipped, because never_fail is set: {exc}") from exc
            raise

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        if self._first_poke(context):
            return None
        from airflow_kafka_groups.triggers.clients import condition_to_json
        from airflow_kafka_groups.triggers.poll import ConditionTrigger

        trigger = ConditionTrigger(
            kafka_groups_conn_id=self.kafka_groups_conn_id,
            condition=condition_to_json(self.asked),
            poll_interval=self.poke_interval,
            deadline=time.time() + self.timeout,
            backoff=self.exponential_backoff,
            max_wait=None if self.max_wait is None else self.max_wait.total_seconds() or None,
            silent_fail=self.silent_fail,
        )
        # The trigger handles the timeout and reports the reason; Airflow's limit covers a trigger that hangs.
        limit = timedelta(seconds=self.timeout) + _GRACE
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=limit)

    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> None:
        """Succeed for the event "reached", raise Airflow's timeout for "timeout", and fail otherwise.

        A trigger's failure is one that Airflow does not retry if the same failure of a sensor in a worker would be.
        """
        from airflow_kafka_groups.triggers.poll import EVENT_VERSION, EventStatus

        data = event if isinstance(event, Mapping) else {}
        status, message = data.get("status"), data.get("message")
        if data.get("version") != EVENT_VERSION or status not in set(EventStatus):
            raise KafkaGroupsError(f"the trigger ended with an unknown event: {event!r}")
        if status == EventStatus.TIMEOUT:
            raise AirflowSensorTimeout(f"Not reached within {self.timeout:g} s: {message}")
        if status == EventStatus.FAILED:
            failed = f"the trigger failed: {message}"
            if self.never_fail:
                raise AirflowSkipException(f"Skipped, because never_fail is set: {failed}")
            raise FinalTriggerError(failed) if data.get("final") is True else KafkaGroupsError(failed)
        self.log.info("Reached: %s", message)
