"""PEM as users paste it, and errors that name the setting that was given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.librdkafka import to_librdkafka
from airflow_kafka_groups.kafka.transport.pem import pem_lines
from tests.lab.security.certificates import Authority

AUTHORITY = Authority()
PAIR = AUTHORITY.issue("ann", key_password="s3cr3t")
TLS = {
    "ssl.ca.pem": AUTHORITY.certificate,
    "ssl.certificate.pem": PAIR.certificate,
    "ssl.key.pem": PAIR.key,
    "ssl.key.password": "s3cr3t",
}


def squeezed(pem: str) -> str:
    return pem.replace("\n", " ").strip()


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda pem: pem.replace("\n", "\\n"),
        lambda pem: pem.replace("\n", "\\r\\n"),
        squeezed,
        lambda pem: pem.replace("-----\n", "-----").replace("\n", ""),
        lambda pem: "".join(f"    {line}\n" for line in pem.splitlines()),
        lambda pem: f"# F\u0151tan\u00fas\u00edtv\u00e1ny\n{pem}",
    ],
)
def test_pem_that_lost_its_lines_is_understood(spoiled: Callable[[str], str]) -> None:
    given = {name: spoiled(text) if name.endswith(".pem") else text for name, text in TLS.items()}
    config = ClientConfig.parse({"bootstrap.servers": "b1", "security.protocol": "SSL", **given})
    assert config.security.ssl_context() is not None
    assert {name: to_librdkafka(config)[name] for name in TLS} == TLS


def test_an_old_key_keeps_its_header() -> None:
    header = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A\n\nAAAA\n"
    text = f"{header}-----END RSA PRIVATE KEY-----\n"
    assert pem_lines(text.replace("\n", "\\n")) == pem_lines(text) == text


def test_a_key_without_its_certificate_is_named() -> None:
    given = {"bootstrap.servers": "b1", "security.protocol": "SSL", "ssl.key.pem": PAIR.key}
    with pytest.raises(ConfigurationError, match=r"ssl\.key\.pem: is a key without a certificate"):
        ClientConfig.parse(given).security.ssl_context()


@pytest.mark.parametrize("wrong", ["ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"])
def test_the_setting_that_cannot_be_read_is_named(wrong: str) -> None:
    bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    given = {"bootstrap.servers": "b1", "security.protocol": "SSL", **TLS, wrong: bad}
    with pytest.raises(ConfigurationError, match="cannot be read") as refused:
        ClientConfig.parse(given).security.ssl_context()
    assert refused.value.field == wrong
