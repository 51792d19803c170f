"""What a template is rendered to is one name, and something; what is no template stays as it is written."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import jinja2
import lazy_object_proxy  # type: ignore[import-untyped]
import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.xcom_arg import PlainXComArg

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import ListGroupsOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.spark import GroupOffsetsToSparkOperator, KafkaSparkSubmitOperator
from airflow_kafka_groups.sensors.groups import GroupsEmptySensor

pytestmark = pytest.mark.safety

STORED: dict[str, Any] = {"storage_path": "/data", "cluster": "prod"}
LETTER = "\N{GRINNING FACE}"
both = pytest.mark.parametrize("native", [False, True], ids=["text", "native"])


def made(operator: Any, dag: dict[str, Any] | None = None, **arguments: Any) -> Any:
    """Return a task of a DAG with these options; its storage is known."""
    needed = {name: value for name, value in STORED.items() if name in operator.template_fields}
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, **dag or {}):
        return operator(task_id="t", **needed | arguments)


def rendered(native: bool, operator: Any, params: Any, **arguments: Any) -> Any:
    """Return a rendered task in a DAG of which Jinja makes Python's own objects, or strings."""
    task = made(operator, {"render_template_as_native_obj": native}, **arguments)
    task.render_template_fields({"params": params})
    return task


def rendered_of_mapped(tasks: Any, **more: Any) -> Any:
    """Return the first task of a mapped one, as Airflow renders it."""
    ti, run = SimpleNamespace(map_index=0), SimpleNamespace(conf={})
    context: Any = {"dag": tasks.dag, "dag_run": run, "ti": ti, "task": tasks, **more}
    tasks.render_template_fields(context)
    return context["task"]


def over_output(monkeypatch: pytest.MonkeyPatch, operator: Any, given: dict[str, Any], by_keywords: bool) -> Any:
    """Return a task that is mapped over another task's output, which resolves to an argument."""
    found = [given] if by_keywords else list(given.values())
    monkeypatch.setattr(PlainXComArg, "resolve", lambda self, context: found)
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None):
        output = ListGroupsOperator(task_id="l").output
        others = {"group_ids": ["a"], "to": "latest"} if operator is ResetGroupOffsetsOperator else {}
        partial = operator.partial(
            task_id="t", **STORED, **{each: others[each] for each in others.keys() - given.keys()}
        )
        return partial.expand_kwargs(output) if by_keywords else partial.expand(**dict.fromkeys(given, output))


@both
@pytest.mark.parametrize(
    "given",
    [
        '["a", "{{ params.group }}"]',
        '["a-{{ params.group }}-*"]',
        "['a', '{{ params.group }}']",
        r'["\{{ params.group }},{{ params.group }}\"]',
        """["{{ params.groups | join('", "') }}"]""",
        """{{ params.begins }}"{{ params.x }}"]""",
        """{{ '[' }}"a", "{{ params.x }}"]""",
        '{% set all %}["{{ params.group }}"]{% endset %}{{ all }}',
        '[{% for each in params.groups %}"{{ each }}"{{ ", " if not loop.last }}{% endfor %}]',
        '["a", "{{ params.group }}"',
        '[{{ params.group | tojson }}, "orders-*"]',
        '{ {{ params.group }}: "{{ params.group }}" }',
    ],
)
def test_a_template_within_json_is_refused_when_the_dag_file_is_parsed(given: str, *, native: bool) -> None:
    """What is filled in could end the string: ``b","c`` was another group to delete."""
    with pytest.raises(ConfigurationError, match=r"group_ids \(got .*is JSON with.*\| tojson }}', or write it in"):
        made(DeleteGroupsOperator, {"render_template_as_native_obj": native}, group_ids=given)


def test_it_is_refused_of_a_mapped_task_too_and_shows_no_property_of_a_job() -> None:
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None):
        tasks: Any = DeleteGroupsOperator.partial(task_id="t", **STORED).expand(group_ids=["['{{ params.group }}']"])
    with pytest.raises(ConfigurationError, match=r"group_ids.*is JSON with"):
        rendered_of_mapped(tasks)
    spark: Any = '{"conf": {"spark.my.password": "hunter2", "spark.my.mode": "{{ params.mode }}"}}'
    with pytest.raises(ConfigurationError, match=r"spark: is JSON with") as caught:
        made(KafkaSparkSubmitOperator, application="x.py", spark=spark)
    assert "hunter2" not in str(caught.value)


