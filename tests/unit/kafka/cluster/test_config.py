"""librdkafka settings to ClientConfig: what is understood, what is refused, and what is never shown."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.transport.security import SaslConfig

SECRET = "s3cr3t-value"


def parse(**overrides: Any) -> ClientConfig:
    settings = {"bootstrap.servers": "b1:9092"} | {key.replace("_", "."): value for key, value in overrides.items()}
    return ClientConfig.from_librdkafka(settings)


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("b1:9092", (("b1", 9092),)),
        ("b1", (("b1", 9092),)),
        ("b1:1, b2:2 ,b1:1", (("b1", 1), ("b2", 2))),
        ("SASL_SSL://b1:9094,", (("b1", 9094),)),
        ("[::1]:9092,[fe80::1]", (("::1", 9092), ("fe80::1", 9092))),
    ],
)
def test_bootstrap_servers(text: str, servers: tuple[tuple[str, int], ...]) -> None:
    assert parse(bootstrap_servers=text).bootstrap_servers == servers


@pytest.mark.parametrize(
    "text", [None, "", " , ", "b1:port", "b1:0", "b1:70000", "b1:" + "9" * 5_000, ":9092", 9092, ["b1"], "b1:\uff19"]
)
def test_bootstrap_servers_that_cannot_be_read_are_named(text: object) -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        parse(bootstrap_servers=text)


@pytest.mark.safety
@pytest.mark.parametrize("text", [f"u:{SECRET}@b:1", f"b1:1,SASL_SSL://u:{SECRET}@b2:1", f"{SECRET}@b"])
def test_a_password_among_the_bootstrap_servers_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigurationError, match="without a user") as refused:
        parse(bootstrap_servers=text)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("text", ["b1:9092;b2:9092", "b1:9092\uff0cb2:9092", "b1 b2:9092", "b1|b2", "b0,b1\nb2"])
def test_servers_have_commas_between_them(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers .*write a comma between servers: b1:9092,b2"):
        parse(bootstrap_servers=text)


@pytest.mark.parametrize("text", ["kafka://b1:9092", "b1:9092/x"])
def test_what_is_no_server_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers .*without a scheme or a path"):
        parse(bootstrap_servers=text)


def test_missing_bootstrap_servers_say_what_to_give() -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers: is missing; give at least one broker"):
        ClientConfig.from_librdkafka({})


def test_settings_of_consumers_and_producers_are_let_through() -> None:
    config = parse(group_id="g", enable_auto_commit=False, client_id="me", socket_timeout_ms="1500")
    assert (config.client_id, config.request_timeout) == ("me", 1.5)


@pytest.mark.parametrize("spelling", ["sasl_mechanism", "sasl_mechanisms"])
def test_sasl(spelling: str) -> None:
    security = parse(
        security_protocol="sasl_ssl", sasl_username="u", sasl_password=SECRET, **{spelling: "scram-sha-512"}
    ).security
    assert security.protocol == "SASL_SSL"
    assert security.sasl == SaslConfig(mechanism="SCRAM-SHA-512", username="u", password=SECRET)
    assert security.uses_tls
    assert security.uses_sasl


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"security_protocol": "TLS"}, r"security\.protocol \(got 'TLS'\)"),
        ({"security_protocol": "SASL_SSL"}, r"sasl\.mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "NTLM"}, r"sasl\.mechanism \(got 'NTLM'\)"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, r"sasl\.username"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u"}, r"sasl\.password"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "oauth_cb"),
        ({"request_timeout_ms": "soon"}, r"request\.timeout\.ms \(got 'soon'\)"),
        ({"request_timeout_ms": 0}, r"request\.timeout\.ms"),
        ({"enable_ssl_certificate_verification": "maybe"}, r"enable\.ssl\.certificate\.verification"),
        ({"ssl_endpoint_identification_algorithm": "htps"}, r"ssl\.endpoint\.identification\.algorithm \(got 'htps'\)"),
        ({"ssl_endpoint_identification_algorithm": "https "}, r"identification\.algorithm .*give https, or none"),
        ({"ssl_endpoint_identification_algorithm": True}, r"identification\.algorithm \(got True\)"),
    ],
)
def test_bad_settings_are_named_with_their_value(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        parse(**settings)


@pytest.mark.parametrize("override", [{"batch_size": 0}, {"api_timeout": 0}, {"singles_in_flight": -1}])
def test_bad_limits_are_named(override: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(override))):
        ClientConfig.from_librdkafka({"bootstrap.servers": "b1"}, **override)


def test_no_secret_is_ever_shown() -> None:
    config = parse(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="u",
        sasl_password=SECRET,
        ssl_key_pem=SECRET,
        ssl_key_password=SECRET,
        ssl_certificate_pem=SECRET,
        ssl_ca_pem=SECRET,
    )
    assert SECRET not in repr(config)
    assert SECRET not in str(config)
    with pytest.raises(ConfigurationError) as refused:
        config.security.ssl_context()
    assert SECRET not in str(refused.value)


def test_oauth_extensions_are_read_as_librdkafka_reads_them() -> None:
    given = {
        "bootstrap.servers": "b1:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda text: ("t", 1.0),
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, poolId=p",
    }
    config = ClientConfig.from_librdkafka(given)
    assert config.security.oauth is not None
    assert config.security.oauth.extensions == {"logicalCluster": "lkc-1", "poolId": "p"}
    for wrong in ("a", "=b", "a b=c", "a=\x01auth=Bearer x"):
        with pytest.raises(ConfigurationError, match="extensions"):
            ClientConfig.from_librdkafka({**given, "sasl.oauthbearer.extensions": wrong})


def test_an_oauth_callback_gives_the_token_as_librdkafkas_does() -> None:
    config = ClientConfig.from_librdkafka(
        {
            "bootstrap.servers": "b1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda text: (f"token for {text}", 12.5),
            "sasl.oauthbearer.config": "scope",
        }
    )
    assert config.security.oauth is not None
    assert config.security.oauth.token() == ("token for scope", 12.5)


def test_plain_text_needs_no_tls_context() -> None:
    assert parse().security.ssl_context() is None


def test_certificates_are_checked_unless_it_is_switched_off() -> None:
    checked = parse(security_protocol="SSL").security.ssl_context()
    unchecked = parse(security_protocol="SSL", enable_ssl_certificate_verification="false").security.ssl_context()
    no_name = parse(security_protocol="SSL", ssl_endpoint_identification_algorithm="none").security.ssl_context()
    assert checked is not None
    assert checked.check_hostname
    assert unchecked is not None
    assert unchecked.verify_mode.name == "CERT_NONE"
    assert no_name is not None
    assert (no_name.check_hostname, no_name.verify_mode.name) == (False, "CERT_REQUIRED")


def test_a_ca_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location.*nowhere\.pem"):
        parse(security_protocol="SSL", ssl_ca_location="nowhere.pem").security.ssl_context()


@pytest.mark.safety
def test_a_key_is_no_path_to_be_shown_nor_is_one_without_its_first_and_last_line() -> None:
    """As others export keys: the first part of this one, which a shortened message would still have, is all of it."""
    key = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg" + "3Xq7" * 34
    given = {"bootstrap.servers": "b:1", "security.protocol": "SSL", "ssl.key.location": key}
    for text in (key, f"{key[:64]}\n{key[64:]}"):
        with pytest.raises(ConfigurationError, match="-----BEGIN") as refused:
            ClientConfig.from_librdkafka({**given, "ssl.key.location": text})
        assert key[:20] not in str(refused.value)
    for name in ("ssl.key", "ssl.certificate"):
        for text in (
            f"-----BEGIN PRIVATE KEY-----{end}{key}{end}-----END PRIVATE KEY-----" for end in ("\n", r"\n", " ")
        ):
            with pytest.raises(
                ConfigurationError, match=rf"{name}\.location: is a PEM text: .* {name}\.pem"
            ) as refused:
                ClientConfig.from_librdkafka({**given, f"{name}.location": text})
            assert key[:20] not in str(refused.value)
    long = "/etc/kafka/clusters/production/europe/private/client/key"
    assert ClientConfig.from_librdkafka({**given, "ssl.key.location": long}).security.tls.key.location == long


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("bootstrap_servers", value) for value in ("b1:9092", ["b1:9092"], ("b1", 9092), (("b1", "9092"),), 5)],
        *[("api_timeout", value) for value in ("5", None, float("nan"))],
        *[("batch_size", value) for value in (1.5, "5", float("inf"))],
        ("batches_in_flight", None),
        ("singles_in_flight", 2.5),
        *[("client_id", value) for value in (None, 5, "\ud800", "x" * 40_000)],
    ],
)
def test_what_a_program_passes_is_checked_and_named(field: str, value: object) -> None:
    fields: dict[str, Any] = {"bootstrap_servers": (("b1", 9092),), field: value}
    with pytest.raises(ConfigurationError, match=f"^{field}"):
        ClientConfig(**fields)
