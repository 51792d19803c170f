"""A template within quotes in a list or an object in JSON is one string of it, and what cannot be parsed is refused."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.offset_changes import AlterGroupOffsetsOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator

pytestmark = pytest.mark.safety

STORED: dict[str, Any] = {"storage_path": "/data", "cluster": "prod"}


class Output:
    """What another task's output looks like."""

    def iter_references(self) -> None:
        """Stand for Airflow's method of that name."""

    def resolve(self, context: Any) -> Any:
        return {0: 7}


def task_with(native: bool, operator: Any = DeleteGroupsOperator, **arguments: Any) -> Any:
    """Return a task in a DAG of which Jinja makes Python's own objects, or strings."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        return operator(task_id="t", **STORED, **arguments)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", ['b","c', 'b", "c', "orders\\u002ddlq"], ids=["two", "spaced", "escape"])
def test_an_item_of_a_list_in_json_names_one_group_and_no_other(name: str, *, native: bool) -> None:
    """Whoever fills in a name adds none to those that are deleted."""
    task = task_with(native, group_ids='["a", "{{ params.group }}"]')
    with pytest.raises(ConfigurationError, match=r"group_ids.*a quote or a backslash.*tojson"):
        task.render_template_fields({"params": {"group": name}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("""["{{ params.groups | join('", "') }}"]""", "writes quotes itself"),
        (r"""["{{ params.groups | join("\", \"") }}"]""", "writes quotes itself"),
        ('["{{ macros.json.dumps(params.groups)[2:-2] }}"]', "writes quotes itself"),
        ('["a", "{{ (params.group | tojson)[1:-1] }}"]', "writes quotes itself"),
        ("""{% set comma = '", "' %}["{{ params.groups | join(comma) }}"]""", "beside {%"),
        ("""{% set names %}{{ params.groups | join('", "') }}{% endset %}["{{ names }}"]""", "beside {%"),
        ('{% set all %}["{{ params.group }}"]{% endset %}{{ all }}', "beside {%"),
        ("""{% macro all(names) %}{{ names }}{% endmacro %}["{{ all(params.groups) }}"]""", "beside {%"),
        ("""{% with comma = '", "' %}["{{ params.groups | join(comma) }}"]{% endwith %}""", "beside {%"),
        ('[{% for each in params.groups %}"{{ each }}"{{ ", " if not loop.last }}{% endfor %}]', "beside {%"),
        ('["{% for each in params.groups %}{{ each }}{% endfor %}"]', "beside {%"),
        ('["a", "{% if params["group"] %}{{ params["group"] }}{% endif %}"]', "beside {%"),
        ('{% if params.more %}["x"]{% else %}["{{ params.group }}"]{% endif %}', "beside {%"),
        ("{% raw %}[{% endraw %}'{{ params.group }}']", "beside {%"),
        ("['a', '{{ params.group }}']", "is no JSON"),
        ("{'a', '{{ params.group }}'}", "is no JSON"),
        ('["a", "{{ params.group }}"', "is no JSON"),
        ('[{{ params.groups | tojson }}, "{{ params.group }}",]', "is no JSON"),
        ('{ {{ (params.some | tojson)[1:-1] }}, "{{ params.group }}": {} }', "is no JSON"),
        ('{ {{ params.name }}: "{{ params.group }}" }', "is no JSON"),
    ],
)
def test_what_cannot_be_parsed_is_refused_when_the_dag_file_is(given: str, why: str, *, native: bool) -> None:
    """Nobody knows how many names it is rendered to, or where each of them ends."""
    with pytest.raises(ConfigurationError, match=rf"group_ids.*has a template within quotes.*{re.escape(why)}.*tojson"):
        task_with(native, group_ids=given)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        "{{ params.groups | tojson }}",
        "[{% for each in params.groups %}{{ each | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}]",
        "[{% for each in params.groups %}{{ each | tojson }}{{ ', ' if not loop.last }}{% endfor %}]",
        "{% set all = params.groups %}{{ all | tojson }}",
        "{% if params.groups %}{{ params.groups | tojson }}{% else %}[]{% endif %}",
        "[{{ params.groups | map('tojson') | join(', ') }}]",
    ],
)
@pytest.mark.parametrize("names", [["a"], ['b", "c', "d\\u002de", "'", "None"]])
def test_a_template_may_write_json_itself(given: str, names: list[str], *, native: bool) -> None:
    task = task_with(native, group_ids=given)
    task.render_template_fields({"params": {"groups": names}})
    assert task.group_ids == names


