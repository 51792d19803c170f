"""The command line: ``python -m airflow_kafka_groups``."""

import sys

from airflow_kafka_groups.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
