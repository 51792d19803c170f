"""What the driver asks of an API: what to send, and what becomes of each key of the answer.

One handler for each API (``handlers/``), each with one status table (handler_result.py).

Handlers are sans-IO and stateless; whether a broker takes many keys in one request is its ``build``'s to say, by
raising ``NoBatchedRequestError`` (KIP-699), and the driver's to remember, for each broker by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from airflow_kafka_groups.admin.engine.handler_result import HandlerResult, K, V
from airflow_kafka_groups.models import BrokerId
from airflow_kafka_groups.protocol.apis import Api
from airflow_kafka_groups.protocol.codec import Message


class AdminHandler(Protocol[K, V]):
    """Know one API."""

    @property
    def api(self) -> Api:
        """Give the API."""
        ...

    @property
    def resend_after_loss(self) -> bool:
        """Say whether a request whose answer was lost may be sent again. Not so for a deletion."""
        ...

    def build(self, keys: Sequence[K], version: int) -> Message:
        """Make one request for all the keys.

        Raises ``NoBatchedRequestError`` when this version takes one key a request and there are more.
        """
        ...

    def parse(self, broker_id: BrokerId, keys: Sequence[K], version: int, response: Message) -> HandlerResult[K, V]:
        """Sort the answer's keys by status. The driver finds the keys that the broker left out."""
        ...
