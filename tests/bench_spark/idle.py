"""A data source that does nothing, in as many tasks as it is told: what Spark itself takes for a query of that form."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from airflow_kafka_groups.spark.frames import schema_of
from airflow_kafka_groups.spark.source.options import SOURCE_COLUMNS


class IdleSource(DataSource):
    """Return no rows, of the columns of ``kafka_groups``."""

    @classmethod
    def name(cls) -> str:
        return "idle"

    def schema(self) -> StructType:
        return schema_of(SOURCE_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _IdleReader(int(self.options["tasks"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _IdleStream()


class _IdleReader(DataSourceReader):
    def __init__(self, tasks: int) -> None:
        self._tasks = tasks

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(())


class _IdleStream(DataSourceStreamReader):
    """One micro-batch of one task."""

    def initialOffset(self) -> dict[str, int]:
        return {"batch": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        return {"batch": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(())
