"""An Airflow connection becomes librdkafka properties; what cannot be understood is refused by name."""

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.connection import EXTRA_FIELDS, read_connection
from airflow_kafka_groups.provider_info import get_provider_info

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"


def made(**fields: Any) -> Connection:
    return Connection(**{"conn_id": "c", "conn_type": "kafka_groups", "host": "b1:9092", **fields})


def connection(extra: object = None, **fields: Any) -> Connection:
    return made(extra=None if extra is None else json.dumps(extra), **fields)


TOKENS = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "oauth_token_url": "https://h/token"}
SASL = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (connection(), {"bootstrap.servers": "b1:9092"}),
        (connection(host="b1,b2:9093", port=9095), {"bootstrap.servers": "b1:9095,b2:9093"}),
        (connection(host=" b1 , b2 ", port=0), {"bootstrap.servers": "b1:9092,b2:9092"}),
        (connection(host="[::1],[::2]:9093"), {"bootstrap.servers": "[::1]:9092,[::2]:9093"}),
        (connection({"security_protocol": "ssl"}), {"security.protocol": "ssl"}),
        (
            connection(SASL, login="u", password="p"),
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "u",
                "sasl.password": "p",
            },
        ),
        (connection({"ssl_ca_certificate": PEM}), {"ssl.ca.pem": PEM + "\n"}),
        (connection({"ssl_ca_certificate": "/etc/ca.pem"}), {"ssl.ca.location": "/etc/ca.pem"}),
        (connection({"ssl_certificate": PEM}), {"ssl.certificate.pem": PEM + "\n"}),
        (connection({"ssl_certificate": "/c.pem"}), {"ssl.certificate.location": "/c.pem"}),
        (connection({"ssl_private_key": PEM}), {"ssl.key.pem": PEM + "\n"}),
        (connection({"ssl_private_key": "/k.pem"}), {"ssl.key.location": "/k.pem"}),
        (connection({"ssl_key_password": "x"}), {"ssl.key.password": "x"}),
        (connection({"client_id": "me"}), {"client.id": "me"}),
        (
            connection({**TOKENS, "oauth_scope": "s", "oauth_extensions": "a=b"}, login="id", password="p"),
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.client.id": "id",
                "sasl.oauthbearer.client.secret": "p",
                "sasl.oauthbearer.token.endpoint.url": "https://h/token",
                "sasl.oauthbearer.scope": "s",
                "sasl.oauthbearer.extensions": "a=b",
            },
        ),
        (connection({"properties": {"a.b": 1, "c.d": None}}), {"a.b": 1}),
        (connection({"properties": '{"a.b": "1"}'}), {"a.b": "1"}),
        (connection({"a.b": "1"}), {"a.b": "1"}),
        (connection({"bootstrap.servers": "x:1"}, host=None), {"bootstrap.servers": "x:1"}),
        (connection({"properties": {"bootstrap.servers": "x:1"}}, host=""), {"bootstrap.servers": "x:1"}),
        (connection({"properties": '{"bootstrap.servers": "x:1"}'}, host=""), {"bootstrap.servers": "x:1"}),
        # what the form sends for fields that were left empty
        (connection({"sasl_mechanism": "", "client_id": None, "properties": None, "protected_groups": None}), {}),
        (connection({"security_protocol": "SSL", "properties": {"security.protocol": "SSL"}}), {}),
    ],
)
def test_each_field_becomes_its_property(given: Connection, expected: dict[str, object]) -> None:
    properties = read_connection(given).properties
    assert {name: properties.get(name) for name in expected} == expected
    assert properties.keys() <= expected.keys() | {"bootstrap.servers", "security.protocol"}


@pytest.mark.parametrize("name", sorted(EXTRA_FIELDS))
def test_no_field_of_the_form_is_passed_over(name: str) -> None:
    sasl = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"} if name.startswith("oauth") else {}
    try:
        found: object = read_connection(connection({**sasl, name: "x"}))
    except ConfigurationError as error:
        found = error.field
    assert found != read_connection(connection(sasl))
    assert not isinstance(found, str) or name in found


