"""Requests of deletions that were on their way when a restore or a keep-alive run was recorded: it waits for them.

A deletion reads these records once more between its intent and its request. So of the two, either the deletion finds
the record and sends nothing, or the restore finds the intent here. Without the wait it would find a group unchanged, or
keep one alive, that is gone a moment later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from airflow_kafka_groups.change.deletion.request import MAX_DELETE_SECONDS, MAX_READ_AGE_SECONDS
from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.ledger.journal.journal import Journal
from airflow_kafka_groups.shown import one_line
from airflow_kafka_groups.storage.ids import CLOCK_SLACK
from airflow_kafka_groups.storage.layout import Layout

log = logging.getLogger(__name__)

LONGEST_SECONDS = MAX_READ_AGE_SECONDS + MAX_DELETE_SECONDS
"""After that, a request that was about to leave has left and was given up: its process died, or its answer is lost.
Runs in Python may have higher limits; the first entry of each in the journal has its own."""
_POLL_SECONDS = 0.5
_TRIES = 3


async def wait_for_deletions(
    layout: Layout, kafka_cluster_id: str | None, group_ids: Iterable[str], now: datetime
) -> bool:
    """Wait until no request to delete one of these groups, or a topic of one, is under way; return whether any was.

    What the journal cannot tell is not waited for: restores have to work without it. But a storage that does not answer
    once or twice is asked again, and ends no wait for a request that was found.

    :param now: the time of day. An intent without an outcome that is older belongs to a run that was killed.
    """
    wanted, began, longest, waited = frozenset(group_ids), clock.now(), LONGEST_SECONDS, False
    failures, passed = 0, 0.0
    while True:
        try:
            at = now + timedelta(seconds=passed)
            found = await asyncio.to_thread(_about_to_be_deleted, layout, kafka_cluster_id, wanted, at)
        except MaintenanceError as error:
            failures, passed = failures + 1, clock.now() - began
            if passed >= longest or (failures == _TRIES and not waited):
                log.warning("Whether a deletion is in progress is not known: %s", error)
                return waited
            await asyncio.sleep(_POLL_SECONDS)
            continue
        longest, passed = max([longest, *found.values()]), clock.now() - began
        if not found or passed >= longest:
            return waited or bool(found)  # a look itself may take so long, of a run with thousands of entries
        if not waited:
            log.warning(
                "A deletion is about to delete %d of these groups, first %s: waiting until it is over, at most %g s",
                len(found),
                one_line(min(found)),
                longest,
            )
        waited = True
        await asyncio.sleep(_POLL_SECONDS)


def _about_to_be_deleted(
    layout: Layout, kafka_cluster_id: str | None, wanted: frozenset[str], now: datetime
) -> dict[str, float]:
    """Return what is about to be deleted, and how many seconds its request may last."""
    journal = Journal(layout.base, kafka_cluster_id)
    found: dict[str, float] = {}
    for run in journal.unfinished_since(now):
        longest = max(LONGEST_SECONDS, run.begun.get("request_seconds", 0.0))
        since = now - timedelta(seconds=longest) - CLOCK_SLACK
        found |= {name: longest for name, at in run.intents.items() if at >= since and name not in run.decided_at}
    return {name: each for name, each in found.items() if name in wanted or name.rpartition(" [")[0] in wanted}
