"""Options and filters of the data source: what is refused, with which remedy, before a broker is touched."""

import json
import pickle
import platform
import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, StringStartsWith

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.models import BrokerId, GroupId, GroupListing, GroupState, GroupType
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.spark.kafka.connection_files import source_settings, write_source_settings
from airflow_kafka_groups.spark.source.options import SourceOptions
from airflow_kafka_groups.spark.source.reader import PushedFilters, cut, select
from tests.lab.security.certificates import Authority

BROKERS = {"kafka.bootstrap.servers": "b1:9092"}
SECRET = "s3cr3t-\u2028w0rd"  # U+2028 ends a line for Python, and none of a file


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "kafka.bootstrap.servers: give brokers as host:port"),
        ({**BROKERS, "inclde": "a"}, "inclde: no such option: use kafka.*, include, exclude"),
        ({**BROKERS, "groups.per.partition": "many"}, "groups.per.partition (got 'many'): give a whole number from 1"),
        ({**BROKERS, "groups.per.partition": "0"}, "groups.per.partition (got '0'): give a whole number from 1"),
        ({**BROKERS, "groups.per.partition": "9" * 5_000}, "9...): give a whole number from 1"),
        ({**BROKERS, "min.interval.seconds": "-1"}, "min.interval.seconds (got '-1'): give a whole number from 0"),
        ({**BROKERS, "columns": "group_id,toppic"}, "columns (got 'toppic'): no such column: use cluster_id, obser"),
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
    assert config.security.password == SECRET
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
        ("{" + f'"sasl.password": "{SECRET}"', "is no JSON object: Expecting ',' delimiter: line 1"),
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


def listing(group_id: str, coordinator: int, state: str = "Empty", protocol_type: str = "consumer") -> GroupListing:
    return GroupListing(
        group_id=GroupId(group_id),
        protocol_type=protocol_type,
        state=GroupState.parse(state),
        type=GroupType.CLASSIC,
        coordinator=BrokerId(coordinator),
    )


LISTINGS = [
    *(listing(f"a-{number}", number % 3) for number in range(9)),
    listing("a-live", 1, "Stable"),
    listing("b-connect", 1, protocol_type="connect"),
]


def selected(*conditions: Filter, exclude: tuple[str, ...] = ()) -> list[str]:
    filters = PushedFilters()
    assert list(filters.take(conditions)) == []
    return list(select(LISTINGS, GroupFilter(exclude=exclude), filters)["group_id"].to_pylist())


def test_patterns_and_conditions_on_every_column_of_a_group_must_hold() -> None:
    assert len(selected()) == len(LISTINGS)
    assert selected(EqualTo(("state",), "Stable")) == ["a-live"]
    assert selected(EqualTo(("protocol_type",), "connect"), EqualTo(("state",), "Empty")) == ["b-connect"]
    assert selected(EqualTo(("group_type",), "share")) == []
    assert selected(StringStartsWith(("group_id",), "a-l"), EqualTo(("state",), "Empty")) == []
    assert selected(StringStartsWith(("group_id",), "a-l")) == ["a-live"]
    assert selected(EqualTo(("protocol_type",), "consumer"), exclude=("a-?",)) == ["a-live"]


def test_each_group_is_in_one_part_with_what_is_known_of_it_and_brokers_take_turns() -> None:
    parts = cut(select(LISTINGS, GroupFilter(), PushedFilters()), 2)
    rows = [pickle.loads(pickle.dumps(part)).to_pylist() for part in parts]
    assert sorted((row for part in rows for row in part), key=lambda row: str(row["group_id"])) == [
        {
            "group_id": one.group_id,
            "group_type": "classic",
            "protocol_type": one.protocol_type,
            "state": one.state.value,
            "coordinator": int(one.coordinator),
        }
        for one in sorted(LISTINGS, key=lambda one: one.group_id)
    ]
    assert [{row["coordinator"] for row in part} for part in rows] == [{0}, {1}, {2}, {0}, {1}, {2}, {1}]
    assert all(1 <= len(part) <= 2 for part in parts)


def test_a_part_is_sent_without_the_groups_of_other_parts() -> None:
    groups = select([listing(f"{'long' * 50}-{number}", 1) for number in range(100)], GroupFilter(), PushedFilters())
    assert len(pickle.dumps(cut(groups, 10)[0])) < len(pickle.dumps(groups)) / 5


def test_no_groups_are_no_parts() -> None:
    assert cut(select([], GroupFilter(), PushedFilters()), 5) == []


ODD_SECRET = 'pa"ss\\wörd #=x'
TOKEN_URL = "https://login.example.com/token"
OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": TOKEN_URL,
    "sasl.oauthbearer.client.id": "jobs",
    "sasl.oauthbearer.client.secret": ODD_SECRET,
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc1",
}


def settings_of(properties: dict[str, Any], **more: Any) -> ConnectionSettings:
    return ConnectionSettings(conn_id="c", properties={"bootstrap.servers": "b:9092", **properties}, **more)


