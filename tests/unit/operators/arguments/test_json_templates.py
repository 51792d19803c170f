"""A template in a list or an object in JSON writes text into it, unless it is to write more."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time import macros

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.offset_changes import AlterGroupOffsetsOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator

pytestmark = pytest.mark.safety

STORED: dict[str, Any] = {"storage_path": "/data", "cluster": "prod"}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", ['b","c', 'b", "c', "orders\\u002ddlq"], ids=["two", "spaced", "escape"])
def test_an_item_of_a_list_in_json_names_one_group_and_no_other(name: str, *, native: bool) -> None:
    """Whoever fills in a name adds none to those that are deleted."""
    if native and "\\" in name:
        pytest.skip("Jinja makes a list of it, in which nobody sees the escape")
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = DeleteGroupsOperator(task_id="t", **STORED, group_ids='["a", "{{ params.group }}"]')
    with pytest.raises(ConfigurationError, match=r"group_ids.*a quote or a backslash.*tojson"):
        task.render_template_fields({"params": {"group": name}})


@pytest.mark.parametrize(
    "given",
    [
        """["{{ params.groups | join('", "') }}"]""",
        r"""["{{ params.groups | join("\", \"") }}"]""",
        '["{{ macros.json.dumps(params.groups)[2:-2] }}"]',
        """{% set comma = '", "' %}["{{ params.groups | join(comma) }}"]""",
        """{% set names %}{{ params.groups | join('", "') }}{% endset %}["{{ names }}"]""",
        """{% macro all(names) %}{{ names | join('", "') }}{% endmacro %}["{{ all(params.groups) }}"]""",
        """{% with comma = '", "' %}["{{ params.groups | join(comma) }}"]{% endwith %}""",
        '[{% for each in params.groups %}"{{ each }}"{% if not loop.last %}, {% endif %}{% endfor %}]',
        '[{% for each in params.groups %}"{{ each }}"{{ ", " if not loop.last }}{% endfor %}]',
        '["{% for each in params.groups %}{{ each }}{% if not loop.last %}", "{% endif %}{% endfor %}"]',
    ],
)
@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_a_list_in_json_may_be_joined_of_several_names(given: str, names: list[str]) -> None:
    task = DeleteGroupsOperator(task_id="t", **STORED, group_ids=given)
    task.render_template_fields({"params": {"groups": names}, "macros": macros})
    assert task.group_ids == names


def test_a_name_may_be_written_as_json_into_a_list_in_json() -> None:
    """So has whoever knows what JSON makes of a quote and of an é."""
    task = DeleteGroupsOperator(task_id="t", **STORED, group_ids='["a", "{{ (params.group | tojson)[1:-1] }}"]')
    task.render_template_fields({"params": {"group": 'caf\u00e9 "x"'}})
    assert task.group_ids == ["a", 'caf\u00e9 "x"']


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        '["a", "{{ params["group"] }}"]',
        '["a", "{{ params.get("group", "x") }}"]',
        """["a", "{{ params['team'] ~ "" ~ params['group'] }}"]""",
    ],
)
def test_quotes_within_an_expression_end_no_string_of_a_list_in_json(given: str, *, native: bool) -> None:
    """Before it is rendered, such a list is no JSON: what was rendered into it was looked at by nobody."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        tasks = [DeleteGroupsOperator(task_id=f"t{number}", **STORED, group_ids=given) for number in range(3)]
    tasks[0].render_template_fields({"params": {"team": "", "group": "b"}})
    assert tasks[0].group_ids == ["a", "b"]
    with pytest.raises(ConfigurationError, match=r"group_ids.*a quote or a backslash"):
        tasks[1].render_template_fields({"params": {"team": "", "group": 'b","c'}})
    with pytest.raises(ConfigurationError, match=r"group_ids.*rendered to nothing"):
        tasks[2].render_template_fields({"params": {"team": "", "group": None}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        '["{{ params.group }}"{% if params.more %}, "{{ params.more }}"{% endif %}]',
        '[{% for each in [params.group] %}"{{ each }}"{% if not loop.last %}, {% endif %}{% endfor %}]',
        '[{% if params.more %}"{{ params.more }}{% else %}"{{ params.group }}{% endif %}"]',
        '{% if params.more %}["x"]{% else %}["{{ params.group }}"]{% endif %}',
        '{# one #}["{{ params.group }}"]',
        '{% set all %}["{{ params.group }}"]{% endset %}{{ all }}',
        """["{{ params.group }}", "{{ ['x', 'y'] | join('", "') }}"]""",
        '["{{ {"a": params.group}["a"] }}"]',
    ],
)
def test_a_name_beside_blocks_and_joins_is_one_too(given: str, *, native: bool) -> None:
    """Only Jinja knows which items a condition or a loop writes."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        tasks = [DeleteGroupsOperator(task_id=f"t{number}", **STORED, group_ids=given) for number in range(2)]
    tasks[0].render_template_fields({"params": {"group": "b", "more": ""}})
    assert (tasks[0].group_ids or [])[0] == "b"
    with pytest.raises(ConfigurationError, match=r"group_ids.*a quote or a backslash"):
        tasks[1].render_template_fields({"params": {"group": 'b", "c', "more": ""}})


