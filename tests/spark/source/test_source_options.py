"""Options and filters of the data source: what is refused, with which remedy, before a broker is touched."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pyspark.sql
import pytest
from pyspark.sql import datasource
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, StringStartsWith

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.spark import source
from airflow_kafka_groups.spark.source.options import SourceOptions
from airflow_kafka_groups.spark.source.reader import PushedFilters

BROKERS = {"kafka.bootstrap.servers": "b1:9092"}
SECRET = "s3cr3t-\u2028w0rd"  # U+2028 ends a line for Python, and none of a file


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "kafka.bootstrap.servers: give brokers as host:port"),
        ({**BROKERS, "inclde": "a"}, "inclde: no such option: use kafka.*, include, exclude"),
        ({**BROKERS, "option.include": "a", "provider": "kafka_groups"}, "provider: no table can be made of groups"),
        ({**BROKERS, "groups.per.partition": "many"}, "groups.per.partition (got 'many'): give a whole number from 1"),
        ({**BROKERS, "groups.per.partition": "0"}, "groups.per.partition (got '0'): give a whole number from 1"),
        ({**BROKERS, "groups.per.partition": "9" * 5_000}, "9...): give a whole number from 1"),
        ({**BROKERS, "min.interval.seconds": "-1"}, "min.interval.seconds (got '-1'): give a whole number from 0"),
        ({**BROKERS, "columns": "group_id,toppic"}, "columns (got 'toppic'): no such column: use cluster_id, obser"),
        ({**BROKERS, "columns": "topic,topic"}, "columns (got 'topic,topic'): name each column once"),
        ({**BROKERS, "columns": "topic", "failures": "report"}, "columns (got 'topic'): add error"),
        ({**BROKERS, "columns": "topic", "state.path": "/s"}, "columns (got 'topic'): a stream has all columns"),
        ({**BROKERS, "with.lag": "1"}, "with.lag (got '1'): give true or false"),
        ({**BROKERS, "failures": "skip"}, "failures (got 'skip'): give fail or report"),
        ({**BROKERS, "include": "a,,b"}, "include (got ''): remove the empty pattern"),
        ({**BROKERS, "exclude": '["a"'}, "exclude (got '[\"a\"'): is not a JSON list of patterns"),
        ({**BROKERS, "exclude": f'["a", {"9" * 5_000}]'}, "...): is not a JSON list of patterns"),
        (
            {**BROKERS, "exclude": "b-*, re:a{1,3}"},
            "exclude (got 'b-*, re:a{1,3}'): a comma seems to be part of a pattern",
        ),
        ({**BROKERS, "include": "re:("}, "include (got 're:('): correct the regular expression"),
        ({**BROKERS, "kafka.sasl.password": SECRET}, "kafka.sasl.password: Spark shows options"),
        ({**BROKERS, "kafka.sasl.oauthbearer.config": SECRET}, "kafka.sasl.oauthbearer.config: Spark shows options"),
        (
            {**BROKERS, "kafka.ssl.certificate.pem": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END"},
            "kafka.ssl.certificate.pem: Spark shows options",
        ),
        ({**BROKERS, "kafka.ssl.key.pem": SECRET}, "kafka.ssl.key.pem: Spark shows options"),
        ({**BROKERS, "kafka.sasl.jaas.config": SECRET}, "kafka.sasl.jaas.config"),
        ({**BROKERS, "password": SECRET}, "password: no such option"),
        ({**BROKERS, "state.path": f"s3://key:{SECRET}@bucket/state"}, "state.path: Spark shows options"),
        ({**BROKERS, "config.file": f"s3://key:{SECRET}@bucket/kafka.json"}, "config.file: Spark shows options"),
        ({"Kafka.Bootstrap.Servers": f"b0:1,u:{SECRET}@b1:9092"}, "kafka.bootstrap.servers: Spark shows options"),
        ({"kafka.bootstrap.servers": f"SASL_SSL://u:{SECRET}@b1:1"}, "kafka.bootstrap.servers: Spark shows options"),
        ({**BROKERS, "state.path": f"abfss://c@a/state?sas_token={SECRET}"}, "state.path: Spark shows options"),
    ],
)
def test_a_bad_option_is_named_with_the_remedy_and_no_secret_is_repeated(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SourceOptions.parse(options)
    assert message in str(refused.value)
    assert SECRET not in str(refused.value)


def test_names_may_be_of_any_case_and_patterns_are_one_or_many_or_json() -> None:
    options = SourceOptions.parse(
        {**BROKERS, "Include": "a-*, b-*", "EXCLUDE": '["re:x{1,2}"]', "With.Lag": "FALSE", "failures": "Report"}
    )
    assert (options.include, options.exclude) == (("a-*", "b-*"), ("re:x{1,2}",))
    assert (options.with_lag, options.failures) == (False, "report")
    assert SourceOptions.parse({**BROKERS, "include": "re:a{1,2}"}).include == ("re:a{1,2}",)


@pytest.mark.parametrize(
    ("options", "needed"),
    [({}, True), ({"with.lag": "false"}, False), ({"columns": "lag"}, True), ({"columns": "group_id,topic"}, False)],
)
def test_the_ends_of_the_logs_are_requested_for_their_columns_only(options: dict[str, str], needed: bool) -> None:
    assert SourceOptions.parse({**BROKERS, **options}).needs_log_ends is needed


@pytest.mark.parametrize("form", ["json", "properties", "environment"])
def test_settings_come_from_a_file_or_a_variable_and_never_travel_with_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    settings = {
        "bootstrap.servers": "b2:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": SECRET,
    }
    file = tmp_path / "kafka.settings"
    file.write_text(
        json.dumps(settings) if form == "json" else "# of Kafka\n" + "\n".join(f"{k}={v}" for k, v in settings.items())
    )
    monkeypatch.setenv("KAFKA_SETTINGS", json.dumps(settings))
    where = {"config.env": "KAFKA_SETTINGS"} if form == "environment" else {"config.file": str(file)}
    options = SourceOptions.parse(where)
    assert SECRET not in repr(options)
    config = options.client_config()
    assert config.bootstrap_servers == (("b2", 1),)
    assert config.security.sasl is not None
    assert config.security.sasl.password == SECRET
    overridden = SourceOptions.parse({**BROKERS, **where}).client_config()
    assert overridden.bootstrap_servers == (("b1", 9092),)


def test_a_token_function_is_imported_where_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    oauth = {**BROKERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    options = SourceOptions.parse({**BROKERS, "config.file": str(file)})
    file.write_text(json.dumps({**oauth, "oauth_cb": "nowhere.at_all"}))
    with pytest.raises(ConfigurationError, match=r"oauth_cb.*give package\.module\.function"):
        options.client_config()
    file.write_text(json.dumps({**oauth, "oauth_cb": "platform.node"}))
    found = options.client_config().security.oauth
    assert found is not None
    source: object = found.source
    assert source is platform.node


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read on"),
        ("{" + f'"sasl.password": "{SECRET}"', "is no JSON object (line 1"),
        (f"sasl.username=u\n{SECRET}", "line 2 is not name=value"),
    ],
)
def test_a_settings_file_that_cannot_be_used_is_named_without_its_text(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "settings"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        SourceOptions.parse({"config.file": str(file)}).client_config()
    assert message in str(refused.value)
    assert str(file) in str(refused.value)
    assert SECRET not in str(refused.value)


def test_an_environment_variable_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"config\.env.*NO_SUCH_VARIABLE.*no such environment variable"):
        SourceOptions.parse({"config.env": "NO_SUCH_VARIABLE"}).client_config()


def test_filters_on_the_group_and_the_topic_are_taken_and_all_others_left_to_spark() -> None:
    taken: list[Filter] = [
        StringStartsWith(("group_id",), "app-"),
        In(("group_id",), ("app-1", "app-2", "other")),
        EqualTo(("topic",), "orders"),
    ]
    left: list[Filter] = [
        GreaterThan(("lag",), 5),
        EqualTo(("partition",), 1),
        In(("topic",), ("orders", None)),
        EqualTo(("group_id", "nested"), "app-1"),
    ]
    filters = PushedFilters()
    assert list(filters.take([*taken, *left])) == left
    assert [name for name in ("app-1", "app-3", "other") if filters.holds("group_id", name)] == ["app-1"]
    assert filters.has_topic
    assert filters.holds("topic", "orders")
    assert not filters.holds("topic", "orders2")
    assert filters.holds("state", "Empty")


@pytest.mark.parametrize("text", ['[ "a-*", "b,*" ]', '[\n "a-*",\n "b,*"\n]', ' ["a-*", "b,*"]'])
def test_a_json_list_of_patterns_may_have_spaces_and_lines(text: str) -> None:
    options = SourceOptions.parse({**BROKERS, "include": text, "exclude": text})
    assert options.include == options.exclude == ("a-*", "b,*")


def test_an_empty_json_list_is_no_pattern() -> None:
    assert SourceOptions.parse({**BROKERS, "exclude": "[]"}).exclude == ()


@pytest.mark.parametrize("release", ["3.5", "4.0"])
def test_a_spark_without_filters_of_sources_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    if release == "3.5":  # has no such module
        monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
        monkeypatch.delattr(pyspark.sql, "datasource")
    else:
        monkeypatch.delattr(datasource, "Filter")
    with pytest.raises(ImportError, match=r"pyspark 4.* is too old for the data source kafka_groups: use Spark 4\.1"):
        source._check_requirements()


def test_a_file_with_a_number_of_thousands_of_digits_is_named(tmp_path: Path) -> None:
    (file := tmp_path / "kafka.json").write_text(
        f'{{"bootstrap.servers": "b1:9092", "socket.timeout.ms": {"9" * 5_000}}}'
    )
    with pytest.raises(ConfigurationError, match=r"config\.file .*kafka.json'\): has a number of thousands of digits"):
        SourceOptions.parse({"config.file": str(file)}).client_config()
