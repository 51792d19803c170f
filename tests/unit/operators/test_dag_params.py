"""The defaults of the shipped DAGs: one JSON object, of which no message shows the content."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.dag_params import dag_params


@pytest.mark.parametrize(
    "text", ['{"spark_conf": {"spark.hadoop.fs.s3a.secret.key": "s3cr3t"},}', '["s3cr3t"]', "s3cr3t"]
)
def test_defaults_that_cannot_be_read_are_not_shown(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """They may hold a secret of Spark's, and an import error is shown to everybody."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", text)
    with pytest.raises(ConfigurationError, match="KAFKA_GROUPS_DEFAULTS: must be a JSON object") as caught:
        dag_params()
    assert "s3cr3t" not in str(caught.value)
