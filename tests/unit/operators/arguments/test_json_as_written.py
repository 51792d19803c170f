"""What is written beside templates in JSON stays as it is: no name, offset or sign of it is lost or changed."""

from __future__ import annotations

import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.xcom_arg import PlainXComArg

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import ListGroupsOperator
from airflow_kafka_groups.operators.offset_changes import AlterGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.spark import GroupOffsetsToSparkOperator, KafkaSparkSubmitOperator

pytestmark = pytest.mark.safety

STORED: dict[str, Any] = {"storage_path": "/data", "cluster": "prod"}


def rendered(native: bool, operator: Any, params: Any, **arguments: Any) -> Any:
    """Return a rendered task in a DAG of which Jinja makes Python's own objects, or strings."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        task = operator(task_id="t", **arguments)
    task.render_template_fields({"params": params})
    return task


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        '{"{{ params.group }}": {"t": {"0": 5, "0": 7}}}',
        '{"{{ params.group }}": {"t": {"0": 5}}, "b": {"t": {"0": 5}}, "b": {"u": {"0": 7}}}',
        '{"{{ params.group }}": {"t": {{ params.offsets }}}}',
    ],
)
def test_no_offset_is_lost_to_a_name_that_is_written_twice(given: str, *, native: bool) -> None:
    """The reader of JSON refuses one, but what has templates is parsed before: the last of both offsets was set."""
    params = {"group": "a", "offsets": '{"0": 5, "0": 7}'}
    with pytest.raises(ConfigurationError, match=r"offsets.*has a name twice in one place.*write each once"):
        rendered(native, AlterGroupOffsetsOperator, params, **STORED, offsets=given)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("given", "name"),
    [
        (r"{{ params.group }}\n", "orders\n"),
        (r"\n{{ params.group }}\r\n", "\norders\r\n"),
        (r"\u007b{ 1 }}-{{ params.group }}", "{{ 1 }}-orders"),
        (r"{\u0025 if 0 %}{{ params.group }}", "{% if 0 %}orders"),
        (r"{{ params.group }}{\u0023 dlq #}", "orders{# dlq #}"),
        ("{ {#- no -#} { 1 }}{{ params.group }}", "{{ 1 }}orders"),
    ],
)
def test_a_name_beside_a_template_is_the_one_in_json(given: str, name: str, *, native: bool) -> None:
    """Jinja read it after JSON's escapes: it took the line end, and the group ``orders`` was deleted."""
    task = rendered(native, DeleteGroupsOperator, {"group": "orders"}, **STORED, group_ids=f'["{given}"]')
    assert task.group_ids == [name]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize("given", ['["{{ params.team }}"]', ["{{ params.team }}"]], ids=["json", "list"])
def test_a_line_end_that_a_template_is_rendered_to_is_no_part_of_a_pattern(
    given: Any, end: str, *, native: bool
) -> None:
    """As of a Variable that was read from a file. JSON has none in a string: the pattern kept nothing."""
    with pytest.raises(ConfigurationError, match=r"exclude.*rendered to a line end.*\| trim"):
        rendered(native, PlanCleanupOperator, {"team": f"re:payments-.*{end}"}, **STORED, exclude=given)
    task = rendered(native, PlanCleanupOperator, {"team": "re:payments-.*"}, **STORED, exclude=given)
    assert task.exclude == ("re:payments-.*",)


@pytest.mark.parametrize(
    "given",
    [
        '["a", "{{ params.team }-*"]',
        '["a", "{{ params.team"]',
        '["{{ params.team }}-*", "{{"]',
        '["{{ params.team }}-*", "{% b"]',
        '["{{ params.team }}-*", "{# b"]',
        '["{{ params.team }}-*"] {{ params.other',
        '["{{ params.team }}-*"] {%',
    ],
)
def test_a_template_that_does_not_end_is_an_error_that_names_the_argument(given: str) -> None:
    """It was any error of Jinja, or what followed it was lost."""
    with pytest.raises(ConfigurationError, match=r"exclude.*a template that Jinja cannot read.*close each"):
        PlanCleanupOperator(task_id="t", **STORED, exclude=given)


