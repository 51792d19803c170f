from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.kafka.admin.handlers.find_coordinator import FindCoordinatorHandler
from airflow_kafka_groups.kafka.models import Broker
from airflow_kafka_groups.kafka.protocol.answers import FindCoordinatorAnswer


@pytest.mark.parametrize(
    ("node", "host", "found"),
    [(0, "b0", True), (7, "b7", True), (-1, "", False), (-1, "b1", False), (1, "", False)],
)
def test_a_coordinator_has_a_number_and_an_address(node: int, host: str, found: bool) -> None:
    broker = Broker(broker_id=node, host=host, port=9092)
    answer = FindCoordinatorAnswer(timedelta(), {"g": broker}, ())
    result = FindCoordinatorHandler().parse(3, ["g"], 6, answer)
    if found:
        assert (result.completed, result.failed) == ({"g": broker}, {})
    else:
        assert result.completed == {}
        assert isinstance(result.failed["g"], RemoteProtocolError)
