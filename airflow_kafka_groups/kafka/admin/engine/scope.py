"""What may share a request: keys in the same stage that go to the same broker, as in Kafka's own AdminApiDriver."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from airflow_kafka_groups.kafka.models import BrokerId

ANY_BROKER: BrokerId = -1


class Stage(IntEnum):
    """A stage of a key: finding its broker, then asking that broker."""

    LOOKUP = 0
    FULFILLMENT = 1


class Scope(NamedTuple):
    """A stage and a broker; a request has one, and so has each queue of waiting keys.

    :param broker_id: the broker to ask; ``ANY_BROKER`` where lookups wait for one to be chosen.
    """

    stage: Stage
    broker_id: BrokerId


LOOKUPS = Scope(Stage.LOOKUP, ANY_BROKER)
"""Where keys wait to be looked up."""