@pytest.mark.parametrize("by_keywords", [False, True])
@pytest.mark.parametrize("names", [["{{", "b"], ["{% a", "b"], ['{{ "a', "b"], ["{{ a }}", "it's"]], ids=repr)
def test_names_in_json_that_another_task_gave_a_mapped_task_are_no_templates(
    names: list[str], monkeypatch: pytest.MonkeyPatch, *, by_keywords: bool
) -> None:
    """They were read as templates when the task was made, before anybody knew that they are none."""
    value: Any = {"group_ids": json.dumps(names)} if by_keywords else json.dumps(names)
    monkeypatch.setattr(PlainXComArg, "resolve", lambda self, context: [value])
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None) as dag:
        output = ListGroupsOperator(task_id="l").output
        partial = DeleteGroupsOperator.partial(task_id="t", **STORED)
        tasks: Any = partial.expand_kwargs(output) if by_keywords else partial.expand(group_ids=output)
    context: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={}), "ti": SimpleNamespace(map_index=0), "task": tasks}
    tasks.render_template_fields(context)
    assert context["task"].group_ids == names


def test_json_that_cannot_be_parsed_is_refused_in_a_mapped_task_too() -> None:
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None) as dag:
        tasks: Any = DeleteGroupsOperator.partial(task_id="t", **STORED).expand(group_ids=["['{{ params.group }}']"])
    context: Any = {"dag": dag, "dag_run": SimpleNamespace(conf={}), "ti": SimpleNamespace(map_index=0), "task": tasks}
    with pytest.raises(ConfigurationError, match=r"group_ids.*is no JSON around it"):
        tasks.render_template_fields(context)


@pytest.mark.parametrize(
    ("operator", "name", "given", "text"),
    [
        (GroupOffsetsToSparkOperator, "group_id", '{"team": "{{ params.team }}"}', '{"team": "a"}'),
        (GroupOffsetsToSparkOperator, "group_id", "[{{ params.team }}] it's {{ params.team }}", "[a] it's a"),
        (GroupOffsetsToSparkOperator, "group_id", '["{{ params.team }}"{% if 1 %}]{% endif %}', '["a"]'),
        (PlanCleanupOperator, "cluster", "['{{ params.team }}']", "['a']"),
        (PlanCleanupOperator, "policy_file", "[it's]/{{ params.team }}.json", "[it's]/a.json"),
        (KafkaSparkSubmitOperator, "application", "{x}/'{{ params.team }}'.py", "{x}/'a'.py"),
        (KafkaSparkSubmitOperator, "table", '["{{ params.team }}"].t', '["a"].t'),
    ],
)
def test_text_is_no_json_also_where_it_begins_so(operator: Any, name: str, given: str, text: str) -> None:
    """It was refused, or parsed to what is no text."""
    others: dict[str, Any] = {"group_id": "g", "application": "x.py"} | STORED
    taken = {each: others[each] for each in operator.template_fields if each in others} | {name: given}
    assert getattr(rendered(False, operator, {"team": "a"}, **taken), name) == text


@pytest.mark.parametrize("topic", ["t", "{{ params.topic }}"])
def test_a_key_of_a_mapping_that_is_no_string_is_an_error_that_names_the_argument(topic: str) -> None:
    """A pair of a topic and a partition became a list, which is no key."""
    given: Any = {"{{ params.group }}": {TopicPartition(topic, 0): 5}}
    with pytest.raises(ConfigurationError, match=r"offsets of 'a' \(got TopicPartition.*must be a non-empty string"):
        rendered(False, AlterGroupOffsetsOperator, {"group": "a"}, **STORED, offsets=given)


@pytest.mark.parametrize("sign", [r"\ue0009\ue002", r"\uE0001\uE002-b", "\ue0019\ue002", "\ue000"], ids=ascii)
def test_signs_that_stand_for_templates_are_refused_beside_them(sign: str) -> None:
    """An ``IndexError``, or another group: the first of them was taken for a template."""
    with pytest.raises(ConfigurationError, match=r"group_ids.*U\+E000.*tojson"):
        DeleteGroupsOperator(task_id="t", **STORED, group_ids=f'["{sign}", "{{{{ params.group }}}}"]')
    task = rendered(
        False, DeleteGroupsOperator, {"group": "\ue0000\ue002"}, **STORED, group_ids='["{{ params.group }}"]'
    )
    assert task.group_ids == ["\ue0000\ue002"], "what is filled in may have any sign"


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ params.nothing.here }}", r"UndefinedError|no attribute 'nothing'"),
        ("{{ params.group | nothing }}", "No filter named 'nothing'"),
        ("{{ params.group + 1 }}", "TypeError"),
        ("{{ params.read(params.group) }}", "ValueError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("as_mapping", [False, True])
def test_a_template_in_json_that_cannot_be_rendered_is_an_error_that_names_the_argument(
    template: str, why: str, *, as_mapping: bool, native: bool
) -> None:
    """Airflow names the argument in the log of what it renders; of this, nobody did."""
    given: Any = {template: {"t": {0: 5}}} if as_mapping else f'{{"{template}": {{"t": {{"0": 5}}}}}}'
    params = {"group": "hidden", "read": int}
    with pytest.raises(ConfigurationError, match=rf"offsets: .*cannot be rendered.*({why}).*check what") as caught:
        rendered(native, AlterGroupOffsetsOperator, params, **STORED, offsets=given)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ('["a", "{{ params.nothing }}"]', "{{ params.nothing }}"),
        ('["a", "team-{{ params.nothing }}"]', "team-None"),
        ('["a", "{{ params.several }}"]', "\\['b', 'c'\\]"),
        ('["a", "{{ params.quote }}"]', 'b"'),
        ('["a", {{ params.word }}, "{{ params.word }}"]', "orders"),
    ],
)
def test_an_error_about_a_name_in_json_shows_it(given: str, shown: str) -> None:
    """Of a long list, nobody knew which template it was."""
    params = {"nothing": None, "several": ["b", "c"], "quote": 'b"', "word": "orders"}
    with pytest.raises(ConfigurationError, match=rf"group_ids \(got .{shown}.*\): (an item of|a value in) it: its"):
        rendered(False, DeleteGroupsOperator, params, **STORED, group_ids=given)
    secret = '["a", "s3://AKIA:{{ params.word }}@b/{{ params.nothing }}"]'
    with pytest.raises(ConfigurationError, match=r"group_ids: an item of it") as caught:
        rendered(False, DeleteGroupsOperator, params, **STORED, group_ids=secret)
    assert "orders" not in str(caught.value)


