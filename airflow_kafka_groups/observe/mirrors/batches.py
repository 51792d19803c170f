"""Offsets to translate, and their translations, as Arrow: a task translates a batch as one process translates all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.observe.mirrors.offset_translator import OffsetTranslator, Place
from airflow_kafka_groups.observe.mirrors.translation import Method, Position, Refusal, Translated
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import StoragePath, ignore_progress
from airflow_kafka_groups.storage.paths import is_data_file

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

_PLACE = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
PLACES = pa.schema([*_PLACE, ("target_topic", pa.string()), ("target_partition", pa.int32())])
TRANSLATIONS = pa.schema(
    [
        *_PLACE,
        ("target_offset", pa.int64()),
        ("distance", pa.int64()),
        ("refused", pa.string()),
        ("is_unread", pa.bool_()),
    ]
)
"""Each row has a position and its distance, or the reason why it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSpark:
    """The translation of offsets by the Spark job ``translate_offsets``.

    :param places: the file that the job reads, and ``output`` the folder that it writes; both are removed afterwards.
    :param submit: runs the job, and returns when it has succeeded.
    """

    places: StoragePath
    output: StoragePath
    submit: Callable[[], object]

    def translate(
        self, wanted: Collection[Place], counterparts: Mapping[TopicPartition, TopicPartition]
    ) -> dict[Place, Translated | Refusal]:
        """Translate places. Raises ``MaintenanceError`` unless the job has translated each of them."""
        try:
            pq.write_table(_places_to_table(wanted, counterparts), sink := pa.BufferOutputStream())
            FILES.create(self.places, sink.getvalue().to_pybytes())
            self.submit()
            files = (FILES.read(self.output / name) for name in FILES.files(self.output) if is_data_file(name))
            found = _translations_of(pq.read_table(pa.BufferReader(content or b"")) for content in files)
        finally:
            FILES.remove(self.places)
            FILES.remove_folder(self.output, everything=True)
        if found.keys() != {*wanted}:
            lacking = len({*wanted} - found.keys())
            raise MaintenanceError(
                f"{self.output} has other offsets than were wanted, and lacks {lacking:,}: try again"
            )
        return found


def _places_to_table(places: Iterable[Place], counterparts: Mapping[TopicPartition, TopicPartition]) -> pa.Table:
    """Return places as rows of ``PLACES``, each once, in order."""
    rows = ((*where, offset, *counterparts[where]) for where, offset in sorted(set(places)))
    return pa.Table.from_pylist([dict(zip(PLACES.names, row, strict=True)) for row in rows], PLACES)


def _translations_of(tables: Iterable[pa.Table]) -> dict[Place, Translated | Refusal]:
    """Return what rows of ``TRANSLATIONS`` say."""
    found: dict[Place, Translated | Refusal] = {}
    for row in (row for table in tables for row in table.to_pylist()):
        place, why = (TopicPartition(row["topic"], row["partition"]), row["offset"]), row["refused"]
        if why is None:
            found[place] = Translated(row["target_offset"], row["distance"])
        else:
            found[place] = Unread(why) if row["is_unread"] else why
    return found


async def translate_batch(
    source: Callable[[], AbstractAsyncContextManager[MaintenanceClient]],
    target: Callable[[], AbstractAsyncContextManager[MaintenanceClient]],
    position: str,
    batch: pa.RecordBatch,
) -> pa.RecordBatch:
    """Translate the places of a batch by the method ``payload``.

    :param source: opens the client of the source, and ``target`` that of the target.
    """
    counterparts, places = dict[TopicPartition, TopicPartition](), list[Place]()
    for row in batch.to_pylist():
        where = TopicPartition(row["topic"], row["partition"])
        counterparts[where] = TopicPartition(row["target_topic"], row["target_partition"])
        places.append((where, row["offset"]))
    async with source() as here, target() as mirror:
        translator = OffsetTranslator(source=here, target=mirror, counterparts=counterparts, progress=ignore_progress)
        found = await translator.translate(places, Method.PAYLOAD, Position(position))
    rows = [
        {"topic": where.topic, "partition": where.partition, "offset": offset}
        | (
            {"target_offset": one.offset, "distance": one.distance}
            if isinstance(one, Translated)
            else {"refused": str(one), "is_unread": isinstance(one, Unread)}
        )
        for (where, offset), one in found.items()
    ]
    return pa.RecordBatch.from_pylist(rows, TRANSLATIONS)
