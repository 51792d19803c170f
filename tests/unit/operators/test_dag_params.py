"""The defaults of the shipped DAGs: one JSON object, of which no message shows the content."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.dag_params import dag_params, spark_arguments


@pytest.mark.parametrize(
    "text", ['{"spark_conf": {"spark.hadoop.fs.s3a.secret.key": "s3cr3t"},}', '["s3cr3t"]', "s3cr3t"]
)
def test_defaults_that_cannot_be_read_are_not_shown(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """They may hold a secret of Spark's, and an import error is shown to everybody."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", text)
    with pytest.raises(ConfigurationError, match="KAFKA_GROUPS_DEFAULTS: must be a JSON object") as caught:
        dag_params()
    assert "s3cr3t" not in str(caught.value)


def test_the_log_of_commits_is_read_where_that_is_possible_unless_the_site_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert dag_params("commit_log")["commit_log"].value == "auto"
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", '{"commit_log": "required"}')
    assert dag_params("commit_log")["commit_log"].value == "required"
    asked = spark_arguments("20260131T235959Z-0123abcd")
    assert (asked["application"], asked["kafka"]) == ("judge_staleness", "{{ params.commit_log }}")
    words = asked["application_args"]
    assert words[words.index("--commit-log") + 1] == "{{ params.commit_log }}"