@pytest.mark.parametrize("name", ["b','c", "b', 'c"])
def test_an_item_of_a_list_that_jinja_reads_names_one_group_too(name: str) -> None:
    """Where it makes Python's own objects, lists are also written with single quotes."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=True):
        one = DeleteGroupsOperator(task_id="one", **STORED, group_ids="""['a', '{{ params["group"] }}']""")
        joined = DeleteGroupsOperator(task_id="two", **STORED, group_ids="""['{{ params.groups | join("', '") }}']""")
        none = DeleteGroupsOperator(task_id="none", **STORED, group_ids="""['a', '{{ params["group"] }}']""")
    with pytest.raises(ConfigurationError, match=r"group_ids.*rendered to nothing"):
        none.render_template_fields({"params": {"group": None}})
    joined.render_template_fields({"params": {"groups": ["a", "b"]}})
    assert joined.group_ids == ["a", "b"]
    with pytest.raises(ConfigurationError, match=r"group_ids.*a quote or a backslash"):
        one.render_template_fields({"params": {"group": name}})


def test_a_comment_takes_no_pattern_out_of_a_list_that_jinja_reads() -> None:
    """What Python takes for one is none in JSON: groups that a pattern behind it keeps were deleted."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=True):
        task = BackupGroupOffsetsOperator(task_id="t", **STORED, exclude='["{{ params.team }}-*", "payments-*"]')
    with pytest.raises(ConfigurationError, match=r"exclude.*a quote or a backslash"):
        task.render_template_fields({"params": {"team": 'x"]#'}})


def test_nothing_in_a_set_that_jinja_reads_is_no_group_called_none() -> None:
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=True):
        task = DeleteGroupsOperator(task_id="t", **STORED, group_ids="{'a', '{{ params.group }}-dlq'}")
    with pytest.raises(ConfigurationError, match=r"group_ids.*rendered to nothing"):
        task.render_template_fields({"params": {"group": None}})


