"""Series of requests with every mix of ends, through the driver and what runs it: each key has one end, its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import (
    ConnectionFailedError,
    KafkaGroupsError,
    MissingAnswerError,
    OutcomeUnknownError,
    RemoteProtocolError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.admin.engine.driver import AdminDriver
from airflow_kafka_groups.kafka.admin.engine.handler import HandlerResult
from airflow_kafka_groups.kafka.admin.engine.request_queue import DriverLimits
from airflow_kafka_groups.kafka.admin.engine.runner import _Exchanges
from airflow_kafka_groups.kafka.cluster.client import Patience
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR
from airflow_kafka_groups.kafka.transport.connection import OnAnswers
from tests.unit.kafka.admin.engine.dialogue import TIMEOUT, ToyHandler, broker

pytestmark = pytest.mark.safety

REFUSED = KafkaGroupsError("refused")
BUSY = KafkaGroupsError("busy")
LIMITS = DriverLimits(batches_in_flight=3, singles_in_flight=5, in_flight_on_each=2, series=3)
KEYS = "abcdefghij"


@dataclass(frozen=True)
class Handler(ToyHandler):
    """A handler of one key a request; an answer is the key and what the broker says of it."""

    batch_size: int = 1
    turns: Mapping[str, int] = field(default_factory=dict)

    def build(self, keys: Sequence[str], version: int) -> Any:
        (key,) = keys
        return key

    def parse(self, broker_id: BrokerId, keys: Sequence[str], version: int, response: Any) -> HandlerResult[str, Any]:
        (key,) = keys
        of, said = response
        assert of == key, f"the answer for {of} was taken for that of {key}"
        result: HandlerResult[str, Any] = HandlerResult()
        match said:
            case "done":
                return HandlerResult({key: broker(1) if self.api is FIND_COORDINATOR else f"{key} is done"})
            case "refused":
                result.failed[key] = REFUSED
            case "moved":
                result.unmapped[key] = BUSY
            case "busy":
                result.retry[key] = BUSY
        return result  # "silent": the answer says nothing of the key


@dataclass
class Sent:
    """A series under way, and what came of its first requests."""

    keys: Sequence[str]
    on_answers: OnAnswers
    came: list[tuple[str, str]] = field(default_factory=list)
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def flush(self) -> None:
        """Hand over what came since the last time."""
        if self.came:
            self.end(None)

    def end(self, error: KafkaGroupsError | None) -> None:
        """Hand over what came since the last time, and an error for what did not; without one, go on waiting for it."""
        unreadable: dict[int, KafkaGroupsError] = {
            place: RemoteProtocolError("noise") for place, (_, said) in enumerate(self.came) if said == "noise"
        }
        answers: list[Any] = [None if place in unreadable else answer for place, answer in enumerate(self.came)]
        self.came, self.keys = [], self.keys[len(answers) :]
        lost = {} if error is None else dict.fromkeys(range(len(answers), len(answers) + len(self.keys)), error)
        self.on_answers(answers + [None] * len(lost), unreadable | lost)


class World:
    """The brokers, which get series and answer some; in place of ``ClusterClient`` and ``BrokerConnection``."""

    config = SimpleNamespace(request_timeout=1.0)
    versions = SimpleNamespace(choose=lambda _api: 7)
    usable = True
    patience = Patience(60.0)

    def __init__(self) -> None:
        self.under_way: list[Sent] = []

    def open_connection(self, _broker_id: BrokerId, _number: int = 0) -> World:
        return self

    def submit(self, api: Any, _version: int, requests: Sequence[str], _timeout: float, on_answers: OnAnswers) -> Sent:
        sent = Sent(list(requests), on_answers)
        self.under_way.append(sent)
        return sent

    def learn(self, _found: Any) -> None: ...

    @property
    def requests(self) -> int:
        return sum(len(sent.keys) for sent in self.under_way)


LOSSES = (ConnectionFailedError("b1:9092", "lost"), RequestTimeoutError("slow"), RemoteProtocolError("out of order"))
ANSWERS = st.sampled_from(["done", "done", "done", "refused", "moved", "busy", "silent", "noise"])


class Play:
    """A call, from its keys to their results; Hypothesis draws what comes of each request."""

    def __init__(self, draw: Callable[[Any], Any], changes: bool, looks_up: bool, connections: int) -> None:
        turns = {key: place % connections for place, key in enumerate(KEYS)}
        handler = Handler(changes_groups=changes, resend_after_loss=not changes, connections=connections, turns=turns)
        self.draw, self.changes = draw, changes
        self.lookup = Handler(FIND_COORDINATOR) if looks_up else None
        self.driver: AdminDriver[str, Any] = AdminDriver(
            KEYS,
            brokers=[1],
            lookup=self.lookup,
            handler=handler,
            deadline=TIMEOUT,
            mapping=dict.fromkeys(KEYS, 1),
            limits=LIMITS,
            throttled={},
        )
        self.room = LIMITS.in_flight_on_each * connections if connections > 1 else LIMITS.batches_in_flight
        self.world, self.now = World(), 0.0
        self.exchanges: _Exchanges[str, Any] = _Exchanges(self.driver, cast("Any", self.world))
        self.exchanges._clock = lambda: self.now
        self.ends: dict[str, list[KafkaGroupsError | None]] = {key: [] for key in KEYS}
        self.said: dict[str, str] = {}
        """The last thing that came of each key's request to its broker."""

    def send(self) -> None:
        """Send what may be sent now, and take the results that there are."""
        for spec in self.driver.poll(self.now):
            self.exchanges.begin(spec)
        self.exchanges.raise_bug()
        lanes = self.driver._queue._lanes.values()
        assert all(lane.in_flight <= self.room for lane in lanes)
        assert sum(lane.in_flight for lane in lanes) == self.world.requests, "no room is lost"
        for key, _, error in self.driver.take_results():
            self.ends[key].append(error)

    def answer(self) -> None:
        """Let something come of a series, or let time pass when none is under way."""
        if not self.world.under_way:
            self.now = min(self.driver.wake_at(self.now), TIMEOUT - 1)
            return
        sent = self.draw(st.sampled_from(self.world.under_way))
        waiting = sent.keys[len(sent.came) :]
        count = self.draw(st.integers(0, len(waiting)))
        answered = {key: self.draw(ANSWERS) for key in waiting[:count]}
        sent.came += answered.items()
        end = self.draw(st.sampled_from(["wait", "flush", "lose"])) if count < len(waiting) else "answer"
        lost = dict.fromkeys(waiting[count:], "lost") if end == "lose" else {}
        if sent.on_answers.args[0].handler is not self.lookup:
            unknown = [key for key in answered | lost if self.changes and self.said.get(key) in {"lost", "noise"}]
            assert unknown == [], "a change of unknown outcome was sent again"
            self.said |= answered | lost
        if end in ("lose", "answer"):
            self.world.under_way.remove(sent)
            sent.end(self.draw(st.sampled_from(LOSSES)) if lost else None)
        elif end == "flush":
            sent.flush()

    def finish(self) -> None:
        """End the call at its deadline."""
        self.now = TIMEOUT
        self.exchanges.take_early()
        self.send()


