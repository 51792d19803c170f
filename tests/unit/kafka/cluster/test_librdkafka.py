"""The model as librdkafka's settings: what a confluent-kafka client takes, and what parses back to the same model."""

from __future__ import annotations

import importlib
import time
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.librdkafka import to_librdkafka
from tests.lab.security.certificates import Authority

SECRET = "s3cr3t-value"
AUTHORITY = Authority()
PAIR = AUTHORITY.issue("ann", key_password=SECRET)
TLS = {
    "ssl.ca.pem": AUTHORITY.certificate,
    "ssl.certificate.pem": PAIR.certificate,
    "ssl.key.pem": PAIR.key,
    "ssl.key.password": SECRET,
}
LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": SECRET}
KERBEROS = {"sasl.kerberos.service.name": "kfk", "sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "me@R"}
OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": SECRET,
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc1,poolId=p",
    "https.ca.pem": AUTHORITY.certificate,
}


def give_token(config: str) -> tuple[str, float]:
    return "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.", time.time() + 600


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"client.id": "me", "socket.timeout.ms": "1500", "socket.connection.setup.timeout.ms": "2000"},
        {"bootstrap.servers": "[::1]:9092,b2:1"},
        {"security.protocol": "SSL", **TLS},
        {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem", "ssl.endpoint.identification.algorithm": "none"},
        {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false", "ssl.cipher.suites": "AES"},
        {"security.protocol": "SASL_PLAINTEXT", **LOGIN},
        {"security.protocol": "SASL_SSL", **LOGIN, **TLS},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", **KERBEROS},
        {"security.protocol": "SASL_SSL", **OIDC},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": "a.b"},
    ],
)
def test_what_is_written_parses_back_to_the_same_model(settings: dict[str, str]) -> None:
    config = ClientConfig.parse({"bootstrap.servers": "b1:9092", **settings})
    written = to_librdkafka(config)
    assert ClientConfig.parse(written) == config
    assert {name: written[name] for name in settings} == settings


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"request.timeout.ms": "900000", "socket.connection.setup.timeout.ms": "5"},
        {"security.protocol": "SSL", **TLS},
        {"security.protocol": "SASL_SSL", "enable.ssl.certificate.verification": "false", **LOGIN, **TLS},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": give_token},
    ],
)
def test_confluents_client_takes_them(settings: dict[str, Any]) -> None:
    """Librdkafka checks names, bounds, certificates and keys when the client is made, and gets a token."""
    kafka: Any = importlib.import_module("confluent_kafka.admin")
    config = ClientConfig.from_librdkafka({"bootstrap.servers": "127.0.0.1:9", **settings})
    kafka.AdminClient(to_librdkafka(config), logger=importlib.import_module("logging").getLogger("quiet"))


@pytest.mark.parametrize("name", ["security.protocl", "security_protocol", "sasl.mecanism", "sasl.passwd"])
def test_a_misspelt_setting_of_the_login_is_not_left_out(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a property of Kafka; did you mean 's") as refused:
        ClientConfig.parse({"bootstrap.servers": "b1:9092", name: SECRET})
    assert refused.value.field == name
    assert SECRET not in str(refused.value)


@pytest.mark.safety
@pytest.mark.parametrize("value", [[SECRET], {"a": SECRET}], ids=["list", "object"])
def test_what_is_no_string_is_no_secret_and_is_not_shown(value: Any) -> None:
    """Written out it would be a wrong password, and brokers may lock the user out."""
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": value}
    wrong = {
        "sasl.password": {"bootstrap.servers": "b1:9092", **login},
        "bootstrap.servers": {"bootstrap.servers": [f"u:{SECRET}@b1:9092"]},
    }
    for name, settings in wrong.items():
        with pytest.raises(ConfigurationError, match=f"{name}: must be a string") as refused:
            ClientConfig.from_librdkafka(settings)
        assert SECRET not in str(refused.value)


SCRAM = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="{SECRET}";'
IAM = "software.amazon.msk.auth.iam.IAMLoginModule required;"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"sasl.jaas.config": SCRAM},
            r"sasl\.jaas\.config: .*Java's client only: write sasl.username and sasl.password",
        ),
        ({"sasl.jaas.config": "a.Krb5LoginModule required;"}, r"write sasl\.kerberos\.keytab and"),
        (
            {"sasl.jaas.config": "a.OAuthBearerLoginModule required;"},
            r"write sasl\.oauthbearer\.token\.endpoint\.url, ",
        ),
        ({"sasl.jaas.config": IAM, "sasl.mechanism": "AWS_MSK_IAM"}, "write OAUTHBEARER as sasl.mechanism"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, r"sasl\.mechanism \(got 'AWS_MSK_IAM'\): write OAUTHBEARER"),
        ({"ssl.truststore.location": "/t.jks"}, r"ssl\.truststore\.location: .*write ssl\.ca\.location, a file with"),
        ({"ssl.truststore.certificates": "PEM"}, r"write ssl\.ca\.pem"),
        ({"ssl.keystore.certificate.chain": "PEM"}, r"write ssl\.certificate\.pem"),
        ({"ssl.keystore.key": SECRET}, r"ssl\.keystore\.key: .*write ssl\.key\.pem"),
    ],
)
def test_what_only_javas_client_reads_is_named_with_what_to_write(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        ClientConfig.parse({"bootstrap.servers": "b1:9092", "security.protocol": "SASL_SSL", **given})
    assert SECRET not in str(refused.value)


def test_a_callback_gives_the_token_its_expiry_and_the_extensions() -> None:
    given = {"bootstrap.servers": "b1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    given |= {"sasl.oauthbearer.config": "scope", "sasl.oauthbearer.extensions": "a=b"}
    config = ClientConfig.from_librdkafka({**given, "oauth_cb": lambda text: (f"token for {text}", 12.5)})
    assert to_librdkafka(config)["oauth_cb"]("") == ("token for scope", 12.5, "", {"a": "b"})
    config = ClientConfig.from_librdkafka({**given, "oauth_cb": lambda text: "bare"})
    token, expires_at, *_ = to_librdkafka(config)["oauth_cb"]("")
    assert token == "bare"
    assert expires_at == pytest.approx(time.time() + 300, abs=60)


@pytest.mark.safety
def test_the_model_shows_no_secret() -> None:
    given = {"bootstrap.servers": "b1", "security.protocol": "SASL_SSL", **TLS, "ssl.keystore.password": SECRET}
    for login in (LOGIN, OIDC, {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": "a.b", "sasl.oauthbearer.config": SECRET}):
        config = ClientConfig.parse({**given, **login})
        shown = repr(config) + repr(replace(config, security=config.security.embedded()))
        assert SECRET not in shown
        assert PAIR.key.splitlines()[2] not in shown