def read_back(properties: dict[str, Any], folder: Path, **more: Any) -> ClientConfig:
    """Return what the source makes of the file on an executor."""
    path = write_source_settings(settings_of(properties, **more), folder / "kafka.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_source_settings(settings_of(properties), path)
    return SourceOptions.parse({"config.file": str(path)}).client_config()


def test_a_plain_connection_is_its_brokers_and_limits_and_nothing_for_consumers(tmp_path: Path) -> None:
    given = {"client.id": "me", "group.id": "g", "auto.offset.reset": "earliest"}
    limits = {"request_timeout": 2.5, "api_timeout": 90.0, "batches_in_flight": 4}
    config = read_back(given, tmp_path, limits=limits)
    assert (config.bootstrap_servers, config.client_id) == ((("b", 9092),), "me")
    assert (config.request_timeout, config.api_timeout) == (2.5, 90.0)
    assert json.loads((tmp_path / "kafka.json").read_text()).keys() == {
        "bootstrap.servers",
        "client.id",
        "security.protocol",
        "request.timeout.ms",
        "default.api.timeout.ms",
        "socket.connection.setup.timeout.ms",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_passwords_come_through_whole(tmp_path: Path, protocol: str, mechanism: str) -> None:
    login = {"sasl.mechanisms": mechanism.lower(), "sasl.username": "u", "sasl.password": ODD_SECRET}
    security = read_back({"security.protocol": protocol.lower(), **login}, tmp_path).security
    assert security.protocol == protocol
    assert (security.mechanism, security.username, security.password) == (mechanism, "u", ODD_SECRET)


@pytest.mark.parametrize("form", ["pem", "location"])
@pytest.mark.parametrize("key_password", [None, ODD_SECRET])
def test_certificates_and_keys_go_in_as_pem_so_that_executors_need_no_files(
    tmp_path: Path, form: str, key_password: str | None
) -> None:
    authority = Authority()
    pair = authority.issue("ann", key_password=key_password)
    given = {"security.protocol": "SSL", "ssl.key.password": key_password}
    for name, text in (("ca", authority.certificate), ("certificate", pair.certificate), ("key", pair.key)):
        place = tmp_path / f"{name}.pem"
        place.write_text(text)
        given[f"ssl.{name}.{form}"] = text if form == "pem" else str(place)
    made = source_settings(settings_of(given))
    for place in tmp_path.glob("*.pem"):
        place.unlink()
    security = ClientConfig.from_librdkafka(made).security
    texts = [part.text for part in (security.ca, security.certificate, security.key)]
    assert texts == [authority.certificate, pair.certificate, pair.key]
    assert security.ssl_context() is not None


def test_host_names_and_certificates_go_unchecked_only_where_the_connection_says_so(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    given = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}
    security = read_back({**given, "enable.ssl.certificate.verification": "false"}, tmp_path).security
    assert (security.check_hostname, security.verify) == (False, False)
    security = read_back({"security.protocol": "SSL"}, tmp_path / "other").security
    assert (security.check_hostname, security.verify) == (True, True)


def test_oidc_goes_along_and_the_source_asks_for_tokens_itself(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text(text := Authority().certificate)
    made = source_settings(settings_of({**OIDC, "https.ca.location": str(authority)}))
    assert made["https.ca.pem"] == text
    assert {name: made[name] for name in OIDC} == OIDC
    assert "https.ca.location" not in made
    security = read_back(OIDC, tmp_path).security
    assert security.oauth is not None
    assert security.oauth.source is not None
    assert security.oauth.extensions == {"logicalCluster": "lkc1"}


def test_the_keytab_and_the_principal_reach_the_source(tmp_path: Path) -> None:
    login = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kfk", "sasl.kerberos.keytab": "/k/me.keytab"}
    given = {"security.protocol": "SASL_PLAINTEXT", **login, "sasl.kerberos.principal": "me@R"}
    sasl = read_back(given, tmp_path).security
    assert (sasl.kerberos_service, sasl.kerberos_keytab, sasl.kerberos_principal) == ("kfk", "/k/me.keytab", "me@R")


MSK = "b-1.c.k.c2.kafka.eu-west-1.amazonaws.com:9098"
GOOGLE = "bootstrap.c.us-central1.managedkafka.p.cloud.goog:9092"
TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**TOKENS, "bootstrap.servers": MSK}, "oauth_cb: tokens that Python makes in Airflow .*Amazon MSK IAM.*SCRAM"),
        ({**OIDC, "bootstrap.servers": GOOGLE}, "oauth_cb: tokens that Python makes in Airflow"),
        ({**TOKENS, "oauth_cb": "os.getcwd"}, "oauth_cb .*is not allowed"),
        ({**OIDC, "sasl.oauthbearer.client.secret": ""}, r"client\.secret: a token endpoint needs both"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/ca.pem"}, "ssl.ca.location .*cannot be read: No such"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/k.p12"}, r"ssl\.keystore\.location: .*openssl pkcs12"),
        ({"security.protocol": "SSL", "ssl.certificate.pem": ODD_SECRET, "ssl.key.pem": ODD_SECRET}, "cannot be read"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.password": ODD_SECRET},
            "needs a user name",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.password": ODD_SECRET}, "sasl.mechanism"),
    ],
)
def test_what_no_file_can_carry_is_named_with_the_remedy_and_nothing_is_written(
    tmp_path: Path, given: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        write_source_settings(settings_of(given), tmp_path / "kafka.json")
    assert ODD_SECRET not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_callback_that_airflow_allows_goes_along_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", "platform.node")
    given = {**TOKENS, "oauth_cb": "platform.node", "sasl.oauthbearer.config": "principal=me"}
    made = source_settings(settings_of(given))
    assert (made["oauth_cb"], made["sasl.oauthbearer.config"]) == ("platform.node", "principal=me")
