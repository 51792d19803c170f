"""``python -m airflow_kafka_groups.spark JOB …``."""

import os
import sys

from airflow_kafka_groups.contracts.driver_jvm import quick_driver
from airflow_kafka_groups.spark.application import main

__all__ = ["main"]

if __name__ == "__main__":
    os.environ.update(quick_driver(os.environ))  # for the JVM that this process starts
    sys.exit(main())
