"""``python -m airflow_kafka_groups.spark JOB …``."""

import os
import sys

from airflow_kafka_groups.spark.application import main
from airflow_kafka_groups.spark.requirements import quick_driver

__all__ = ["main"]

if __name__ == "__main__":
    os.environ.update(quick_driver(os.environ))  # for the JVM that this process starts
    sys.exit(main())
