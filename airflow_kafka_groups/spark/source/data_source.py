"""The data source itself: ``spark.read.format("kafka_groups")``. What it reads is in ``reader.py``."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.spark.source.options import SourceOptions
from airflow_kafka_groups.spark.source.reader import FilteringReader, GroupsReader
from airflow_kafka_groups.spark.source.rows import SOURCE_SCHEMA
from airflow_kafka_groups.spark.source.stream import CHANGE_SCHEMA, ChangesReader

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class KafkaGroupsDataSource(DataSource):
    """Read consumer groups: one row for each group, topic and partition.

    :param options: see ``SourceOptions``.

    Spark refuses a source that takes filters over where the session has not allowed it. This one takes none, so that it
    works in every session; ``register`` picks the one that does.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """Give the name for ``format``."""
        return "kafka_groups"

    def schema(self) -> StructType:
        """Give the columns; a stream has two more."""
        return CHANGE_SCHEMA if self.parsed.state_path else SOURCE_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give the reader of a batch."""
        return GroupsReader(self._for_batch(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Give the reader of a stream of changes; needs the option ``state.path``."""
        return ChangesReader(self._checked(schema))

    def _for_batch(self, schema: StructType) -> SourceOptions:
        if self.parsed.state_path:
            raise ConfigurationError("state.path", self.parsed.state_path, "is for readStream: leave it out of a batch")
        return self._checked(schema)

    def _checked(self, schema: StructType) -> SourceOptions:
        if schema.fieldNames() != self.schema().fieldNames():
            raise ConfigurationError("schema", schema.fieldNames(), "give none; choose columns by select()")
        return self.parsed


class FilteringDataSource(KafkaGroupsDataSource):
    """The same, and filters on the group and the topic are taken over: only those groups are asked."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give the reader of a batch."""
        return FilteringReader(self._for_batch(schema))


def register(spark: SparkSession) -> None:
    """Make ``kafka_groups`` known to a session, with filters handed to the source.

    :param spark: the session; its ``spark.sql.python.filterPushdown.enabled`` is set.
    """
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(FilteringDataSource)
