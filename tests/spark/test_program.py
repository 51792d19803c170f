"""What a job says when Spark itself is missing or does not start."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark import application
from airflow_kafka_groups.spark.program import Program, folder_path

pytestmark = pytest.mark.spark


def test_a_machine_without_java_is_told_in_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_java(_: Any) -> SparkSession:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", no_java)
    nothing: Callable[[Any], None] = lambda _: None  # noqa: E731
    assert Program("a_job", None, nothing, nothing, lambda *_: {}, "Nothing").main([]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("a_job: error: Spark does not start: [JAVA_GATEWAY_EXITED] Java gateway process exited")
    assert last.endswith(
        "Check that Java 17 or newer is there (JAVA_HOME, or java on the PATH), and what it wrote above"
    )


def test_a_python_without_pyspark_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(application, "find_spec", lambda name: None)
    assert application.main(["roll_up", "--base", "/b"]) == 1
    assert "has no pyspark: start it by spark-submit, or install airflow-kafka-groups[spark]" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "folder"), [("s3a://b/out//", "s3a://b/out"), ("/out", "/out"), ("", "")])
def test_a_folder_has_no_slash_at_its_end(text: str, folder: str) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=folder_path)
    assert parser.parse_args(["--output", text]).output == folder
