"""Offsets to translate, and their translations, as JSON rows: a task translates some as one process translates all."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.observe.mirrors.offset_translator import OffsetTranslator, Place
from airflow_kafka_groups.observe.mirrors.translation import Method, Position, Refusal, Translated
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import StoragePath, ignore_progress

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

PlaceRow: TypeAlias = tuple[str, int, int, str, int]
"""A topic, a partition and an offset of the source, and the partition's counterpart."""
TranslatedRow: TypeAlias = tuple[str, int, int, int | None, int | None, str | None, bool]
"""The same place, its position and distance, or the reason why it is refused, and whether that could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSpark:
    """The translation of offsets by the Spark job ``translate_offsets``.

    :param places: the file that the job reads, and ``output`` the one that it writes; both are removed afterwards.
    :param submit: runs the job, and returns when it has succeeded.
    """

    places: StoragePath
    output: StoragePath
    submit: Callable[[], object]

    def translate(
        self, wanted: Collection[Place], counterparts: Mapping[TopicPartition, TopicPartition]
    ) -> dict[Place, Translated | Refusal]:
        """Translate places. Raises ``MaintenanceError`` unless the job has translated each of them."""
        rows = [(*where, offset, *counterparts[where]) for where, offset in sorted(set(wanted))]
        try:
            FILES.create(self.places, json.dumps({"format": FORMAT, "places": rows}).encode())
            self.submit()
            done = read_json(self.output, "the output of translate_offsets", MaintenanceError)["translated"]
        finally:
            FILES.remove(self.places)
            FILES.remove(self.output)
        found: dict[Place, Translated | Refusal] = {}
        for topic, partition, offset, there, distance, why, is_unread in done:
            refused = Unread(why) if is_unread else why
            found[TopicPartition(topic, partition), offset] = refused or Translated(there, distance)
        if found.keys() != {*wanted}:
            raise MaintenanceError(f"{self.output} has other offsets than were wanted: try again")
        return found


async def translate_rows(
    source: Callable[[], AbstractAsyncContextManager[MaintenanceClient]],
    target: Callable[[], AbstractAsyncContextManager[MaintenanceClient]],
    position: str,
    rows: Sequence[PlaceRow],
) -> list[TranslatedRow]:
    """Translate some places by the method ``payload``.

    :param source: opens the client of the source, and ``target`` that of the target.
    """
    counterparts = {TopicPartition(*row[:2]): TopicPartition(*row[3:]) for row in rows}
    places = [(TopicPartition(*row[:2]), row[2]) for row in rows]
    async with source() as here, target() as mirror:
        translator = OffsetTranslator(source=here, target=mirror, counterparts=counterparts, progress=ignore_progress)
        found = await translator.translate(places, Method.PAYLOAD, Position(position))
    return [
        (*where, offset, one.offset, one.distance, None, False)
        if isinstance(one, Translated)
        else (*where, offset, None, None, str(one), isinstance(one, Unread))
        for (where, offset), one in found.items()
    ]