def test_an_item_of_a_set_that_jinja_reads_names_one_group_too() -> None:
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=True):
        tasks = [
            DeleteGroupsOperator(task_id=f"t{number}", **STORED, group_ids="{'a', '{{ params.group }}'}")
            for number in range(2)
        ]
    tasks[0].render_template_fields({"params": {"group": "a"}})
    assert tasks[0].group_ids == ["a"]
    with pytest.raises(ConfigurationError, match=r"group_ids.*a quote or a backslash"):
        tasks[1].render_template_fields({"params": {"group": "b','c"}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        '["a"{% if params.more %}, "{{ params.group }}"{% endif %}]',
        '["a"{% if params.more %}, "{{ params.group }}-dlq"{% endif %}]',
        '["a"{% if params.more %}, "{{ params.group }}2"{% endif %}]',
        '[{% for each in ["a", params.group] %}"{{ each }}"{% if not loop.last %}, {% endif %}{% endfor %}]',
        '{# one #}["a", "{{ params.group }}"]',
    ],
)
def test_nothing_beside_blocks_is_no_group_called_none(given: str, *, native: bool) -> None:
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = DeleteGroupsOperator(task_id="t", **STORED, group_ids=given)
    with pytest.raises(ConfigurationError, match=r"group_ids.*rendered to nothing"):
        task.render_template_fields({"params": {"group": None, "more": True}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "given", ['{"{{ params.group }}": OF}', '{ {% if true %}"{{ params.group }}": OF{% endif %} }']
)
def test_nothing_in_an_object_in_json_is_no_group_called_none(given: Any, *, native: bool) -> None:
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = AlterGroupOffsetsOperator(task_id="t", **STORED, offsets=given.replace("OF", '{"t": {"0": 5}}'))
    with pytest.raises(ConfigurationError, match=r"offsets.*rendered to nothing"):
        task.render_template_fields({"params": {"group": None}})


def test_nor_do_quotes_within_a_block() -> None:
    given = '["a", "{% if params["group"] %}{{ params["group"] }}{% endif %}"]'
    task = DeleteGroupsOperator(task_id="t", **STORED, group_ids=given)
    with pytest.raises(ConfigurationError, match=r"group_ids.*a quote or a backslash"):
        task.render_template_fields({"params": {"group": 'b","c'}})


@pytest.mark.parametrize("native", [False, True])
def test_a_name_in_an_object_in_json_adds_no_group_to_it(*, native: bool) -> None:
    """The offsets of a group that nobody meant were altered."""
    given: Any = '{"{{ params.group }}": {"{{ params["topic"] }}": {"0": {{ params.offset }}}}}'
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        tasks = [AlterGroupOffsetsOperator(task_id=f"t{number}", **STORED, offsets=given) for number in range(2)]
    tasks[0].render_template_fields({"params": {"group": "a", "topic": "t", "offset": 5}})
    assert [(group, *offsets.values()) for group, offsets in tasks[0].offsets.items()] == [("a", 5)]
    with pytest.raises(ConfigurationError, match=r"offsets.*a quote or a backslash"):
        tasks[1].render_template_fields({"params": {"group": 'a": {"t": {"0": 1}}, "b', "topic": "t", "offset": 5}})


@pytest.mark.parametrize("native", [False, True])
def test_partitions_beside_a_template_are_no_more_than_there_were(*, native: bool) -> None:
    """What stood for the first template was a 0, as the key of the first partition is."""
    given: Any = '{"{{ params.group }}": {"t": {"0": 5, "1": 6, "{{ params.partition }}": 7}}}'
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = AlterGroupOffsetsOperator(task_id="t", **STORED, offsets=given)
    task.render_template_fields({"params": {"group": "a", "partition": 2}})
    assert [list(offsets.values()) for offsets in task.offsets.values()] == [[5, 6, 7]]


def test_an_object_in_json_may_be_written_by_a_loop() -> None:
    given: Any = '{"a": {"t": { {% for each in [0, 1, 2] %}"{{ each }}": 5{{ "," if not loop.last }}{% endfor %} }}}'
    task = AlterGroupOffsetsOperator(task_id="t", **STORED, offsets=given)
    task.render_template_fields({})
    assert [list(offsets.values()) for offsets in task.offsets.values()] == [[5, 5, 5]]


def test_long_lists_beside_a_name_are_looked_at_once() -> None:
    """Two lists of ten thousand names could be parted in a hundred million ways."""
    names = [f"orders-{number}" for number in range(10_000)]
    given = '[{{ params.some | tojson }}, {{ params.some | tojson }}, "{{ params.group }}"]'
    task = DeleteGroupsOperator(task_id="t", **STORED, group_ids=given)
    with pytest.raises(ConfigurationError, match=r"group_ids.*a quote or a backslash"):
        task.render_template_fields({"params": {"some": names, "group": "a\\u002db"}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("secret", ["hunter2", "hunter2\\/", 'hunter2"'])
def test_properties_of_spark_in_json_are_in_no_error_about_a_template(secret: str, *, native: bool) -> None:
    """The task's log showed them all. A property may be the word None, as in an object that is no JSON."""
    given: Any = '{"conf": {"spark.my.password": "{{ params.secret }}", "spark.my.mode": "{{ params.mode }}"}}'
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = KafkaSparkSubmitOperator(task_id="t", application="x.py", spark=given)
    if native and '"' not in secret:
        task.render_template_fields({"params": {"secret": secret, "mode": "None"}})
        assert task.spark is not None
        assert task.spark["conf"]["spark.my.mode"] == "None"
        return
    with pytest.raises(ConfigurationError, match="spark") as caught:  # only Jinja makes a mapping of it
        task.render_template_fields({"params": {"secret": secret, "mode": "None"}})
    assert "hunter2" not in str(caught.value)


def test_long_objects_beside_a_name_are_looked_at_once() -> None:
    """A pattern of two names could be looked for in ten thousand offsets in a hundred million ways."""
    some = {f"orders-{number}": {"t": {"0": 5}} for number in range(3_000)}
    given: Any = (
        '{ {{ (params.some | tojson)[1:-1] }}, "{{ params.group }}": {"{{ params.topic }}": '
        '{ {% if true %}"0": 5{% endif %} } } }'
    )
    task = AlterGroupOffsetsOperator(task_id="t", **STORED, offsets=given)
    task.render_template_fields({"params": {"some": some, "group": "a", "topic": "t"}})
    assert len(task.offsets) == 3_001


def test_a_template_that_can_be_rendered_once_only_is_named() -> None:
    """It ended the task by an IndexError, which names no argument."""
    given = '{% set first = params.groups.pop() %}["{{ first }}"]'
    task = DeleteGroupsOperator(task_id="t", **STORED, group_ids=given)
    with pytest.raises(ConfigurationError, match=r"group_ids: its template can be rendered once only.*tojson"):
        task.render_template_fields({"params": {"groups": ["a"]}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        '{"{{ params.one }}": {"t": {"0": 5}}, "a": {"t": {"0": 7}}}',
        '{"g": {"{{ params.one }}": {"0": 5}, "a": {"0": 7}}}',
    ],
)
def test_no_offset_is_lost_to_a_name_that_is_there_already(given: Any, *, native: bool) -> None:
    """Jinja makes one of both, where JSON's reader refuses them."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = AlterGroupOffsetsOperator(task_id="t", **STORED, offsets=given)
    with pytest.raises(ConfigurationError, match=r"offsets.*(once in its place|there already)"):
        task.render_template_fields({"params": {"one": "a"}})
