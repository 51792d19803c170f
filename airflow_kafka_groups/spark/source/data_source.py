"""The data source: ``spark.read.format("kafka_groups")``.

Spark starts a Python of its own for the schema alone, so readers and core are imported by those that need them.
"""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.spark.frames import schema_of
from airflow_kafka_groups.spark.source.options import CHANGE_COLUMNS, SourceOptions

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class KafkaGroupsDataSource(DataSource):
    """A data source of consumer groups: one row for each group, topic and partition.

    Spark refuses a source that accepts filters unless the session allows it, as ``register`` does.
    """

    @cached_property
    def parsed(self) -> SourceOptions:
        """The options, once they are needed."""
        return SourceOptions.parse(self.options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "kafka_groups"

    def schema(self) -> StructType:
        """Return the columns of the option, by default all; a stream has two more."""
        return schema_of(CHANGE_COLUMNS if self.parsed.state_path else self.parsed.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from airflow_kafka_groups.spark.source.reader import GroupsReader

        if self.parsed.state_path:
            raise ConfigurationError("state.path", self.parsed.state_path, "is for readStream: leave it out of a batch")
        return GroupsReader(self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream of changes; requires the option ``state.path``."""
        from airflow_kafka_groups.spark.source.stream import ChangesReader

        return ChangesReader(self.parsed)


def register(spark: SparkSession) -> None:
    """Register ``kafka_groups`` in a session, with filters passed to the source.

    :param spark: the session; its ``spark.sql.python.filterPushdown.enabled`` is set.
    """
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(KafkaGroupsDataSource)
