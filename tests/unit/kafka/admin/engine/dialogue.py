"""A scripted dialogue with the driver: what it asks now, and what it is told. No broker, no socket, no clock."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError
from airflow_kafka_groups.kafka.admin.engine.driver import AdminDriver
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, HandlerResult
from airflow_kafka_groups.kafka.admin.engine.request_queue import DriverLimits, RequestSpec, Stage
from airflow_kafka_groups.kafka.models import Broker, BrokerId
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR, OFFSET_FETCH, Api

TIMEOUT = 60.0
SHARED = BrokerError(-1, "UNKNOWN_SERVER_ERROR", "see the log", api="DeleteGroups")
"""The error of all keys that a broker worked on together."""
STAGES = {Stage.LOOKUP: "lookup", Stage.FULFILLMENT: "ask"}


@dataclass(frozen=True)
class ToyHandler(AdminHandler[str, Any]):
    """A handler whose answers are the results themselves."""

    api: Api = OFFSET_FETCH
    changes_groups: bool = False
    resend_after_loss: bool = True
    send_by: float = math.inf
    connections: int = 1
    batch_size: int = 10
    tries: int | None = None
    doubt: bool = False
    budget: int | None = None
    """What each of two buckets may be, of keys of 10: those in upper case and the others."""

    def fit(self, keys: Sequence[str]) -> int:
        if self.budget is None:
            return len(keys)
        uppers = [sum(map(str.isupper, keys[:size])) for size in range(len(keys) + 1)]
        fitting = [size for size, upper in enumerate(uppers) if 10 * max(upper, size - upper) <= self.budget]
        return max(fitting[-1], 1)

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        return self.tries

    def may_be_done(self, error: KafkaGroupsError) -> bool:
        return self.doubt

    def build(self, keys: Sequence[str], version: int) -> Any:
        raise AssertionError("the driver must not build requests")

    def parse(self, broker_id: BrokerId, keys: Sequence[str], version: int, response: Any) -> HandlerResult[str, Any]:
        result: HandlerResult[str, Any] = response.result
        return result


@dataclass(frozen=True)
class ToyAnswer:
    result: HandlerResult[str, Any]
    throttle_time: timedelta = timedelta()


def broker(broker_id: BrokerId) -> Broker:
    return Broker(broker_id=broker_id, host=f"b{broker_id}", port=9092)


@dataclass
class Dialogue:
    """The two ends: the driver, and what is on its way."""

    keys: Iterable[str]
    brokers: Sequence[BrokerId] = (1,)
    mapping: Mapping[str, BrokerId] = field(default_factory=dict)
    limits: DriverLimits = field(default_factory=DriverLimits)
    lookup: ToyHandler | None = field(default_factory=lambda: ToyHandler(FIND_COORDINATOR))
    handler: ToyHandler | None = field(default_factory=ToyHandler)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.driver: AdminDriver[str, Any] = AdminDriver(
            self.keys,
            brokers=self.brokers,
            lookup=self.lookup,
            handler=self.handler,
            deadline=TIMEOUT,
            mapping=self.mapping,
            limits=self.limits,
            throttled={},
        )
        self.in_flight_specs: list[RequestSpec[str]] = []

    def asks(self) -> list[tuple[str, BrokerId, str]]:
        """Poll, and give (stage, broker, keys) of every request sent now."""
        specs = self.driver.poll(self.now)
        self.in_flight_specs.extend(specs)
        return sorted((STAGES[spec.scope.stage], spec.scope.broker_id, "".join(spec.keys)) for spec in specs)

    def take(self, keys: str) -> RequestSpec[str]:
        spec = next(spec for spec in self.in_flight_specs if "".join(spec.keys) == keys)
        self.in_flight_specs.remove(spec)
        return spec

    def answer(self, keys: str, *, throttle: float = 0.0, **result: Any) -> None:
        spec = self.take(keys)
        results = [HandlerResult[str, Any](**result)]
        if spec.singly:  # each answer says what the result says of its key
            each: list[dict[str, Any]] = [
                {kind: {key: part[key]} for kind, part in result.items() if key in part} for key in spec.keys
            ]
            results = [HandlerResult[str, Any](**of_key) for of_key in each]
        answers = [ToyAnswer(of_request, timedelta(seconds=throttle)) for of_request in results]
        self.driver.on_response(self.now, spec, 8, *answers)

    def found(self, keys: str, **brokers: BrokerId) -> None:
        self.answer(keys, completed={key: broker(broker_id) for key, broker_id in brokers.items()})

    def fail(self, keys: str, error: KafkaGroupsError, *, sent: bool = False) -> None:
        self.driver.on_failure(self.now, self.take(keys), error, sent=sent)

    def results(self) -> dict[str, Any]:
        """Return what is known since the last time: the value, or the error."""
        return {key: value if error is None else error for key, value, error in self.driver.take_results()}

    def sleep(self) -> None:
        """Let the time pass until the driver has something to say by itself."""
        self.now = self.driver.wake_at(self.now)


def begun(*arguments: Any, **options: Any) -> Dialogue:
    """Begin a dialogue whose first requests are sent."""
    talk = Dialogue(*arguments, **options)
    talk.asks()
    return talk
