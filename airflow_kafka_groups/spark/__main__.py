"""``python -m airflow_kafka_groups.spark JOB …``."""

import sys

from airflow_kafka_groups.spark.application import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