@settings(max_examples=200)
@given(st.data(), st.booleans(), st.booleans(), st.integers(1, 2), st.integers(0, 40))
def test_every_key_has_one_end_and_it_is_its_own(
    data: st.DataObject, changes: bool, looks_up: bool, connections: int, steps: int
) -> None:
    asyncio.run(_play(data.draw, changes, looks_up, connections, steps))


async def _play(draw: Callable[[Any], Any], changes: bool, looks_up: bool, connections: int, steps: int) -> None:
    play = Play(draw, changes, looks_up, connections)
    for _ in range(steps):
        play.send()
        if play.driver.done:
            break
        play.answer()
    play.finish()
    assert {key: len(ends) for key, ends in play.ends.items()} == dict.fromkeys(KEYS, 1)
    for key, (error,) in play.ends.items():
        _check(play.said.get(key), error, changes, key)
    await play.exchanges.cancel()
    assert all(sent.cancelled for sent in play.world.under_way)


def _check(said: str | None, error: KafkaGroupsError | None, changes: bool, key: str) -> None:
    """Check that the end of a key is what came of its last request, which is the only one where that was lost."""
    match said:
        case "done":
            assert error is None, key
        case "refused":
            assert error is REFUSED, key
        case "silent":
            assert isinstance(error, MissingAnswerError)
            assert repr(key) in str(error)
        case "noise" | "lost" if changes:
            assert isinstance(error, OutcomeUnknownError), key
        case _:
            assert error is not None, key