def test_every_field_of_the_form_is_known_and_read_as_the_form_sends_its_default() -> None:
    (kind,) = get_provider_info()["connection-types"]
    assert kind["conn-fields"].keys() == EXTRA_FIELDS
    defaults = {name: field["schema"].get("default") for name, field in kind["conn-fields"].items()}
    settings = read_connection(connection(defaults))
    assert settings.properties == {"bootstrap.servers": "b1:9092", "security.protocol": "PLAINTEXT"}
    assert settings.limits == {"request_timeout": 30, "api_timeout": 60}
    assert settings.read_only is False
    assert settings.protected_groups == ()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (connection(host=None), "host"),
        (connection(host="  "), "host"),
        (connection(host="kafka://b1:9092"), "host"),
        (connection(host="b1:9092,,b2"), "host"),
        (connection(host="b1:x"), "host"),
        (connection(host="b1:70000"), "host"),
        (connection(conn_type="http"), "type"),
        (connection([1]), "extra"),
        (made(extra="{not json"), "extra"),
        (made(extra='{"protected_groups": ["a"], "protected_groups": ["b"]}'), "extra.*a name twice"),
        (made(extra='{"read_only": true, "client_id": "c", "read_only": null}'), "extra.*a name twice"),
        (connection({"floors": '{"max_groups": 1, "max_groups": 9}'}), "floors.*each name once"),
        (connection({"read_onyl": True}), "read_onyl"),
        (connection({"read_only": "maybe"}), "read_only"),
        (connection({"read_only": 1}), "read_only"),
        (connection({"protected_groups": 5}), "protected_groups"),
        (connection({"protected_groups": [5]}), "protected_groups"),
        (connection({"protected_groups": ["re:("]}), "protected_groups"),
        (connection({"security_protocol": "TLS"}), "security_protocol"),
        (connection({"sasl_mechanism": "PLAIN2"}), "sasl_mechanism"),
        (connection({"security_protocol": "SASL_SSL"}, login="u", password="p"), "sasl_mechanism"),
        (connection(SASL, login="u"), "password"),
        (connection(SASL, password="p"), "login"),
        (connection(login="u"), "security_protocol"),
        (connection({"sasl_mechanism": "PLAIN"}), "security_protocol"),
        (connection({"request_timeout_seconds": "soon"}), "request_timeout_seconds"),
        (connection({"request_timeout_seconds": 0}), "request_timeout_seconds"),
        (connection({"api_timeout_seconds": True}), "api_timeout_seconds"),
        (connection({"properties": "[]"}), "properties"),
        (connection({"properties": "{"}), "properties"),
        (connection({"security_protocol": "SSL", "properties": {"security.protocol": "PLAINTEXT"}}), "security.proto"),
        (connection({"a.b": "1", "properties": {"a.b": "2"}}), "a.b"),
        (connection({"ssl_ca_certificate": "AAAA\nBBBB"}), "ssl_ca_certificate"),
        (connection({"ssl_key_password": 5}), "ssl_key_password"),
        (connection({"client_id": 5}), "client_id"),
        (connection({**SASL, "oauth_scope": "s"}, login="u", password="p"), "oauth_scope"),
        (connection({**TOKENS, "oauth_token_url": 5}), "oauth_token_url"),
        (connection({"parallelism": 0}), "parallelism"),
        (connection({"parallelism": "many"}), "parallelism"),
        *(
            (connection({"lease_group_prefix": prefix}), "lease_group_prefix")
            for prefix in (7, "a b", "x" * 101, "a/b")
        ),
        (connection(conn_type="kafka"), "bootstrap.servers"),
        (connection({"bootstrap.servers": " "}, conn_type="kafka"), "bootstrap.servers"),
        (connection({"bootstrap.servers": "b:1", "read_only": "x"}, conn_type="kafka"), "read_only"),
    ],
)
def test_bad_input_is_refused_by_the_name_of_its_field(given: Connection, field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        read_connection(given)


BAD = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ({"ssl_ca_certificate": BAD}, "ssl_ca_certificate"),
        ({"ssl_ca_certificate": "/nowhere.pem"}, "ssl_ca_certificate"),
        ({"ssl_certificate": BAD, "ssl_private_key": BAD}, "ssl_certificate"),
        ({"ssl_private_key": BAD}, "ssl_private_key"),
        ({"ssl_private_key": "QUJD" * 30}, "ssl_private_key"),
        ({"properties": {"ssl.ca.pem": BAD}}, "ssl.ca.pem"),
        ({"ssl.ca.location": "/nowhere.pem"}, "ssl.ca.location"),
        ({**TOKENS, "oauth_token_url": "nowhere"}, "oauth_token_url"),
        ({**TOKENS, "oauth_extensions": "a"}, "oauth_extensions"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"}, "sasl_mechanism"),
    ],
)
def test_an_error_names_the_field_that_was_filled_also_when_the_client_is_made(
    extra: dict[str, Any], field: str
) -> None:
    given = connection({"security_protocol": "SSL", **extra}, login="u", password="p")
    given = connection({"security_protocol": "SSL", **extra}) if "sasl_mechanism" not in extra else given
    with pytest.raises(ConfigurationError) as refused:
        read_connection(given).client_config().security.ssl_context()
    assert refused.value.field == field
    assert str(refused.value).startswith(field)


