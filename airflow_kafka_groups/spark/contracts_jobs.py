"""The jobs of ``airflow_kafka_groups.spark``, as far as others have to know them."""

from __future__ import annotations

WITHOUT_SPARK = ("judge_staleness", "lag_report")
"""The jobs that start Spark only if something needs it: on a local disk, without Kafka and tables, they need none."""