@both
@pytest.mark.parametrize(
    "names", [["a"], ['b", "c', "d\\u002de", "'", "None", f"{LETTER}-</a>'\"\\", "{{ x }}", "a{{", "{% b"]], ids=str
)
@pytest.mark.parametrize(
    "given",
    [
        "{{ params.groups | tojson }}",
        "{{ params.groups }}",
        "{{ params.text }}",
        "\n  {{ params.groups }}\n\n",
        "{% set all = params.groups %}{{ all | tojson }}",
        "{% if params.groups %}\n  {{ params.groups }}\n{% endif %}",
    ],
)
def test_one_template_may_be_a_list(given: str, names: list[str], *, native: bool) -> None:
    """``tojson`` writes letters beyond 16 bits as two, which Python leaves as two that no name has."""
    params = {"groups": names, "text": json.dumps(names)}
    assert rendered(native, DeleteGroupsOperator, params, group_ids=given).group_ids == names
    assert rendered(native, DeleteGroupsOperator, {**params, "groups": set(names)}, group_ids="{{ params.groups }}")


@both
def test_no_offset_is_lost_to_a_name_that_is_there_twice(*, native: bool) -> None:
    params = {"text": '{"a": {"t": {"0": 5, "0": 7}}}'}
    with pytest.raises(ConfigurationError, match=r"offsets.*each name once"):
        rendered(native, AlterGroupOffsetsOperator, params, offsets="{{ params.text }}")


@both
@pytest.mark.parametrize(
    "item",
    [
        "{{ params.nothing }}",
        "{{ none }}-*",
        "{{ params.team }}-{{ params.nothing }}-*",
        "{% set team = params.nothing %}{{ team }}_*",
        "{{ params.nothing | string }}-*",
        " {{ params.nothing }}-dlq",
    ],
)
def test_nothing_in_an_item_is_no_name(item: str, *, native: bool) -> None:
    """There are groups called None, of programs with ``group_id=str(None)``; the pattern ``None-*`` keeps nothing."""
    params = {"team": "team-a", "nothing": None}
    for operator, name in ((PlanCleanupOperator, "exclude"), (DeleteGroupsOperator, "group_ids")):
        with pytest.raises(ConfigurationError, match=rf"{name} \(got .*rendered to nothing"):
            rendered(native, operator, params, **{name: ["a", item]})
    with pytest.raises(ConfigurationError, match=r"group_ids.*rendered to nothing"):
        rendered(native, GroupsEmptySensor, params, group_ids=[item])
    with pytest.raises(ConfigurationError, match=r"application_args: .*rendered to nothing"):
        rendered(native, KafkaSparkSubmitOperator, params, application="x.py", application_args=["--team", item])
    if "params.nothing" in item:
        taken = {"team": "team-None", "nothing": "Nonesuch"}
        assert "Nonesuch" in rendered(native, DeleteGroupsOperator, taken, group_ids=["a", item]).group_ids[1]


@both
@pytest.mark.parametrize(
    ("operator", "name", "arguments"),
    [
        (RestoreGroupOffsetsOperator, "group_ids", {"plan_id": "p"}),
        (ResetGroupOffsetsOperator, "topics", {"group_ids": ["a"], "to": "latest"}),
        (DeleteGroupsOperator, "group_ids", {}),
        (PlanCleanupOperator, "protected", {}),
        (PlanCleanupOperator, "cluster", {}),
        (GroupsEmptySensor, "kafka_groups_conn_id", {"group_ids": ["a"]}),
        (KafkaSparkSubmitOperator, "spark", {"application": "x.py"}),
    ],
)
def test_a_template_that_renders_to_nothing_is_not_all(
    operator: Any, name: str, arguments: Any, *, native: bool
) -> None:
    """``group_ids=None`` means every group of a backup to a restore: nobody meant that who gave a template."""
    for undefined in (jinja2.StrictUndefined, jinja2.Undefined, jinja2.ChainableUndefined):
        dag = {"render_template_as_native_obj": native, "template_undefined": undefined}
        for template in ("{{ params.nothing }}", "\n{{ params.nothing }}\n", "{{ params.misspelt }}"):
            task = made(operator, dag, **arguments | {name: template})
            with pytest.raises(ConfigurationError, match=rf"{name}.*(rendered to nothing|no attribute 'misspelt')"):
                task.render_template_fields({"params": {"nothing": None}})
            assert vars(task)[name] == template, "no default stands in for what is not known"
            with pytest.raises(ConfigurationError, match=rf"{name}: .*not rendered"):
                task.execute({})


