"""One request for many keys becomes many requests for one key: the one-to-many conversion of KIP-347 and KIP-699.

It happens here and nowhere else. A request's builder refuses many keys at a version that takes one
(``NoBatchedRequestError``); the driver reports it; from then on this broker gets one key a request, for this API. What
is known of one broker says nothing of the others: "one old broker un-batches the world" is Java's bug KAFKA-13029.
Requests of one key are small and many, so many may be under way on the connection at once: falling back then costs
bytes, and not a round trip for each group.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_groups.admin.engine.limits import DriverLimits
from airflow_kafka_groups.models import BrokerId


class Fallback:
    """Know which brokers take one key a request, for lookups and for the question itself apart."""

    def __init__(self, limits: DriverLimits) -> None:
        self._limits = limits
        self._reverted: set[tuple[BrokerId, bool]] = set()

    def revert(self, broker_id: BrokerId, *, is_lookup: bool) -> None:
        """Remember that a broker takes one key a request."""
        self._reverted.add((broker_id, is_lookup))

    def takes_many(self, broker_id: BrokerId, *, is_lookup: bool) -> bool:
        """Say whether a broker takes many keys in one request, as far as is known."""
        return (broker_id, is_lookup) not in self._reverted

    def keys_in_request(self, broker_id: BrokerId, *, is_lookup: bool) -> int:
        """Give the most keys of one request."""
        if not self.takes_many(broker_id, is_lookup=is_lookup):
            return 1
        return self._limits.lookup_batch_size if is_lookup else self._limits.batch_size

    def requests_in_flight(self, broker_id: BrokerId, *, is_lookup: bool) -> int:
        """Give the most requests that may be under way."""
        if self.takes_many(broker_id, is_lookup=is_lookup):
            return self._limits.batches_in_flight
        return self._limits.singles_in_flight

    def best_for_lookups(self, brokers: Iterable[BrokerId]) -> list[BrokerId]:
        """Give the brokers that take many keys, or all of them when none does."""
        candidates = list(brokers)
        return [broker_id for broker_id in candidates if self.takes_many(broker_id, is_lookup=True)] or candidates
