"""Short jobs leave the JVM's optimising compiler out, and only in a JVM of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark import compilation, program
from airflow_kafka_groups.spark.compilation import compile_quickly, compile_thoroughly
from airflow_kafka_groups.spark.preflight import FEW_ROWS, fit_plans
from airflow_kafka_groups.spark.program import Program
from airflow_kafka_groups.spark.session import settings_of

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    names = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions", "spark.sql.files.minPartitionNum")
    with settings_of(spark, {}, also=names):
        yield spark
    compile_thoroughly()


def excluded() -> int:
    """Return how many directives in force exclude the optimising compiler."""
    answer = compilation._command("compilerDirectivesPrint")
    assert answer is not None
    c2 = [part.partition("c1 directives")[0] for part in answer.split("c2 directives")[1:]]
    return sum("Exclude:true" in part for part in c2)


def test_the_optimising_compiler_is_excluded_until_the_rows_are_many(session: SparkSession) -> None:
    assert excluded() == 0
    compile_quickly()
    assert excluded() == 1
    fit_plans(session, FEW_ROWS)
    assert excluded() == 1
    fit_plans(session, FEW_ROWS + 1)
    assert excluded() == 0


def test_directives_of_others_stay(session: SparkSession) -> None:
    compile_quickly()
    compilation._quick = False  # as if somebody else had added it
    compile_thoroughly()
    assert excluded() == 1
    compilation._quick = True


def test_a_jvm_without_the_command_compiles_as_always(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compilation._command("noSuchCommand") is None
    monkeypatch.setattr(compilation, "_COMMANDS", "com.sun.management:type=NoSuchBean")
    compile_quickly()
    assert compilation._quick is False


def test_the_jvm_of_a_session_that_was_there_before_is_left_alone(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "compile_quickly", pytest.fail)
    nothing = Program("job", None, lambda _: None, lambda _: None, lambda *_: {}, "Nothing", brief=True)
    assert nothing.main([]) == 0
