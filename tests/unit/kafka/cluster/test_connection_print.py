from __future__ import annotations

import hashlib
from typing import Any

import pytest

from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.connection_print import ConnectionPrint
from tests.lab.security.certificates import Authority, Pair

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "cleaner",
    "sasl.password": "s3cret-pass",
}
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
    "sasl.oauthbearer.client.id": "cleaner",
    "sasl.oauthbearer.client.secret": "s3cret-pass",
}


def print_of(servers: str = "b1:9092,b2:9092", **given: Any) -> ConnectionPrint:
    settings = {"bootstrap.servers": servers, **{name.replace("_", "."): value for name, value in given.items()}}
    return ConnectionPrint.of(ClientConfig.parse(settings))


@pytest.mark.parametrize("same", ["b2:9092,b1:9092", "B1:9092,b2.:9092", "b1,b2,b1:9092", "PLAINTEXT://b1:9092, b2"])
def test_servers_written_otherwise_are_the_same(same: str) -> None:
    assert print_of(same) == print_of()


@pytest.mark.parametrize("other", ["b1:9092", "b1:9092,b2:9093", "b1:9092,b3:9092"])
def test_other_servers_are_another_connection_of_the_same_user(other: str) -> None:
    assert print_of(other).servers != print_of().servers
    assert print_of(other).identity == print_of().identity


@pytest.mark.parametrize(
    ("settings", "change", "differs"),
    [
        pytest.param(SCRAM, {"sasl.username": "another"}, True, id="another user"),
        pytest.param(SCRAM, {"sasl.password": "an0ther-pass"}, False, id="the password was changed"),
        pytest.param(SCRAM, {"sasl.mechanism": "SCRAM-SHA-512"}, False, id="the same user by another mechanism"),
        pytest.param(TOKENS, {"sasl.oauthbearer.client.id": "another"}, True, id="another client"),
        pytest.param(TOKENS, {"sasl.oauthbearer.client.secret": "an0ther"}, False, id="the secret was changed"),
        pytest.param(TOKENS, {"sasl.oauthbearer.extensions": "logicalCluster=lkc-2"}, True, id="another tenant"),
    ],
)
def test_the_identity_is_who_logs_in_and_no_secret(
    settings: dict[str, str], change: dict[str, str], differs: bool
) -> None:
    before, after = print_of(**settings), print_of(**{**settings, **change})
    assert (before.identity != after.identity) is differs
    assert before.servers == after.servers


def test_a_renewed_certificate_of_the_same_subject_is_the_same_identity() -> None:
    authority = Authority()
    first, renewed, other = (authority.issue(name) for name in ("me", "me", "you"))

    def identity(pair: Pair) -> str:
        given = {"security.protocol": "SSL", "ssl.certificate.pem": pair.certificate, "ssl.key.pem": pair.key}
        return print_of(**given).identity

    assert first != renewed
    assert identity(first) == identity(renewed) != identity(other)
    assert identity(first) != hashlib.sha256(b"certificate:").hexdigest(), "the subject was read"
