"""The loop that runs a driver over a cluster: sends its requests, hands it the answers, and cleans up.

Each request is a task; all of them are gone when ``stream`` is left, however it is left. A response is decoded and
handed to the driver in the task that awaited it, so that decoding goes on while other answers are on their way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Generic

from airflow_kafka_groups.admin.engine.driver import AdminDriver
from airflow_kafka_groups.admin.engine.gc_pause import collection_paused
from airflow_kafka_groups.admin.engine.handler_result import K, Outcome, V
from airflow_kafka_groups.admin.engine.request_queue import RequestSpec
from airflow_kafka_groups.cluster.client import ClusterClient
from airflow_kafka_groups.exceptions import KafkaGroupsError

log = logging.getLogger(__name__)

_KEYS_AT_ONCE = 512
"""Keys whose requests are cut before these are sent and the next are cut."""

Progress = Callable[[int, int], None]
"""Called with (keys done, keys in all) after every step."""


async def stream(
    driver: AdminDriver[K, V], cluster: ClusterClient, progress: Progress | None = None
) -> AsyncGenerator[Outcome[K, V], None]:
    """Drive a call to its end and yield each key's result as it is known.

    :param progress: called each time something came. Default: never.
    """
    async with aclosing(batches(driver, cluster, progress)) as steps:
        async for results in steps:
            for result in results:
                yield result


async def collect(driver: AdminDriver[K, V], cluster: ClusterClient) -> list[Outcome[K, V]]:
    """Drive a call to its end and return all the results, in the order in which they came."""
    gathered: list[Outcome[K, V]] = []
    with collection_paused():
        async with aclosing(batches(driver, cluster)) as steps:
            async for results in steps:
                gathered.extend(results)
    return gathered


async def batches(
    driver: AdminDriver[K, V], cluster: ClusterClient, progress: Progress | None = None
) -> AsyncGenerator[list[Outcome[K, V]], None]:
    """Drive a call to its end and yield the results of each step as they are known; a step may have none.

    Close it when leaving early: what is under way ends then.
    """
    clock = asyncio.get_running_loop().time
    total = driver.remaining
    exchanges = _Exchanges(driver, cluster)
    try:
        while not driver.done:
            specs = driver.poll(clock(), _KEYS_AT_ONCE)
            for spec in specs:
                exchanges.begin(spec)
            if specs:
                # The first turn makes the requests, the second writes them: they are on their way while more are cut.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            elif not driver.done:
                await exchanges.wait(driver.wake_at(clock()) - clock())
            yield driver.take_results()
            if progress is not None:
                progress(total - driver.remaining, total)
    finally:
        await exchanges.cancel()


class _Exchanges(Generic[K, V]):
    """The requests under way, one task each."""

    def __init__(self, driver: AdminDriver[K, V], cluster: ClusterClient) -> None:
        self._driver = driver
        self._cluster = cluster
        self._tasks: set[asyncio.Task[None]] = set()
        self._something_came = asyncio.Event()
        self._bug: BaseException | None = None

    def begin(self, spec: RequestSpec[K]) -> None:
        """Send a request; the driver gets what came of it."""
        task = asyncio.create_task(_exchange(self._driver, self._cluster, spec))
        self._tasks.add(task)
        task.add_done_callback(self._completed)

    async def wait(self, seconds: float) -> None:
        """Wait until something came, or until the time is over.

        Raises what a task raised: not an answer but a bug, and nobody is to wait for the deadline to hear of it.
        """
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._something_came.wait()
        except TimeoutError:
            return
        self._something_came.clear()
        if self._bug is not None:
            raise self._bug

    async def cancel(self) -> None:
        """End what is still under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _completed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._bug = error
        self._something_came.set()


async def _exchange(driver: AdminDriver[K, Any], cluster: ClusterClient, spec: RequestSpec[K]) -> None:
    clock = asyncio.get_running_loop().time
    api = spec.handler.api
    sent = False
    try:
        connection = await cluster.connection(spec.scope.broker_id)
        version = connection.versions.choose(api)
        request = spec.handler.build(spec.keys, version)
        sent = True
        response = await connection.send(api, version, request, cluster.config.request_timeout)
    except KafkaGroupsError as error:
        log.debug("%s to broker %s for %d keys: %s", api.name, spec.scope.broker_id, len(spec.keys), error)
        driver.on_failure(clock(), spec, error, sent=sent)
        return
    driver.on_response(clock(), spec, version, response)
    for broker in driver.take_discovered():
        cluster.learn(broker)
