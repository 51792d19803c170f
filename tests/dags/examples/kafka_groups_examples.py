"""The examples of docs/howto: parsed and run by test_examples.py, shown by their marks."""

import os
from datetime import datetime
from typing import Any

from airflow.sdk import DAG, task

from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import (
    ChunkGroupsOperator,
    DescribeGroupsOperator,
    FindCoordinatorsOperator,
    ListGroupsOperator,
    RemoveMembersOperator,
)
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    CopyGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.sensors.groups import (
    DeleteGroupsSensor,
    FindCoordinatorsSensor,
    GroupsEmptySensor,
    GroupsExistSensor,
    GroupsStalledSensor,
)
from airflow_kafka_groups.sensors.offsets import ListGroupOffsetsSensor

STORAGE = os.environ.get("KAFKA_GROUPS_STORAGE", "s3a://my-bucket/kafka-groups")

with DAG(dag_id="kafka_groups_examples", schedule=None, start_date=datetime(2026, 1, 1), catchup=False):
    # [START howto_sensor_coordinators]
    coordinators_ready = FindCoordinatorsSensor(
        task_id="coordinators_ready",
        kafka_groups_conn_id="my_cluster",
        group_ids=["orders-1", "orders-2"],
        poke_interval=10,
        timeout=300,
    )
    # [END howto_sensor_coordinators]

    # [START howto_operator_coordinators]
    find_coordinators = FindCoordinatorsOperator(
        task_id="find_coordinators", kafka_groups_conn_id="my_cluster", include=["orders-*"]
    )
    of_transactions = FindCoordinatorsOperator(
        task_id="of_transactions", kafka_groups_conn_id="my_cluster", transactional_ids=["orders-tx-1", "orders-tx-2"]
    )
    # [END howto_operator_coordinators]

    # [START howto_operator_offsets]
    list_offsets = ListGroupOffsetsOperator(
        task_id="list_offsets",
        kafka_groups_conn_id="my_cluster",
        storage_path=STORAGE,
        cluster="prod",
        include=["orders-*"],
    )
    # [END howto_operator_offsets]

    # [START howto_hook]
    @task
    def count_partitions() -> dict[str, int]:
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        hook = KafkaGroupsHook("my_cluster")
        offsets = hook.list_consumer_group_offsets(["orders-1", "orders-2"])
        offsets.raise_for_errors()
        return {group_id: len(of_group) for group_id, of_group in offsets.succeeded.items()}

    # [END howto_hook]

    # [START howto_sensor_offsets]
    has_read_it_all = ListGroupOffsetsSensor(
        task_id="has_read_it_all",
        kafka_groups_conn_id="my_cluster",
        group_ids=["orders-1", "orders-2"],
        max_total_lag=100,
        poke_interval=30,
        timeout=3600,
    )
    has_come_so_far = ListGroupOffsetsSensor(
        task_id="has_come_so_far",
        kafka_groups_conn_id="my_cluster",
        targets={"orders-1": {"orders": {0: 40, 1: 20}}},
        poke_interval=30,
        timeout=3600,
    )
    has_read_what_was_there = ListGroupOffsetsSensor(
        task_id="has_read_what_was_there",
        kafka_groups_conn_id="my_cluster",
        group_ids=["orders-done"],
        to_end=True,
        deferrable=True,
        poke_interval=30,
        timeout=3600,
    )
    # [END howto_sensor_offsets]

    # [START howto_sensor_groups]
    there = GroupsExistSensor(
        task_id="there", kafka_groups_conn_id="my_cluster", group_ids=["orders-1", "orders-2"], deferrable=True
    )
    empty = GroupsEmptySensor(
        task_id="empty",
        kafka_groups_conn_id="my_cluster",
        group_ids=["orders-1", "orders-2"],
        require="any",
        deferrable=True,
    )
    stalled = GroupsStalledSensor(
        task_id="stalled",
        kafka_groups_conn_id="my_cluster",
        group_ids=["orders-1", "orders-2"],
        seconds=5,
        deferrable=True,
        poke_interval=3,
        timeout=600,
    )
    # [END howto_sensor_groups]

    # [START howto_operator_deletion]
    delete_by_name = DeleteGroupsOperator(
        task_id="delete_by_name",
        kafka_groups_conn_id="my_cluster",
        storage_path=STORAGE,
        cluster="prod",
        group_ids=["orders-test"],
    )
    # [END howto_operator_deletion]

    # [START howto_sensor_deletion]
    gone = DeleteGroupsSensor(
        task_id="gone", kafka_groups_conn_id="my_cluster", group_ids=["orders-test"], poke_interval=5, timeout=300
    )
    # [END howto_sensor_deletion]

    # [START howto_operator_groups]
    list_empty = ListGroupsOperator(
        task_id="list_empty", kafka_groups_conn_id="my_cluster", include=["orders-*"], states=["Empty"]
    )
    chunks = ChunkGroupsOperator(task_id="chunks", kafka_groups_conn_id="my_cluster", include=["orders-*"])
    describe = DescribeGroupsOperator.partial(task_id="describe", kafka_groups_conn_id="my_cluster").expand(
        group_ids=chunks.output
    )
    # [END howto_operator_groups]

    # [START howto_operator_offset_changes]
    stored: dict[str, Any] = {"kafka_groups_conn_id": "my_cluster", "storage_path": STORAGE, "cluster": "prod"}
    restore = RestoreGroupOffsetsOperator(
        task_id="restore", plan_id="{{ ti.xcom_pull('delete_by_name')['plan_id'] }}", **stored
    )
    read_again = ResetGroupOffsetsOperator(
        task_id="read_again", group_ids=["orders-done"], topics=["orders"], shift_by=-10, **stored
    )
    put_at = AlterGroupOffsetsOperator(task_id="put_at", offsets={"orders-2": {"orders": {0: 30, 1: 5}}}, **stored)
    copied = CopyGroupOffsetsOperator(task_id="copied", groups={"orders-2": "orders-green"}, **stored)
    forget = DeleteGroupOffsetsOperator(task_id="forget", group_ids=["orders-moved"], topics=["orders-v1"], **stored)
    leave = RemoveMembersOperator(task_id="leave", group_id="orders-done", instance_ids=["pod-7"], **stored)
    # [END howto_operator_offset_changes]

    coordinators_ready >> find_coordinators >> of_transactions >> list_offsets >> count_partitions() >> has_read_it_all
    has_read_it_all >> has_come_so_far >> has_read_what_was_there >> there >> empty >> stalled
    stalled >> delete_by_name >> gone >> list_empty >> chunks
    describe >> restore >> read_again >> put_at >> copied >> forget >> leave
