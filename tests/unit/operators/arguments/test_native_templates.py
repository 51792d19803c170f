"""A DAG that renders natively reads JSON as JSON, where Jinja would read it as Python."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.offset_changes import AlterGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator

pytestmark = pytest.mark.safety

STORED: dict[str, Any] = {"storage_path": "/data", "cluster": "prod"}
SIGN = "\N{GRINNING FACE}"


def rendered(operator: Any, params: Any, **arguments: Any) -> Any:
    """Return a rendered task in a DAG of which Jinja makes Python's own objects."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=True):
        task = operator(task_id="t", **arguments)
    task.render_template_fields({"params": params})
    return task


@pytest.mark.parametrize(
    "given", ["{{ params.keep | tojson }}", "[{{ params.keep[0] | tojson }}, {{ params.keep[1] | tojson }}]"]
)
def test_a_sign_that_json_writes_as_two_is_one(given: str) -> None:
    """The pattern was another one, and kept nothing."""
    keep = [f"team-{SIGN}-*", "</a>'\"\\"]
    assert rendered(PlanCleanupOperator, {"keep": keep}, **STORED, exclude=given).exclude == tuple(keep)


def test_a_name_in_an_object_is_the_one_in_json() -> None:
    """The offsets of another group were altered."""
    offsets = {f"orders{SIGN}": {"t": {"0": 5}}}
    task = rendered(AlterGroupOffsetsOperator, {"o": offsets}, **STORED, offsets="{{ params.o | tojson }}")
    assert list(task.offsets) == list(offsets)
    task = rendered(DeleteGroupsOperator, {"text": '["a\\/b"]'}, **STORED, group_ids="{{ params.text }}")
    assert task.group_ids == ["a/b"]


@pytest.mark.parametrize("given", ['{"a": {"t": {"0": {{ params.offset }}, "0": 7}}}', "{{ params.text }}"])
def test_no_offset_is_lost_to_a_name_that_is_there_twice(given: Any) -> None:
    params = {"offset": 5, "text": '{"a": {"t": {"0": 5}}, "a": {"u": {"0": 7}}}'}
    with pytest.raises(ConfigurationError, match=r"offsets.*each name once"):
        rendered(AlterGroupOffsetsOperator, params, **STORED, offsets=given)


def test_an_object_that_jinja_makes_is_taken_and_text_is_json() -> None:
    keep = "[{% for each in params.keep %}{{ each | tojson }},{% endfor %}]"
    with pytest.raises(ConfigurationError, match=r"exclude.*JSON list"):
        rendered(PlanCleanupOperator, {"keep": ["a", "b"]}, **STORED, exclude=keep)
    assert rendered(PlanCleanupOperator, {"keep": ["a", "b"]}, **STORED, exclude="{{ params.keep }}").exclude == (
        "a",
        "b",
    )
    spark: Any = '{"conf": {"spark.a": {{ params.number }}}, "verbose": {{ params.yes | tojson }}}'
    task = rendered(KafkaSparkSubmitOperator, {"number": 5, "yes": True}, application="x.py", spark=spark)
    assert task.spark == {"conf": {"spark.a": 5}, "verbose": True}
    dry = rendered(DeleteGroupsOperator, {"dry": False}, **STORED, group_ids=["a"], dry_run="{{ params.dry }}")
    assert dry.dry_run is False


@pytest.mark.parametrize(
    "given",
    [
        '[{{ params.a | tojson }} "orders-*"]',
        """["payments-*" 'orders-*']{{ "" }}""",
        "{{ params.text }}",
        "{{ params.lines }}",
    ],
)
def test_two_patterns_without_a_comma_are_no_pattern_that_keeps_nothing(given: str) -> None:
    """As of a Variable that somebody wrote: Python made ``payments-*orders-*`` of them."""
    params = {"a": "payments-*", "text": '["payments-*" "orders-*"]', "lines": "[\n'payments-*' # one\n'orders-*',\n]"}
    with pytest.raises(ConfigurationError, match=r"exclude.*must be a list, or a JSON list"):
        rendered(PlanCleanupOperator, params, **STORED, exclude=given)


@pytest.mark.parametrize("word", ["3.10", "1_000", "0x10", "1e3", "'a'", "'a' 'b'", "True", "007", "5"])
def test_a_word_or_a_name_in_a_list_is_that_text(word: str) -> None:
    """Python made ``3.1`` of the version 3.10, and another group of one with quotes; a group called 5 was refused."""
    task = rendered(
        KafkaSparkSubmitOperator, {"x": word}, application="{{ params.x }}", application_args=["{{ params.x }}"]
    )
    assert (task.application, task.application_args) == (word, [word])
    task = rendered(
        DeleteGroupsOperator, {"x": word}, **STORED | {"cluster": "{{ params.x }}"}, group_ids=["{{ params.x }}"]
    )
    assert (task.cluster, task.group_ids) == (word, [word])


def test_numbers_flags_and_values_of_a_mapping_are_read_as_before() -> None:
    params = {"text": "5", "flag": "False", "rate": "2.5", "number": 7, "time": "1700000000000"}
    places = {"group_ids": ["a"], "dry_run": "{{ params.flag }}", "groups_per_second": "{{ params.rate }}"}
    task = rendered(DeleteGroupsOperator, params, **STORED, **places, approve_above="{{ params.number }}")
    assert (task.dry_run, task.groups_per_second, task.approve_above) == (False, 2.5, 7)
    spark = {"verbose": "{{ params.flag }}", "num_executors": "{{ params.text }}"}
    task = rendered(KafkaSparkSubmitOperator, params, application="x.py", spark=spark)
    assert task.spark == {"verbose": False, "num_executors": 5}


@pytest.mark.parametrize("word", ['{"a": true}', '{"a": 1}', "[1, 2]", "[1]", "('a')", '["a"'])
def test_a_word_that_is_json_is_that_text(word: str) -> None:
    """A word of a program may be JSON, which was refused where Jinja made an object of it."""
    words = ["--json", "{{ params.x }}"]
    task = rendered(KafkaSparkSubmitOperator, {"x": word}, application="{{ params.x }}", application_args=words)
    assert (task.application, task.application_args) == (word, ["--json", word])
    words = ["--json", "{{ params.x | tojson }}"]
    task = rendered(KafkaSparkSubmitOperator, {"x": {"a": True}}, application="x.py", application_args=words)
    assert task.application_args == ["--json", '{"a": true}']


def test_several_names_in_an_item_are_refused_as_elsewhere() -> None:
    for several in (["a", "b"], "['a', 'b']", '["a", "b"]'):
        with pytest.raises(ConfigurationError, match=r"group_ids.*rendered to several"):
            rendered(DeleteGroupsOperator, {"x": several}, **STORED, group_ids=["{{ params.x }}"])


@pytest.mark.parametrize(
    "given", ["\n{{ params.x }}\n\n", "{% if True %}\n  {{ params.x }}\n{% endif %}", " {{ params.x }} "]
)
def test_blanks_around_a_template_make_no_text_of_an_object(given: str) -> None:
    """As of a string of several lines in a DAG: its list was refused as the spelling of one in Python."""
    task = rendered(DeleteGroupsOperator, {"x": ["a", "b"]}, **STORED, group_ids=given)
    assert task.group_ids == ["a", "b"]
    with pytest.raises(ConfigurationError, match=r"group_ids.*rendered to nothing"):
        rendered(DeleteGroupsOperator, {"x": None}, **STORED, group_ids=given)
