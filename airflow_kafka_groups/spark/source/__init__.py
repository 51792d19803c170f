"""The Python data source ``kafka_groups``: committed offsets of consumer groups as rows of a Spark DataFrame.

The only part of ``spark`` that imports the batching core, which does not use Airflow and therefore runs on executors.
It requires this package, kio, aiokafka and pyarrow in the Python of the driver and of the executors.
"""

from airflow_kafka_groups.spark.source.requirements import check_requirements as _check_requirements

_check_requirements()

from airflow_kafka_groups.spark.source.data_source import (  # noqa: E402 - what it imports is looked for before
    KafkaGroupsDataSource,
    register,
)

__all__ = ["KafkaGroupsDataSource", "register"]
