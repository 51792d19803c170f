"""Run a driver over a cluster: send what it says, tell it what came. The only clever thing here is cleaning up.

Each request is a task; all of them are gone when ``stream`` is left, however it is left. A response is decoded and
handed to the driver in the task that awaited it, so that decoding goes on while other answers are on their way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from airflow_kafka_groups.admin.driver import AdminDriver
from airflow_kafka_groups.admin.fates import K, Outcome, V
from airflow_kafka_groups.admin.requests import RequestSpec
from airflow_kafka_groups.cluster.client import ClusterClient
from airflow_kafka_groups.exceptions import KafkaGroupsError

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with (keys done, keys in all) after every step."""


async def stream(
    driver: AdminDriver[K, V], cluster: ClusterClient, progress: Progress | None = None
) -> AsyncGenerator[Outcome[K, V], None]:
    """Drive a call to its end and give each key's result as it is known.

    :param progress: told how far the call is, each time something came. Default: nobody is told.
    """
    clock = asyncio.get_running_loop().time
    total = driver.remaining
    something_came = asyncio.Event()
    tasks: set[asyncio.Task[None]] = set()

    broken: list[BaseException] = []

    def landed(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            broken.append(error)
        something_came.set()

    try:
        while not driver.done:
            something_came.clear()
            for spec in driver.poll(clock()):
                task = asyncio.create_task(_exchange(driver, cluster, spec))
                tasks.add(task)
                task.add_done_callback(landed)
            for result in driver.take_results():
                yield result
            if driver.done:
                break
            await _wait(something_came, driver.wake_at(clock()) - clock())
            if broken:  # not an answer but a bug: nobody is to wait for the deadline to hear of it
                raise broken[0]
            for result in driver.take_results():
                yield result
            if progress is not None:
                progress(total - driver.remaining, total)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def collect(driver: AdminDriver[K, V], cluster: ClusterClient) -> list[Outcome[K, V]]:
    """Drive a call to its end and give all the results, in the order in which they came."""
    async with aclosing(stream(driver, cluster)) as results:
        return [result async for result in results]


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await event.wait()
    except TimeoutError:
        return


async def _exchange(driver: AdminDriver[K, Any], cluster: ClusterClient, spec: RequestSpec[K]) -> None:
    clock = asyncio.get_running_loop().time
    api = spec.handler.api
    sent = False
    try:
        connection = await cluster.connection(spec.broker_id)
        version = connection.versions.choose(api)
        request = spec.handler.build(spec.keys, version)
        sent = True
        response = await connection.send(api, version, request, cluster.config.request_timeout)
    except KafkaGroupsError as error:
        log.debug("%s to broker %s for %d keys: %s", api.name, spec.broker_id, len(spec.keys), error)
        driver.on_failure(clock(), spec, error, sent=sent)
        return
    driver.on_response(clock(), spec, version, response)
    for broker in driver.take_discovered():
        cluster.learn(broker)