@pytest.mark.parametrize("native", [False, True])
def test_a_template_beside_quotes_is_one_value_in_json(*, native: bool) -> None:
    """A number without quotes, or what ``tojson`` writes."""
    given = '{"{{ params.group }}": {"t": {"0": {{ params.offset }}, "1": 6}, "u": {{ params.others | tojson }}}}'
    task = task_with(native, AlterGroupOffsetsOperator, offsets=given)
    task.render_template_fields({"params": {"group": "a", "offset": 5, "others": {"2": 7}}})
    assert [list(offsets.values()) for offsets in task.offsets.values()] == [[5, 6, 7]]
    for hostile in ('5, "9": 1', "None", None, "x"):
        task = task_with(native, AlterGroupOffsetsOperator, offsets=given)
        with pytest.raises(ConfigurationError, match=r"offsets.*rendered to no JSON.*tojson"):
            task.render_template_fields({"params": {"group": "a", "offset": hostile, "others": {}}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", ["5", "1e5", "True", "a b", " a", "[x]", "{{ 1 }}", "é", "-", "ns:team/orders"])
def test_a_name_in_a_list_in_json_stays_as_it_is(name: str, *, native: bool) -> None:
    """Jinja would make a number of it. A group may also be called like a template: it is rendered once."""
    task = task_with(native, group_ids='["a", "{{ params.group }}", "caf\\u00e9 {#- no #}\\"{{- params.group }}"]')
    task.render_template_fields({"params": {"group": name}})
    assert task.group_ids == ["a", name, f'caf\u00e9"{name}']


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        '["a", "{{ params["group"] }}"]',
        """["a", "{{ params.get('autojson') or params.group }}"]""",
        '["a", "{{ params.get("group", "x") }}"]',
        """["a", "{{ params['team'] ~ "" ~ params['group'] }}"]""",
        '["a", "{{ {"a": {"b": params.group}}["a"]["b"] }}"]',
        '{# one #}["a", "{{ params.group }}"]',
    ],
)
def test_quotes_within_an_expression_end_no_string_of_a_list_in_json(given: str, *, native: bool) -> None:
    tasks = [task_with(native, group_ids=given) for _ in range(3)]
    tasks[0].render_template_fields({"params": {"team": "", "group": "b"}})
    assert tasks[0].group_ids == ["a", "b"]
    with pytest.raises(ConfigurationError, match=r"group_ids.*a quote or a backslash"):
        tasks[1].render_template_fields({"params": {"team": "", "group": 'b","c'}})
    with pytest.raises(ConfigurationError, match=r"group_ids.*rendered to nothing"):
        tasks[2].render_template_fields({"params": {"team": "", "group": None}})


@pytest.mark.parametrize("native", [False, True])
def test_a_comment_takes_no_pattern_out_of_a_list_that_jinja_reads(*, native: bool) -> None:
    """What Python takes for one is none in JSON: groups that a pattern behind it keeps were deleted."""
    task = task_with(native, BackupGroupOffsetsOperator, exclude='["{{ params.team }}-*", "payments-*"]')
    with pytest.raises(ConfigurationError, match=r"exclude.*a quote or a backslash"):
        task.render_template_fields({"params": {"team": 'x"]#'}})


@pytest.mark.parametrize("native", [False, True])
def test_nothing_in_an_object_in_json_is_no_group_called_none(*, native: bool) -> None:
    task = task_with(native, AlterGroupOffsetsOperator, offsets='{"{{ params.group }}": {"t": {"0": 5}}}')
    with pytest.raises(ConfigurationError, match=r"offsets.*rendered to nothing"):
        task.render_template_fields({"params": {"group": None}})


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
    given: Any = '{"a": {"t": { {% for each in range(3) %}"{{ each }}": 5{{ "," if not loop.last }}{% endfor %} }}}'
    with pytest.raises(ConfigurationError, match=r"offsets.*beside {%"):
        task_with(False, AlterGroupOffsetsOperator, offsets=given)
    given = given.replace('"{{ each }}"', "{{ each | string | tojson }}")
    task = task_with(False, AlterGroupOffsetsOperator, offsets=given)
    task.render_template_fields({})
    assert [list(offsets.values()) for offsets in task.offsets.values()] == [[5, 5, 5]]


@pytest.mark.parametrize("native", [False, True])
def test_a_template_in_a_key_of_a_mapping_is_rendered(*, native: bool) -> None:
    """Airflow renders the values only: offsets of a group called ``{{ params.group }}`` were altered."""
    given: Any = {"{{ params.group }}": {"t": {0: "{{ params.offset }}", 1: 6}, "u{# #}": Output()}}
    task = task_with(native, AlterGroupOffsetsOperator, offsets=given)
    task.render_template_fields({"params": {"group": "5", "offset": 5}})
    assert [(group, *offsets.values()) for group, offsets in task.offsets.items()] == [("5", 5, 6, 7)]
    assert [where.topic for where in task.offsets["5"]] == ["t", "t", "u{# #}"]
    task = task_with(native, AlterGroupOffsetsOperator, offsets=given)
    with pytest.raises(ConfigurationError, match=r"offsets.*rendered to nothing"):
        task.render_template_fields({"params": {"group": None, "offset": 5}})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("secret", ["hunter2", "hunter2\\/", 'hunter2"'])
