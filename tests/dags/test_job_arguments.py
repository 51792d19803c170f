"""What the clean-up's form says reaches the Spark job (not tried on the oldest Airflow: it needs a whole pyspark)."""

import pytest

from airflow_kafka_groups.durations import read_duration
from airflow_kafka_groups.hooks.floors import LIMITS
from airflow_kafka_groups.operators.plan import CheckPolicyOperator
from airflow_kafka_groups.spark.jobs import process_group_backlog
from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments
from tests.dags.runs import DAGS, parsed


def test_the_job_is_asked_for_what_the_form_says() -> None:
    cleanup = parsed(DAGS / "cleanup_stale_groups.py")["cleanup_stale_groups"]
    params, snapshot_id = cleanup.params.dump(), "20260131T235959Z-0123abcd"
    checked = "{{ ti.xcom_pull('policy')."
    policy = CheckPolicyOperator(task_id="policy", **{name: params[name] for name in LIMITS}).execute({})
    found = {
        **{f"{{{{ params.{name} }}}}": str(value) for name, value in params.items()},
        **{f"{checked}{name} }}}}": str(policy[name]) for name in LIMITS},
    }
    words = [found.get(word, word) for word in cleanup.get_task("judge_staleness").application_args]
    assert sum(word.startswith(checked) for word in cleanup.get_task("judge_staleness").application_args) == 3
    assert "xcom_pull('list_offsets')" in words[-1]
    asked = parse_arguments([*words[:-1], snapshot_id])
    assert (asked.base, asked.cluster, asked.snapshot_id) == (params["storage_path"], [params["cluster"]], snapshot_id)
    for name in ("min_observations", "offsets_retention_minutes", "commit_log"):
        assert getattr(asked, name) == params[name]
    for name in ("min_idle_seconds", "max_gap_seconds"):
        assert getattr(asked, name) == read_duration(params[name])


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("s3a://my_aws_conn@bucket/groups", "s3a://bucket/groups"),
        ("gs://my_conn@bucket/a@b", "gs://bucket/a@b"),
        ("s3a://bucket/a@b", "s3a://bucket/a@b"),
        ("s3a://user:password@bucket/a", "s3a://user:password@bucket/a"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net/a"),
        ("/data/s3a://a@b", "/data/s3a://a@b"),
    ],
)
def test_the_job_reads_the_storage_without_airflow_s_connection(given: str, read: str) -> None:
    """S3A refuses a URL with what it takes for a user: each clean-up failed whose storage had a connection in it."""
    assert parse_arguments(["--base", given, "--cluster", "prod", "--min-idle", "7d"]).base == read
    words = [word for name in ("backlog", "output", "result", "records") for word in (f"--{name}", given)]
    backlog = process_group_backlog.parse_arguments(["--kafka-properties", "p", "--transform", "a:b", *words])
    assert {getattr(backlog, name) for name in ("backlog", "output", "result", "records")} == {read}