@both
def test_no_default_stands_in_for_what_is_not_known_yet(*, native: bool) -> None:
    """All groups of a backup would be restored, as by ``group_ids=None``."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        output = ListGroupsOperator(task_id="l").output
        several: list[Any] = ["{{ params.groups }}", ["{{ params.groups }}"], output, [output]]
        tasks = [
            RestoreGroupOffsetsOperator(task_id=f"t{number}", **STORED, plan_id="p", group_ids=given)
            for number, given in enumerate(several)
        ]
    for task in tasks:
        assert task.group_ids is not None
        copied = task.prepare_for_execution()
        assert copied.group_ids is not None
        with pytest.raises(ConfigurationError, match=r"group_ids: .*not rendered"):
            copied.execute({})


@both
@pytest.mark.parametrize(
    ("item", "keep"),
    [
        ("{{ params.keep }}", ["team-a.*", "team-b.*"]),
        ("{{ params.keep }}", "['team-a.*', \"team-b\"]"),
        ("{{ params.keep }}", {"team-a": 1}),
        ("{{ params.keep | map('upper') }}", ["team-a.*"]),
        ("re:a-{{ params.keep }}", ["team-a", "team-b"]),
        ("{{ params.keep | join('\n') }}", ["team-a.*", "team-b.*"]),
        ("re:{{ params.keep }}", "payments-.*\r\n"),
        ("{{ params.keep[0] }}\n", ["a", "b"]),
        ("[{% for each in params.keep %}'{{ each }}', {% endfor %}]", ["a", "b"]),
        ("{% if params.keep %}['a', 'b']{% endif %}{{ '' }}", ["a", "b"]),
        ("['{{ params.keep[0] }}', 'b']", ["a", "b"]),
        ("{{ params.keep | tojson }}", []),
    ],
)
def test_an_item_is_rendered_to_one_name_without_a_line_end(item: str, keep: Any, *, native: bool) -> None:
    """The text of a list is a glob, of one letter of it; a pattern with the line end of a file keeps nothing.

    Each part of it may be sound.
    """
    for name, operator in (("exclude", PlanCleanupOperator), ("group_ids", DeleteGroupsOperator)):
        with pytest.raises(ConfigurationError, match=rf"{name}.*rendered to (several|a line end).*\| tojson"):
            rendered(native, operator, {"keep": keep}, **{name: ["a", item]})


@pytest.mark.parametrize("given", ["['a', 'b']", '["team-*"]', "('a',)", "[]"])
def test_the_text_of_a_list_is_no_pattern_wherever_it_comes_from(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a glob it is one letter, and keeps nothing: other tasks write such a text, and so may a file."""
    with pytest.raises(ConfigurationError, match=r"exclude.*is the text of a list"):
        made(PlanCleanupOperator, exclude=["b", given])
    monkeypatch.setattr(PlainXComArg, "resolve", lambda self, context: given)
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None):
        task = PlanCleanupOperator(task_id="t", **STORED, protected=[ListGroupsOperator(task_id="l").output])
    with pytest.raises(ConfigurationError, match=r"protected.*is the text of a list"):
        task.render_template_fields({})


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
def test_a_pattern_with_a_line_end_is_refused_wherever_it_is(end: str) -> None:
    given = f"re:payments-.*{end}"
    with pytest.raises(ConfigurationError, match=r"exclude.*remove the line end"):
        made(PlanCleanupOperator, exclude=[given])
    with pytest.raises(ConfigurationError, match=r"exclude.*remove the line end"):
        rendered(False, PlanCleanupOperator, {"keep": [given]}, exclude="{{ params.keep | tojson }}")