def test_properties_of_spark_in_json_are_in_no_error_about_a_template(secret: str, *, native: bool) -> None:
    """The task's log showed them all."""
    given: Any = '{"conf": {"spark.my.password": "{{ params.secret }}", "spark.my.mode": "{{ params.mode }}"}}'
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        tasks = [KafkaSparkSubmitOperator(task_id=f"t{each}", application="x.py", spark=given) for each in range(2)]
    tasks[0].render_template_fields({"params": {"secret": secret, "mode": "5"}})
    assert tasks[0].spark == {"conf": {"spark.my.password": secret, "spark.my.mode": "5"}}
    with pytest.raises(ConfigurationError, match=r"spark.*rendered to nothing") as caught:
        tasks[1].render_template_fields({"params": {"secret": secret, "mode": None}})
    assert "hunter2" not in str(caught.value)


def test_long_lists_of_templates_are_rendered_in_no_time() -> None:
    given = json.dumps([f"orders-{number}-{{{{ params.site }}}}" for number in range(3_000)])
    task = task_with(False, group_ids=given)
    task.render_template_fields({"params": {"site": "eu"}})
    assert task.group_ids[-1] == "orders-2999-eu"


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


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("topics", ['{"t": {"0": 5, "0": 7}}', '{"t": {"0": 5}}, "{{ params.one }}": {"t": {"0": 7}}'])
def test_no_offset_is_lost_to_a_name_that_is_written_twice(topics: str, *, native: bool) -> None:
    """JSON's reader refuses it where there is no template in it: here the second one counted."""
    given: Any = '{"{{ params.one }}": %s}'
    with pytest.raises(ConfigurationError, match=r"offsets.*has a name twice in one place"):
        task_with(native, AlterGroupOffsetsOperator, offsets=given % topics)
    task = task_with(native, AlterGroupOffsetsOperator, offsets=given % "{{ params.topics }}")
    with pytest.raises(ConfigurationError, match=r"offsets.*has a name twice in one place"):
        task.render_template_fields({"params": {"one": "a", "topics": '{"t": {"0": 5, "0": 7}}'}})


@pytest.mark.parametrize("native", [False, True])
def test_a_template_that_jinja_refuses_is_an_error_that_names_its_argument(*, native: bool) -> None:
    """It was an error of Jinja about a sign, or about a name, in any of the arguments of any of the tasks."""
    with pytest.raises(ConfigurationError, match=r"group_ids.*params.group.*Jinja cannot read.*unexpected '}'"):
        task_with(native, group_ids='["a", "{{ params.group }"]')
    task = task_with(native, group_ids='["a", "{{ parms.group }}"]')
    with pytest.raises(ConfigurationError, match=r"group_ids: a template.*cannot be rendered .'parms' is undef"):
        task.render_template_fields({"params": {"group": "a"}})


@pytest.mark.parametrize("native", [False, True])
def test_values_beside_a_template_in_a_key_are_rendered_as_airflow_does(*, native: bool) -> None:
    """Where Jinja makes Python's objects, ``False`` was a text by the key beside it: a switch that is on."""
    given = {"conf": {"spark.{{ params.name }}": "{{ params.size }}"}, "verbose": "{{ params.verbose }}"}
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = KafkaSparkSubmitOperator(task_id="t", application="x.py", spark=given)
    task.render_template_fields({"params": {"name": "x", "size": 5, "verbose": False}})
    conf, verbose = (5, False) if native else ("5", "False")
    assert task.spark == {"conf": {"spark.x": conf}, "verbose": verbose}


def test_a_key_that_is_rendered_may_have_any_sign() -> None:
    """In JSON, a quote may be of a macro that joins several names; in a mapping, a key is one name."""
    given: Any = {"{{ params.group }}": {"t": {0: 5}}}
    task = task_with(False, AlterGroupOffsetsOperator, offsets=given)
    task.render_template_fields({"params": {"group": 'CORP\\"x"'}})
    assert list(task.offsets) == ['CORP\\"x"']


@pytest.mark.parametrize("native", [False, True])
def test_a_line_end_in_json_is_a_part_of_the_name(*, native: bool) -> None:
    """Jinja takes it from the end of what it renders, once the list, and each name by now: another group was meant."""
    task = task_with(native, group_ids='["orders-{{ params.site }}\\n"]')
    task.render_template_fields({"params": {"site": "eu"}})
    assert task.group_ids == ["orders-eu\n"]
