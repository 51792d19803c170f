"""The recipe of docs/howto/recipes.md that commits what a DAG run has worked on."""

# [START recipe_commit_after_success]
from datetime import datetime
from typing import Any

from airflow.sdk import DAG

from airflow_kafka_groups.operators.unread_range import commit_after_success

BROKERS = "kafka-1.example.com:9092"


@commit_after_success(
    kafka_groups_conn_id="prod",
    storage_path="/srv/kafka-groups",
    group_id="warehouse-load",
    topics=["orders"],
    on_no_commit="from-start",  # the first run
)
def load(unread: Any) -> int:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    loaded = 0
    settings = {"bootstrap.servers": BROKERS, "group.id": unread.group_id}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    for each in unread.ranges:
        consumer.assign([TopicPartition(each.topic, each.partition, each.start)])  # it joins no group
        while (message := consumer.poll(60)) is not None:
            if (error := message.error()) and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if error or message.offset() >= each.end:
                break
            loaded += 1  # write it, by a key that makes it the same record when it is written twice
        else:
            raise TimeoutError(f"nothing came of {each}")
    consumer.close()
    return loaded


with DAG(dag_id="load_orders", schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1):
    load()
# [END recipe_commit_after_success]