@both
@pytest.mark.parametrize(
    "name",
    [
        *("1e5", "3.10", "007", "True", "{'a': 1}", "None-*", "'a'", '"a"', "'a' 'b'"),
        *("a b", " a", "[0-9]", "(a)", "{{ 1 }}", "{% a", r"a\b", 'b","c', "R&D", LETTER),
    ],
)
def test_a_name_that_is_filled_in_is_that_name(name: str, *, native: bool) -> None:
    """Python makes ``3.1`` of a version, and another group of one with quotes."""
    params, given = {"x": name}, "{{ params.x }}"
    delete = rendered(native, DeleteGroupsOperator, params, cluster=given, group_ids=["a", given])
    assert (delete.cluster, delete.group_ids) == (name.strip(), ["a", name])
    assert rendered(native, GroupOffsetsToSparkOperator, params, group_id=given).group_id == name
    assert list(rendered(native, AlterGroupOffsetsOperator, params, offsets={given: {"t": {0: 5}}}).offsets) == [name]
    words = ["--group", given]
    job = rendered(native, KafkaSparkSubmitOperator, params, application="x.py", application_args=words)
    assert job.application_args == ["--group", name]


@both
@pytest.mark.parametrize("word", ['{"a": true}', "[1, 2]", "('a')", '["a"', "select 1\nfrom t", '["a"]'])
def test_a_word_for_a_program_may_be_any_text(word: str, *, native: bool) -> None:
    words = ["{{ params.x }}", "--x={{ params.x }}", "--topics={{ params.topics | tojson }}"]
    params = {"x": word, "topics": ["a"]}
    task = rendered(native, KafkaSparkSubmitOperator, params, application="x.py", application_args=words)
    assert task.application_args == [word, f"--x={word}", '--topics=["a"]']


@both
@pytest.mark.parametrize("name", ["orders\n", "orders{# x #}", "orders{#"])
def test_a_name_that_is_no_template_is_not_rendered(name: str, *, native: bool) -> None:
    """Jinja makes ``orders`` of it, which is another group."""
    for given, names in (([name], [name]), ([name, "{{ params.other }}"], [name, "b"])):
        assert rendered(native, DeleteGroupsOperator, {"other": "b"}, group_ids=given).group_ids == names
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, render_template_as_native_obj=native):
        tasks = DeleteGroupsOperator.partial(task_id="t", **STORED).expand(group_ids=[[name]])
    assert rendered_of_mapped(tasks).group_ids == [name]


@pytest.mark.parametrize("text", ["{{ params.team }-*", "{{ params.team", "{% b", "{{", "a {{ x }} {# b", "{{ x | }}"])
def test_a_template_without_an_end_fails_when_the_dag_file_is_parsed(text: str) -> None:
    for given in ([text], ["a", text], f'["a", "{text}"]', text):
        with pytest.raises(ConfigurationError, match=r"exclude.*a template that Jinja cannot read: close each"):
            made(PlanCleanupOperator, exclude=given)
    with pytest.raises(ConfigurationError, match=r"offsets.*Jinja cannot read"):
        made(AlterGroupOffsetsOperator, offsets={text: {"t": {0: 5}}})
    with pytest.raises(ConfigurationError, match=r"application_args: .*Jinja cannot read"):
        made(KafkaSparkSubmitOperator, application="x.py", application_args=[text])


@both
@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ params.nothing.here }}", "UndefinedError|no attribute 'nothing'"),
        ("{{ parms.group }}", "'parms' is undefined"),
        ("{{ params.group | nothing }}", "No filter named 'nothing'"),
        ("{{ params.group + 1 }}", "TypeError"),
        ("{{ params.read(params.group) }}", "ValueError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_an_error_that_names_its_argument(
    template: str, why: str, *, native: bool
) -> None:
    params = {"group": "hidden", "read": int}
    for given in ({template: {"t": {0: 5}}}, template):
        with pytest.raises(ConfigurationError, match=rf"offsets: .*cannot be rendered.*({why}).*check what") as caught:
            rendered(native, AlterGroupOffsetsOperator, params, offsets=given)
        assert "hidden" not in str(caught.value)