def test_an_error_about_two_names_in_json_that_are_one_shows_it() -> None:
    given: Any = '{"{{ params.one }}": {"t": {"0": 5}}, "a": {"t": {"0": 7}}}'
    with pytest.raises(ConfigurationError, match=r"offsets \(got 'a'\): .*there already"):
        rendered(False, AlterGroupOffsetsOperator, {"one": "a"}, **STORED, offsets=given)


def test_values_beside_a_template_in_a_key_of_a_mapping_are_what_jinja_makes_of_them() -> None:
    """The word ``False`` is true, and the text of a list is no file: Spark was called with both."""
    given = {"conf": {"spark.{{ params.name }}.a": "{{ params.no }}"}, "verbose": "{{ params.no }}"}
    given |= {"py_files": "{{ params.files }}", "files": ["{{ params.name }}", "b"]}
    params = {"name": "5", "no": False, "files": ["a.py", "b.py"]}
    made = {"verbose": False, "py_files": ["a.py", "b.py"]}
    for native in (False, True):
        task = rendered(native, KafkaSparkSubmitOperator, params, application="x.py", spark=given)
        conf = {"spark.5.a": False if native else "False"}
        texts = {"verbose": "False", "py_files": "['a.py', 'b.py']"}
        assert task.spark == {"conf": conf, "files": [5 if native else "5", "b"]} | (made if native else texts)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("item", "why"),
    [
        ("{{ params.teams }}-*", "several"),
        ("re:{{ params.team }}-{{ params.teams }}", "several"),
        ("re:.* {{ params.nothing }} ", "nothing"),
        ("re:{{ params.nothing }}-.* ", "nothing"),
    ],
)
def test_a_list_or_nothing_in_a_part_of_a_pattern_is_no_pattern_that_keeps_nothing(
    item: str, why: str, *, as_json: bool, native: bool
) -> None:
    """``['a', 'b']-*`` is a pattern: of groups whose first sign is one of these."""
    params = {"teams": ["a", "b"], "team": "c", "nothing": None}
    given = json.dumps([item]) if as_json else [item]
    with pytest.raises(ConfigurationError, match=rf"exclude.*rendered to {why}"):
        rendered(native, PlanCleanupOperator, params, **STORED, exclude=given)
    task = rendered(native, PlanCleanupOperator, {"digits": "[0-9]"}, **STORED, exclude=["{{ params.digits }}-*"])
    assert task.exclude == ("[0-9]-*",)


@pytest.mark.parametrize(
    "given",
    [
        '{"{{ params.empty }}": {"t": {"0": 5}}}',
        '{"g": {"{{ params.empty }}": {"0": 5}}}',
        {"{{ params.empty }}": {"t": {0: 5}}},
        {"": {"t": {0: 5}}},
        {None: {"t": {0: 5}}},
        {"g": {5: {0: 5}}},
    ],
    ids=str,
)
def test_offsets_are_of_groups_and_topics_with_names(given: Any) -> None:
    """Brokers have a group without a name: a template that is rendered to no text was taken for it."""
    with pytest.raises(ConfigurationError, match=r"offsets.*each group and topic in it must be a non-empty string"):
        rendered(False, AlterGroupOffsetsOperator, {"empty": ""}, **STORED, offsets=given)
