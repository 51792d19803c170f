"""Log in with client credentials at a real OIDC provider, and brokers that check its tokens by their signatures."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import AuthenticationFailedError
from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from tests.lab.cluster import KafkaCluster
from tests.lab.security.acls import AUTHORIZER, allow
from tests.lab.security.oidc import Provider
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

pytestmark = pytest.mark.kafka("4.1.0")

CLIENT, SECRET = "airflow", "cl1ent:s3cret"  # a colon, as any other sign, may stand in a secret


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider({CLIENT: SECRET}) as started:
        yield started


@pytest.fixture(scope="module")
def brokers(provider: Provider) -> Iterator[KafkaCluster]:
    """Run a broker where only ``airflow`` may look at the group ``one``, and nobody at ``two``."""
    with provider.cluster(config=AUTHORIZER) as started:
        create_topics(started.bootstrap, {"t": 1})
        seed_groups(started.bootstrap, ["one", "two"], {("t", 0): 1})
        allow(started, CLIENT, "GROUP", "one", "DESCRIBE")
        allow(started, CLIENT, "TOPIC", "t", "DESCRIBE")
        yield started


def hook(
    monkeypatch: pytest.MonkeyPatch,
    brokers: KafkaCluster,
    provider: Provider,
    secret: str = SECRET,
    conn_type: str = "kafka_groups",
) -> KafkaGroupsHook:
    extra = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "oauth_token_url": provider.token_url,
        "oauth_scope": "kafka offsets",
    }
    fields: dict[str, Any] = {"host": brokers.sasl_bootstrap, "login": CLIENT, "password": secret}
    if conn_type == "kafka":  # as the official provider's users write it
        fields = {}
        extra = {
            "bootstrap.servers": brokers.sasl_bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        }
    monkeypatch.setenv("AIRFLOW_CONN_OIDC", json.dumps({"conn_type": conn_type, "extra": extra, **fields}))
    return KafkaGroupsHook("oidc")


@pytest.mark.parametrize("conn_type", ["kafka_groups", "kafka"])
def test_a_client_sees_what_its_name_in_the_token_may_see(
    brokers: KafkaCluster, provider: Provider, monkeypatch: pytest.MonkeyPatch, conn_type: str
) -> None:
    asked = len(provider.asked)
    groups = hook(monkeypatch, brokers, provider, conn_type=conn_type)
    offsets = groups.list_consumer_group_offsets(["one"])
    offsets.raise_for_errors()
    assert sorted(groups.list_groups().require_complete()) == ["one"]
    assert provider.asked[asked:] == [CLIENT] * 2, "one token a client, however many connections it opens"
    done, said = groups.test_connection()
    assert done, said
    assert "1 group listed" in said


@pytest.mark.safety
def test_a_wrong_client_secret_is_one_sentence_without_it(
    brokers: KafkaCluster, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, said = hook(monkeypatch, brokers, provider, "wr0ng-s3cret").test_connection()
    assert not done
    assert said == f"{provider.token_url}: the token endpoint answered 401 Unauthorized"


@pytest.mark.parametrize("wrong", [{"exp": 1}, {"aud": "others"}, {"iss": "http://others"}, "signature"])
async def test_a_token_that_the_broker_refuses_is_an_authentication_failure(
    brokers: KafkaCluster, provider: Provider, wrong: Any
) -> None:
    """Not a cluster without brokers: that would be tried again."""
    with Provider({}) as other:
        signed = other.token(CLIENT, iss=provider.url) if wrong == "signature" else provider.token(CLIENT, **wrong)
    given = {
        "bootstrap.servers": brokers.sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda config: (signed, time.time() + 3600),
    }
    with pytest.raises(AuthenticationFailedError, match=r"SASL authentication was refused: .*invalid_token") as refused:
        async with AdminClient(ClientConfig.from_librdkafka(given)) as admin:
            await admin.list_groups()
    assert signed not in str(refused.value)