def test_no_rendered_value_and_no_secret_is_in_an_error() -> None:
    params = {"secret": "hunter2", "nothing": None, "several": ["hunter2"]}
    for name, given in (
        ("storage_path", "s3://AKIA:{{ params.secret }}@bucket/{{ params.nothing }}"),
        ("storage_path", "s3://AKIA:hunter2@bucket/{{ params.nothing }}"),
        ("group_ids", ["{{ params.secret }}-{{ params.nothing }}"]),
        ("group_ids", ["{{ params.several }}"]),
        ("group_ids", ["{{ params.secret }}\r{% if 1 %}{% endif %}\n-"]),
    ):
        with pytest.raises(ConfigurationError, match=rf"{name}.*rendered to") as caught:
            rendered(False, DeleteGroupsOperator, params, **{"group_ids": ["a"], name: given})
        assert "hunter2" not in str(caught.value)
    spark = {"conf": {"spark.{{ params.nothing }}": "hunter2"}}
    with pytest.raises(ConfigurationError, match=r"spark: a template") as caught:
        rendered(False, KafkaSparkSubmitOperator, {}, application="x.py", spark=spark)
    assert "hunter2" not in str(caught.value)


@both
def test_a_template_in_a_key_of_a_mapping_is_rendered(*, native: bool) -> None:
    """Airflow renders the values only: offsets of a group called ``{{ params.group }}`` were altered."""
    given: Any = {"{{ params.group }}": {"t": {0: "{{ params.offset }}", 1: 6}, "u{# #}": {0: 7}}, "a": {"t": {0: 1}}}
    task = rendered(native, AlterGroupOffsetsOperator, {"group": '5\\"', "offset": 5}, offsets=given)
    assert {group: list(offsets.values()) for group, offsets in task.offsets.items()} == {'5\\"': [5, 6, 7], "a": [1]}
    assert [where.topic for where in task.offsets['5\\"']] == ["t", "t", "u{# #}"]
    for group, why in ((None, "rendered to nothing"), ("a", "is there already"), ("", "non-empty string")):
        with pytest.raises(ConfigurationError, match=rf"offsets.*{why}"):
            rendered(native, AlterGroupOffsetsOperator, {"group": group, "offset": 5}, offsets=given)
    for topic in ("t", "{{ params.topic }}"):
        wrong: Any = {"{{ params.group }}": {TopicPartition(topic, 0): 5}}
        with pytest.raises(ConfigurationError, match=r"offsets of 'b'.*TopicPartition.*must be a non-empty string"):
            rendered(native, AlterGroupOffsetsOperator, {"group": "b"}, offsets=wrong)


@both
def test_numbers_flags_and_times_are_read_as_text(*, native: bool) -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    params = {"flag": False, "rate": "2.5", "number": 7, "at": lazy_object_proxy.Proxy(lambda: at)}
    places = {"dry_run": "{{ params.flag }}", "groups_per_second": "{{ params.rate }}"}
    task = rendered(
        native, DeleteGroupsOperator, params, group_ids=["a"], approve_above=" {{ params.number }}", **places
    )
    assert (task.dry_run, task.groups_per_second, task.approve_above) == (False, 2.5, 7)
    reset = rendered(native, ResetGroupOffsetsOperator, params, group_ids=["a"], timestamp="{{ params.at }}")
    assert reset.timestamp == 1_769_860_800_000
    params["at"] = at.replace(tzinfo=None)
    with pytest.raises(ConfigurationError, match=r"timestamp .*with its zone"):
        rendered(native, ResetGroupOffsetsOperator, params, group_ids=["a"], timestamp="{{ params.at }}")
    params["at"] = lazy_object_proxy.Proxy(lambda: None)
    with pytest.raises(ConfigurationError, match=r"timestamp.*rendered to nothing"):
        rendered(native, ResetGroupOffsetsOperator, params, group_ids=["a"], timestamp="{{ params.at }}")


@both
def test_properties_of_spark_are_what_airflow_makes_of_them(*, native: bool) -> None:
    """The word ``False`` is true, and the text of a list is no file. There is no HTML in either."""
    given = {"conf": {"spark.{{ params.name }}.a": "{{ params.no }}"}, "py_files": "{{ params.files }}"}
    given |= {"files": ["{{ params.name }}", "b"], "name": "{{ params.team }}"}
    params = {"name": "5", "no": False, "files": ["a.py", "b.py"], "team": "R&D"}
    job = made(
        KafkaSparkSubmitOperator,
        {"render_template_as_native_obj": native, "jinja_environment_kwargs": {"autoescape": True}},
        application="{{ params.team }}.py",
        application_args=["{{ params.team }}"],
        spark=given,
    )
    job.render_template_fields({"params": params})
    assert (job.application, job.application_args) == ("R&D.py", ["R&D"])
    files = ["a.py", "b.py"] if native else "['a.py', 'b.py']"
    conf = {"spark.5.a": False if native else "False"}
    assert job.spark == {"conf": conf, "py_files": files, "files": [5 if native else "5", "b"], "name": "R&D"}