JAVA = {"sasl.jaas.config": "a.ScramLoginModule required;", "security.protocol": "SASL_SSL"}


@pytest.mark.parametrize("kind", ["kafka", "kafka_groups"])
def test_a_file_of_javas_client_that_was_pasted_is_named_before_what_is_missing_in_it(kind: str) -> None:
    extra = {"bootstrap.servers": "b1:9092", **JAVA, "sasl.mechanism": "SCRAM-SHA-512"}
    with pytest.raises(ConfigurationError, match=r"write sasl\.username and sasl\.password"):
        read_connection(connection(extra, conn_type=kind, host=None))


@pytest.mark.safety
@pytest.mark.parametrize("name", ["readonly", "read-only", "read.only", "ReadOnly", "read_onyl", "protected.groups"])
@pytest.mark.parametrize("kind", ["kafka", "kafka_groups"])
def test_a_switch_that_is_misspelt_does_not_pass_for_a_property(kind: str, name: str) -> None:
    """Nobody else would complain of it, and the connection that its owner takes for read-only could delete."""
    extra = {"bootstrap.servers": "b:1", name: True}
    nested = {"bootstrap.servers": "b:1", "properties": {name: True}}
    with pytest.raises(ConfigurationError, match=name):
        read_connection(connection(extra, conn_type=kind, host=None))
    with pytest.raises(ConfigurationError, match=name):
        read_connection(connection(nested, host=None))


PROPERTIES = """
builtin.features debug group.protocol group.protocol.type group.remote.assignor group.id
group.instance.id enable.auto.commit isolation.level topic.blacklist broker.address.ttl
plugin.library.paths error_cb stats_cb log_cb oauth_cb acks retries partitioner security.protocol
sasl.mechanisms sasl.kerberos.service.name sasl.oauthbearer.config session.timeout.ms
socket.timeout.ms request.timeout.ms auto.offset.reset reconnect.backoff.ms client.rack
client.dns.lookup metadata.recovery.strategy allow.auto.create.topics internal.termination.signal
"""


@pytest.mark.parametrize("name", PROPERTIES.split())
def test_real_properties_are_not_taken_for_a_misspelt_switch(name: str) -> None:
    extra = {"bootstrap.servers": "b:1", name: "x"}
    assert name in read_connection(connection(extra, conn_type="kafka", host=None)).properties


def test_a_connection_of_the_official_provider_is_taken_unchanged() -> None:
    extra = {"bootstrap.servers": "b1:9092,b2:9092", "sasl.mechanisms": "PLAIN", "group.id": "g", "x": None}
    settings = read_connection(connection(extra, conn_type="kafka", host=None))
    assert settings.properties == {k: v for k, v in extra.items() if v is not None}
    assert settings.limits == {}


