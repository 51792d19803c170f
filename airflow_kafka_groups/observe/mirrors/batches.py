"""Offsets to translate, and their translations, as Arrow: a task translates a batch as one process translates all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.observe.mirrors.offset_translator import OffsetTranslator, Place
from airflow_kafka_groups.observe.mirrors.translation import Method, Position, Refusal, Translated
from airflow_kafka_groups.storage.layout import ignore_progress

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


def places_to_table(places: Iterable[Place], counterparts: Mapping[TopicPartition, TopicPartition]) -> pa.Table:
    """Return places as rows of ``PLACES``, each once, in order."""
    rows = [(*where, offset, *counterparts[where]) for where, offset in sorted(set(places))]
    return _table(PLACES, rows)


def translations_of(tables: Iterable[pa.Table]) -> dict[Place, Translated | Refusal]:
    """Return what rows of ``TRANSLATIONS`` say."""
    found: dict[Place, Translated | Refusal] = {}
    for table in tables:
        for topic, partition, offset, there, distance, refused, is_unread in _rows(table, TRANSLATIONS):
            why = None if refused is None else Unread(refused) if is_unread else refused
            found[TopicPartition(topic, partition), offset] = Translated(there, distance) if why is None else why
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
    for topic, partition, offset, there, partition_there in _rows(batch, PLACES):
        where = TopicPartition(topic, partition)
        counterparts[where] = TopicPartition(there, partition_there)
        places.append((where, offset))
    async with source() as here, target() as mirror:
        translator = OffsetTranslator(source=here, target=mirror, counterparts=counterparts, progress=ignore_progress)
        found = await translator.translate(places, Method.PAYLOAD, Position(position))
    rows = [
        (*where, offset, one.offset, one.distance, None, False)
        if isinstance(one, Translated)
        else (*where, offset, None, None, str(one), isinstance(one, Unread))
        for (where, offset), one in found.items()
    ]
    return _table(TRANSLATIONS, rows).combine_chunks().to_batches()[0]


def _rows(data: pa.Table | pa.RecordBatch, schema: pa.Schema) -> Iterable[tuple[Any, ...]]:
    return zip(*(data.column(name).to_pylist() for name in schema.names), strict=True)


def _table(schema: pa.Schema, rows: Iterable[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)