@pytest.mark.parametrize(
    ("operator", "name", "given", "text"),
    [
        (GroupOffsetsToSparkOperator, "group_id", '{"team": "{{ params.team }}"}', '{"team": "a"}'),
        (GroupOffsetsToSparkOperator, "group_id", '["{{ params.team }}"{% if 1 %}]{% endif %}', '["a"]'),
        (PlanCleanupOperator, "cluster", "['{{ params.team }}']", "['a']"),
        (PlanCleanupOperator, "policy_file", "[it's]/{{ params.team }}.json", "[it's]/a.json"),
    ],
)
def test_text_is_no_json_also_where_it_begins_so(operator: Any, name: str, given: str, text: str) -> None:
    assert getattr(rendered(False, operator, {"team": "a"}, **{name: given}), name) == text


def test_what_a_cluster_policy_sets_is_read_as_what_a_dag_file_says() -> None:
    """Airflow calls ``task_policy`` with each task when its DAG file is parsed."""
    task = made(PlanCleanupOperator, max_groups="{{ params.most }}")
    task.exclude, task.max_groups = ["{{ params.keep }}-*"], 7
    with pytest.raises(ConfigurationError, match="max_groups"):
        task.max_groups = "many"
    with pytest.raises(ConfigurationError, match=r"exclude.*is JSON with"):
        task.exclude = '["{{ params.keep }}-*"]'
    task.render_template_fields({"params": {"keep": "pay"}})
    assert (task.exclude, task.max_groups) == (("pay-*",), 7)


@pytest.mark.parametrize("by_keywords", [False, True])
@pytest.mark.parametrize("name", ["topics", "group_ids"])
def test_nothing_among_what_a_task_is_mapped_over_is_not_all(
    monkeypatch: pytest.MonkeyPatch, name: str, *, by_keywords: bool
) -> None:
    """``topics=None`` resets the offsets of all topics: nobody meant that who mapped over another task's output."""
    tasks = over_output(monkeypatch, ResetGroupOffsetsOperator, {name: None}, by_keywords)
    with pytest.raises(ConfigurationError, match=name):
        rendered_of_mapped(tasks)


@pytest.mark.parametrize("by_keywords", [False, True])
@pytest.mark.parametrize(
    "names",
    [
        ["{{", "b"],
        ["{#", "{% if secret %}a{% endif %}"],
        ["{% a", "b"],
        ['{{ "a', "b"],
        ["{{ secret }}", "it's"],
        ["a\n", "b{# x #}"],
    ],
    ids=repr,
)
def test_names_that_another_task_returned_are_no_templates(
    monkeypatch: pytest.MonkeyPatch, names: list[str], *, by_keywords: bool
) -> None:
    for given in (names, json.dumps(names)):
        tasks = over_output(monkeypatch, DeleteGroupsOperator, {"group_ids": given}, by_keywords)
        assert rendered_of_mapped(tasks, secret="a").group_ids == names


@pytest.mark.parametrize(
    "own",
    [
        {"variable_start_string": "<<", "variable_end_string": ">>"},
        {"block_start_string": "<%", "block_end_string": "%>"},
        {"comment_start_string": "<#", "comment_end_string": "#>"},
        {"line_statement_prefix": "#"},
        {"line_comment_prefix": "#"},
    ],
)
@pytest.mark.parametrize("given", [["<< params.team >>-*"], ["{{ params.team }}-*"], ["team#1"]])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_dag_with_delimiters_of_its_own_is_refused(own: dict[str, str], given: Any, *, mapped: bool) -> None:
    """A template was taken for a literal, and a comment cut a name short: the groups of a team were planned."""
    with DAG("d", start_date=datetime(2026, 1, 1), schedule=None, jinja_environment_kwargs=own):
        if mapped:
            tasks: Any = PlanCleanupOperator.partial(task_id="t", **STORED).expand(exclude=[given])
        else:
            tasks = PlanCleanupOperator(task_id="t", **STORED, exclude=given)
    with pytest.raises(ConfigurationError, match="leave delimiters out of this DAG's jinja_environment_kwargs"):
        rendered_of_mapped(tasks, params={"team": ["a"]})
