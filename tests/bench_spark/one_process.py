"""judge_staleness in one process: what ``airflow-kafka-groups judge`` runs, with the job's own arguments."""

import json
import sys

from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run_here
from airflow_kafka_groups.storage.file_storage import LocalStorage

if __name__ == "__main__":
    print(json.dumps(run_here(lambda _: LocalStorage(), parse_arguments(sys.argv[2:]))))
