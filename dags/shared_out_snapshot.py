"""Read the committed offsets of a large cluster by several tasks, each assigned ranges of its groups.

The tasks are members of one Kafka group, whose leader reassigns the ranges of a dead task; files in `shared/` are done.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_params, refuse_unknown_conf

GROUPS: dict[str, Any] = {
    "type": "integer",
    "minimum": 1,
    "title": "Groups per range",
    "description": "Number of groups that one task reads at a time.",
}


def open_job(params: Any, job: str) -> tuple[Any, Any]:
    """Return the hook, and the folder of the job's files."""
    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
    from airflow_kafka_groups.hooks.storage import open_layout

    conn_id = params["kafka_groups_conn_id"]
    layout = open_layout(params["storage_path"], params["cluster"], conn_id)
    return KafkaGroupsHook(conn_id), layout.root / "shared" / job


with DAG(
    dag_id="shared_out_snapshot",
    description="Read the offsets of a large Kafka cluster's groups with several tasks.",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    params={**dag_params(*SCOPE), "groups_in_a_range": Param(1_000, **GROUPS)},
    default_args={
        "pre_execute": refuse_unknown_conf,
        "retries": 2,
        "retry_delay": timedelta(minutes=1),
        "execution_timeout": timedelta(hours=2),
    },
    tags=["kafka", "consumer-groups"],
    doc_md=__doc__,
):

    @task
    def cut_ranges(params: Any = None) -> str:
        from airflow_kafka_groups.storage.json_files import write_json
        from airflow_kafka_groups.storage.layout import utc_now
        from airflow_kafka_groups.storage.paths import new_id

        hook, folder = open_job(params, job := new_id(utc_now()))
        groups, size = sorted(hook.list_groups().require_complete()), int(params["groups_in_a_range"])
        write_json(folder, "ranges.json", {"ranges": [groups[at : at + size] for at in range(0, len(groups), size)]})
        return job

    @task
    def read_share(worker: int, job: str, params: Any = None) -> list[int]:
        from airflow_kafka_groups.kafka import KafkaGroupMember
        from airflow_kafka_groups.storage.json_files import write_json

        hook, folder = open_job(params, job)
        ranges, mine = json.loads((folder / "ranges.json").read_bytes())["ranges"], []
        names = [f"range-{number}.json" for number in range(len(ranges))]
        with KafkaGroupMember(
            hook.client_config(),
            group_id=f"shared-out-snapshot.{job}",
            parts=len(ranges),
            is_done=lambda number: (folder / names[number]).exists(),
        ) as member:
            for number in member.assigned_parts():
                read = hook.list_consumer_group_offsets(ranges[number])
                offsets = {
                    group: [[*at, o.offset] for at, o in of.items() if o] for group, of in read.succeeded.items()
                }
                failed = {group: str(error) for group, error in read.failed.items()}
                write_json(folder, names[number], {"worker": worker, "offsets": offsets, "failed": failed})
                mine.append(number)
        return mine

    read_share.partial(job=cut_ranges()).expand(worker=[1, 2, 3])
