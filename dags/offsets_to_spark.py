"""Process exactly the unread records of a consumer group in Spark, then commit its offsets. Triggered manually.

`list_offsets` fetches the group's offsets, `prepare` passes them to the Spark job `process_group_backlog`, which writes
the unread records (or the output of your transform); `commit` moves the group to where the job stopped, unless the
group was used meanwhile, and `confirm` waits until the offsets are committed. Stop the group's consumers first.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param, chain

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_arguments, spark_settings
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.operators.spark import (
    CommitGroupBacklogOperator,
    GroupOffsetsToSparkOperator,
    KafkaSparkSubmitOperator,
)
from airflow_kafka_groups.sensors.offsets import ListGroupOffsetsSensor

WORDS = {
    "group_id": ("Group", "The consumer group whose unread records Spark processes."),
    "transform": ("Transform", "module:function that receives and returns the DataFrame. Optional."),
    "output": ("Output", "Output path. Default: next to the offsets."),
}
FORM = {name: Param("", type="string", title=title, description=text) for name, (title, text) in WORDS.items()}
DECISIONS = {
    "on_no_commit": ("Partition without a commit", ["fail", "from-start", "from-end"]),
    "on_data_loss": ("Unread records deleted by retention", ["fail", "skip-to-start"]),
}
FORM["format"] = Param("parquet", type="string", title="Format", description="Format of the output.")
FORM["output_mode"] = Param(
    "errorifexists",
    type="string",
    enum=["errorifexists", "append", "overwrite"],
    title="Other data in the output",
    description="Fail, keep it, or delete it before the first slice.",
)
SIZES = {
    "records_per_slice": ("Records per slice", "A slice is processed and recorded by itself. 0: all is one slice."),
    "records_per_partition": ("Records per Spark task", "For long partitions. 0: no limit."),
}
FORM |= {
    name: Param(0, type="integer", minimum=0, title=title, description=text) for name, (title, text) in SIZES.items()
}
FORM |= {
    name: Param(
        "fail", type="string", enum=choices, title=title, description="Fail, or continue from the given position."
    )
    for name, (title, choices) in DECISIONS.items()
}

with DAG(
    dag_id="offsets_to_spark",
    description="Process exactly the unread records of a Kafka consumer group in Spark, then commit.",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    doc_md=__doc__,
    **dag_arguments(*SCOPE, own=FORM, hours=24, retries=None),
):
    list_offsets = ListGroupOffsetsOperator(task_id="list_offsets", group_ids=["{{ params.group_id }}"])
    snapshot_id = "{{ ti.xcom_pull('list_offsets')['snapshot_id'] }}"
    prepare = GroupOffsetsToSparkOperator(task_id="prepare", group_id="{{ params.group_id }}", snapshot_id=snapshot_id)
    backlog = "ti.xcom_pull('prepare')"
    result_path = f"{{{{ {backlog}['result_path'] }}}}"
    process = KafkaSparkSubmitOperator(
        task_id="process",
        application="process_group_backlog",
        application_args=[
            *("--backlog", f"{{{{ {backlog}['path'] }}}}", "--no-commit", "--result", result_path),
            *("--transform", "{{ params.transform }}"),
            *("--output", f"{{{{ params.output or {backlog}['output_path'] }}}}"),
            *("--format", "{{ params.format }}", "--output-mode", "{{ params.output_mode }}"),
            *("--max-records-per-slice", "{{ params.records_per_slice }}"),
            *("--max-records-per-partition", "{{ params.records_per_partition }}"),
            *("--on-no-commit", "{{ params.on_no_commit }}", "--on-data-loss", "{{ params.on_data_loss }}"),
        ],
        spark=spark_settings(),
        retries=2,  # a try goes on behind the last slice that is recorded
        retry_delay=timedelta(minutes=1),
    )
    commit = CommitGroupBacklogOperator(
        task_id="commit", backlog_id=f"{{{{ {backlog}['backlog_id'] }}}}", result_path=result_path, retries=0
    )
    confirm = ListGroupOffsetsSensor(
        task_id="confirm", targets="{{ ti.xcom_pull('commit')['targets'] | tojson }}", poke_interval=5, timeout=300
    )
    chain(list_offsets, prepare, process, commit, confirm)