def test_texts_from_a_uri_are_read_as_what_they_mean() -> None:
    settings = read_connection(
        connection({"read_only": "true", "protected_groups": "connect-*, a", "api_timeout_seconds": "90"})
    )
    assert settings.read_only is True
    assert settings.protected_groups == ("connect-*", "a")
    assert settings.limits == {"api_timeout": 90.0}
    assert read_connection(connection({"parallelism": "2"})).limits == {
        "batches_in_flight": 2,
        "singles_in_flight": 128,
        "commit_connections": 40,
    }


def test_protected_groups_are_names_and_patterns_that_know_case() -> None:
    settings = read_connection(connection({"protected_groups": ["connect-*", "pay"]}))
    assert list(filter(settings.protects, ("connect-a", "pay", "payments", "Connect-a", ""))) == ["connect-a", "pay"]
    assert not read_connection(connection()).protects("pay")


@pytest.mark.safety
@pytest.mark.parametrize("text", ["re:a-[0-9]{1,3}-.*", "connect-*, re:a{2,4}", "x\n[a,b]*", "re:(a,b)", "re:[,]"])
def test_a_pattern_is_not_torn_at_its_comma(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"protected_groups \(got .*a comma seems to be part .* JSON list"):
        read_connection(connection({"protected_groups": text}))
    settings = read_connection(connection({"protected_groups": json.dumps(["re:a-[0-9]{1,3}-.*"])}))
    assert settings.protects("a-12-b")


def test_commas_and_line_ends_are_between_patterns() -> None:
    text = "re:a{3}\r\nb, re:(b|c)\n job[1], re:\\[x\n,"
    found = read_connection(connection({"protected_groups": text})).protected_groups
    assert found == ("re:a{3}", "b", "re:(b|c)", "job[1]", "re:\\[x")


@pytest.mark.safety
@pytest.mark.parametrize("as_text", [False, True])
def test_an_id_in_a_list_is_protected_with_its_blanks_and_without(as_text: bool) -> None:
    given = ["orders ", "re:pay-[0-9] ", " "]
    settings = read_connection(connection({"protected_groups": json.dumps(given) if as_text else given}))
    assert all(map(settings.protects, ("orders ", "orders", "pay-1 ", "pay-1")))
    assert not any(map(settings.protects, ("order", " ", "pay-x", "")))


def test_no_secret_is_in_a_repr_or_an_error() -> None:
    secret = "s3cr3t"
    settings = read_connection(
        connection(
            {**SASL, "ssl_private_key": f"{PEM}{secret}", "ssl_key_password": secret}, login="u", password=secret
        )
    )
    assert secret not in repr(settings)
    for extra in (
        {"ssl_private_key": f"{secret}\n{secret}"},
        {"ssl_key_password": [secret]},
        {"sasl.password": secret, "properties": {"sasl.password": secret + "2"}},
        {"sasl.password": secret},
    ):
        with pytest.raises(ConfigurationError) as caught:
            read_connection(connection(extra))
        assert secret not in str(caught.value)
    for host in (f"SASL_SSL://u:{secret}@b:9092", f"u:{secret}@b:9092", f"b1:9092,u:{secret}@b2"):
        with pytest.raises(ConfigurationError, match="without a user") as caught:
            read_connection(connection(host=host))
        assert secret not in str(caught.value)


@pytest.mark.parametrize("kind", ["kafka_groups", "kafka"])
def test_the_leases_group_may_have_a_prefix(kind: str) -> None:
    extra = {"bootstrap.servers": "b:1", "lease_group_prefix": "team-a."}
    settings = read_connection(connection(extra, conn_type=kind, host=None))
    assert settings.lease_group_id == "team-a.airflow-kafka-groups-lease"
    assert (settings.protects(settings.lease_group_id), settings.protects("a")) == (True, False)
    assert "lease_group_prefix" not in settings.properties
