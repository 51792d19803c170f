"""Requests and their answers over a connection, with callers that are cancelled meanwhile."""

from __future__ import annotations

import asyncio
from typing import cast

from airflow_kafka_groups.protocol.api_versions import ApiVersions
from airflow_kafka_groups.protocol.apis import HEARTBEAT
from airflow_kafka_groups.protocol.membership_apis import heartbeat
from airflow_kafka_groups.transport.connection import PipelinedConnection
from tests.unit.transport.test_pipeline import Transport, frame, pipeline_on, turns


async def test_an_answer_that_arrives_as_its_caller_is_cancelled_disturbs_no_other() -> None:
    """The cancelled caller has not run yet when the answers arrive, in one piece."""
    transport = Transport()
    connection = PipelinedConnection(pipeline_on(transport), cast("ApiVersions", None), "test", "broker:9092")
    request = heartbeat.build("g", 1, "m", None, 0)
    given_up, other = (asyncio.ensure_future(connection.send(HEARTBEAT, 0, request, 60)) for _ in range(2))
    await turns()
    given_up.cancel()
    transport.protocol.data_received(frame(0, b"\0\0") + frame(1, b"\0\0"))
    assert (await asyncio.wait_for(other, 5)).error == 0
    assert given_up.cancelled()
    assert connection.usable
    await connection.aclose()
