"""Every security protocol of a connection, as the file that the Spark source reads on executors; read back by it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.connection.java_properties import source_settings, write_source_settings
from airflow_kafka_groups.hooks.connection.settings import ConnectionSettings
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.transport.security import SaslConfig
from airflow_kafka_groups.spark.source.options import SourceOptions
from tests.lab.security.certificates import Authority

SECRET = 'pa"ss\\wörd #=x'
TOKEN_URL = "https://login.example.com/token"
OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": TOKEN_URL,
    "sasl.oauthbearer.client.id": "jobs",
    "sasl.oauthbearer.client.secret": SECRET,
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
    login = {"sasl.mechanisms": mechanism.lower(), "sasl.username": "u", "sasl.password": SECRET}
    security = read_back({"security.protocol": protocol.lower(), **login}, tmp_path).security
    assert security.protocol == protocol
    assert security.sasl == SaslConfig(mechanism=mechanism, username="u", password=SECRET)


@pytest.mark.parametrize("form", ["pem", "location"])
@pytest.mark.parametrize("key_password", [None, SECRET])
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
    texts = [part.text for part in (security.tls.ca, security.tls.certificate, security.tls.key)]
    assert texts == [authority.certificate, pair.certificate, pair.key]
    assert security.ssl_context() is not None


def test_host_names_and_certificates_go_unchecked_only_where_the_connection_says_so(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    given = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}
    security = read_back({**given, "enable.ssl.certificate.verification": "false"}, tmp_path).security
    assert (security.tls.check_hostname, security.tls.verify) == (False, False)
    security = read_back({"security.protocol": "SSL"}, tmp_path / "other").security
    assert (security.tls.check_hostname, security.tls.verify) == (True, True)


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
    sasl = read_back(given, tmp_path).security.sasl
    assert sasl is not None
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
        ({"security.protocol": "SSL", "ssl.keystore.location": "/k.p12"}, "ssl.keystore.location .*openssl pkcs12"),
        ({"security.protocol": "SSL", "ssl.certificate.pem": SECRET, "ssl.key.pem": SECRET}, "cannot be read"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.password": SECRET}, "needs a user name"),
        ({"security.protocol": "SASL_SSL", "sasl.password": SECRET}, "sasl.mechanism"),
    ],
)
def test_what_no_file_can_carry_is_named_with_the_remedy_and_nothing_is_written(
    tmp_path: Path, given: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        write_source_settings(settings_of(given), tmp_path / "kafka.json")
    assert SECRET not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_callback_that_airflow_allows_goes_along_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", "platform.node")
    given = {**TOKENS, "oauth_cb": "platform.node", "sasl.oauthbearer.config": "principal=me"}
    made = source_settings(settings_of(given))
    assert (made["oauth_cb"], made["sasl.oauthbearer.config"]) == ("platform.node", "principal=me")
