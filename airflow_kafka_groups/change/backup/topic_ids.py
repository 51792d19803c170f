"""The ids of a backup's topics, which are asked for before the offsets are read.

A topic may be deleted and created again meanwhile. Its offsets are those of the topic before: with the new topic's id
beside them, a restore would set them on the new topic. With the old id, the restore finds another topic and leaves it
out. A topic that gets its id only while offsets are read has the id "", which no topic has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.kafka.models import GroupOffsets
from airflow_kafka_groups.observe.readings import read_offsets
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.shown import one_line
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import is_id

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

NOT_KNOWN = ""
"""The id of a topic that had none, or was not known, when its offsets were read, and has one now."""

LATE = "got its id only while offsets were read, or a broker named it without one"
"""Why a group or topic is not backed up, after the topic's name: a restore would leave it out."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicIds:
    """The ids of topics before offsets are read.

    :param asked: the topics that were asked for, also those without an id.
    :param untold: whether one that had an id before came without it: it was deleted, or the broker named none, as
        in an upgrade, and other topics without an id may have one. Default false.
    """

    known: Mapping[str, str]
    asked: frozenset[str]
    untold: bool = False

    @classmethod
    async def of(
        cls, admin: MaintenanceClient, topics: Collection[str], earlier: Mapping[str, str] | None = None
    ) -> Self:
        """Ask for the ids of topics.

        :param earlier: ids of some topics from when offsets were read that have not moved since. Default: none.
        """
        known, asked = await _ask(admin, topics), frozenset(topics)
        if not earlier:
            return cls(known, asked)
        before = {topic: id_ for topic, id_ in earlier.items() if topic in asked}
        return cls({**known, **before}, asked, untold=not before.keys() <= known.keys())

    def lack(self, offsets: GroupOffsets) -> bool:
        """Whether a group has offsets of a topic that was not asked for: a restore would leave them out."""
        return any(part.committed and part.topic not in self.asked for part in offsets.topics)

    def lack_id(self, topics: Iterable[str]) -> bool:
        """Whether one of these topics had no id."""
        return not self.known.keys() >= set(topics)

    async def came_since(self, admin: MaintenanceClient, topics: Collection[str]) -> Set[str]:
        """Return which of these topics had no id before their offsets were read, and have one now, or may."""
        without = set(topics) - self.known.keys()
        return without if self.untold else (await _ask(admin, without)).keys()

    async def of_read(
        self, admin: MaintenanceClient, topics: Collection[str], late: Set[str] | None = None
    ) -> dict[str, str]:
        """Return the ids for the manifest, once offsets were read.

        :param late: those that have an id since, as ``came_since`` returned them. Default: it is asked for.
        """
        # Not asked a second time: in an upgrade, the next broker may tell an id where the one before told none.
        new = await _ask(admin, set(topics) - self.known.keys()) if late is None else late & set(topics)
        if new:
            _logger.warning(
                "%d topic(s) were created or read for the first time during the backup, and a restore leaves them out; "
                "a new backup has them, such as %s",
                len(new),
                ", ".join(map(one_line, list(new)[:3])),
            )
        ids = {**dict.fromkeys(new, NOT_KNOWN), **self.known}
        return {topic: ids[topic] for topic in sorted(topics) if topic in ids}


async def _ask(admin: MaintenanceClient, topics: Collection[str]) -> Mapping[str, str]:
    return await admin.topic_ids(sorted(topics)) if topics else {}


async def planned_topics(
    admin: MaintenanceClient, layout: Layout, snapshot_id: str, group_ids: Sequence[str]
) -> Collection[str]:
    """Return the topics that planned groups have offsets of: those of the plan's snapshot, which costs no request.

    They are read where there is no such snapshot: it was removed, or groups were named instead of planned.
    """
    if is_id(snapshot_id):
        try:
            return await asyncio.to_thread(lambda: SnapshotReader(layout, snapshot_id).topics_of(group_ids))
        except SnapshotError as error:
            _logger.warning("The topics are read from the cluster: %s", error)
    return await read_topics(admin, group_ids)


async def read_topics(admin: MaintenanceClient, group_ids: Sequence[str]) -> Collection[str]:
    """Return the topics that groups have offsets of. Groups that cannot be read are left out."""
    found: set[str] = set()
    async for result in read_offsets(admin, list(group_ids), require_stable=False):
        if result.value is not None:
            found.update(part.topic for part in result.value.topics)
    return found
