"""The calls of ``ClusterAdmin``, and librdkafka's errors as this package's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    BrokerError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    MissingAnswerError,
    RemoteProtocolError,
    RequestTimeoutError,
    UnsupportedByClientError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.hooks.connection.settings import ConnectionSettings
from airflow_kafka_groups.kafka.cluster.bootstrap import ClusterMetadata
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster_admin import ClusterAdmin, configuration_error, refuses_login, translated
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
RETENTION = "offsets.retention.minutes"
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
SECRET = "s3cr3t-t0ken"


def answer(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(value, KafkaError):
        future.set_exception(KafkaException(value))
    elif value is not None:
        future.set_result(value)
    return future


def entry(value: str | None, *, is_default: bool = False) -> SimpleNamespace:
    return SimpleNamespace(value=value, is_default=is_default)


class ScriptedClient:
    """A confluent-kafka AdminClient with answers; ``None`` never comes."""

    cluster: Any = None
    cluster_id: str | None = "here"
    configs: dict[int, Any]
    topics: Callable[[str], Any]
    reported: KafkaError | None = None

    def __init__(self) -> None:
        self.configs = {}
        self.asked: list[list[str]] = []
        self.timeouts: list[float] = []
        self.polls = 0

    def __call__(self, settings: dict[str, Any], *, logger: object) -> ScriptedClient:
        self.report = settings["error_cb"]
        self.settings = settings
        return self

    def poll(self, seconds: float) -> int:
        self.polls += 1
        if self.reported is not None:
            self.report(self.reported)
        return 0

    def describe_cluster(self, *, request_timeout: float) -> Future[Any]:
        self.timeouts.append(request_timeout)
        nodes = [SimpleNamespace(id=broker_id) for broker_id in self.configs]
        return answer(self.cluster or SimpleNamespace(nodes=nodes, cluster_id=self.cluster_id))

    def describe_configs(self, resources: list[Any], *, request_timeout: float) -> dict[Any, Future[Any]]:
        assert len(resources) == 1, "librdkafka takes one broker for each call"
        return {resources[0]: answer(self.configs[int(resources[0].name)])}

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        self.timeouts.append(request_timeout)
        self.asked.append(topics.topic_names)
        return {topic: answer(self.topics(topic)) for topic in topics.topic_names}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> ScriptedClient:
    scripted = ScriptedClient()
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", scripted)
    return scripted


def admin(**limits: Any) -> ClusterAdmin:
    return ClusterAdmin(ClientConfig.from_librdkafka({"bootstrap.servers": "b1:9092"}, **limits))


async def test_thousands_of_topics_are_asked_in_portions_and_each_once(client: ScriptedClient) -> None:
    names = [f"t{number}" for number in range(2_500)]
    client.topics = lambda topic: SimpleNamespace(topic_id=f"{topic}+/")
    found = await admin().topic_ids(names + names[:10])
    assert [len(asked) for asked in client.asked] == [1_000, 1_000, 500]
    assert found == {name: f"{name}-_" for name in names}, "spelled as Kafka's own tools spell ids"


@pytest.mark.parametrize("none", [ZERO_ID, None, ""])
async def test_a_topic_without_an_id_is_left_out(client: ScriptedClient, none: str | None) -> None:
    client.topics = lambda topic: SimpleNamespace(topic_id=none)
    assert await admin().topic_ids(["old"]) == {}
    assert await admin().topic_ids([]) == {}
    assert client.asked == [["old"]], "no topics are no question"


@pytest.mark.safety
@pytest.mark.parametrize("code", [-1, *range(1, 133)])
async def test_only_topics_that_do_not_exist_or_are_hidden_are_left_out(client: ScriptedClient, code: int) -> None:
    client.topics = lambda topic: KafkaError(code) if topic == "bad" else SimpleNamespace(topic_id="id")
    if code in (3, 17, 29):
        assert "good" in await admin().topic_ids(["bad", "good"])
        return
    with pytest.raises(BrokerError) as failed:
        await admin().topic_ids(["bad", "good"])
    assert (failed.value.code, failed.value.subject) == (code, "topic 'bad'")


@pytest.mark.safety
@pytest.mark.parametrize("asked", [None, "here"])
async def test_the_cluster_that_was_named_is_asked(client: ScriptedClient, asked: str | None) -> None:
    client.topics = lambda topic: SimpleNamespace(topic_id="id")
    client.configs = {1: {RETENTION: entry("1440")}}
    assert await admin().topic_ids(["t"], asked) == {"t": "id"}
    assert (await admin().offsets_retention(asked)).minutes == 1_440


@pytest.mark.safety
async def test_another_cluster_tells_neither_ids_nor_retention(client: ScriptedClient) -> None:
    """Its topics of the same names have other ids, so no backup of them could be restored where the groups are."""
    client.topics = lambda topic: SimpleNamespace(topic_id="id")
    client.configs = {1: {RETENTION: entry("1440")}}
    client.cluster_id = "elsewhere"
    config = ClientConfig.from_librdkafka({"bootstrap.servers": "b1:9092"})
    guarded = MaintenanceClient(config, ConnectionSettings(conn_id="c", properties={}))
    guarded._calls.cluster.metadata = ClusterMetadata("here")
    for call in (guarded.topic_ids(["t"]), guarded.offsets_retention()):
        with pytest.raises(ConnectionFailedError, match="cluster here leads to cluster elsewhere"):
            await call
    assert client.asked == []
    client.cluster_id = None  # as far as it is known
    assert await guarded.topic_ids(["t"]) == {"t": "id"}


async def test_each_broker_has_its_own_answer_or_error(client: ScriptedClient) -> None:
    client.configs = {
        1: {RETENTION: entry("10080", is_default=True), "other": entry(None)},
        2: {RETENTION: entry("1440")},
        3: KafkaError(31),
        4: {},
    }
    found = await admin().offsets_retention()
    assert dict(found.by_broker) == {1: 10_080, 2: 1_440}
    assert (found.minutes, found.defaults, found.differs) == (None, frozenset({1}), True)
    assert isinstance(found.errors[3], BrokerError)
    assert found.errors[3].broker_id == 3
    assert isinstance(found.errors[4], MissingAnswerError)


@pytest.mark.parametrize(("second", "smallest", "is_default"), [("60", 60, False), ("10080", 10_080, True)])
async def test_the_smallest_value_counts_and_differing_ones_are_reported(
    client: ScriptedClient, second: str, smallest: int, is_default: bool
) -> None:
    other = entry(second, is_default=is_default)
    client.configs = {1: {RETENTION: entry("10080", is_default=True)}, 2: {RETENTION: other}}
    found = await admin().offsets_retention()
    assert (found.minutes, found.is_default, found.differs) == (smallest, is_default, not is_default)


@pytest.mark.safety
@pytest.mark.parametrize("value", [None, "", "-1", "soon"])
async def test_a_broker_that_does_not_tell_leaves_no_number(client: ScriptedClient, value: str | None) -> None:
    client.configs = {1: {RETENTION: entry("60", is_default=True)}, 2: {RETENTION: entry(value)}}
    found = await admin().offsets_retention()
    assert (found.minutes, found.is_default, list(found.errors)) == (None, False, [2])
    client.configs = {}
    assert (await admin().offsets_retention()).minutes is None, "nor does no broker"


@pytest.mark.safety
async def test_a_cluster_that_is_not_described_is_an_error(client: ScriptedClient) -> None:
    client.cluster = KafkaError(KafkaError._TIMED_OUT)
    with pytest.raises(RequestTimeoutError, match="b1:9092: DescribeCluster"):
        await admin().offsets_retention()


@pytest.mark.safety
async def test_a_refused_login_ends_the_call_at_the_first_report(client: ScriptedClient) -> None:
    client.topics = lambda topic: None
    client.reported = KafkaError(KafkaError._AUTHENTICATION)
    with pytest.raises(AuthenticationFailedError):
        await admin().topic_ids(["t"])
    assert client.polls == 1


@pytest.mark.safety
async def test_the_error_of_a_token_source_is_raised_as_it_is_and_at_once() -> None:
    def refuse(_config: str) -> tuple[str, float]:
        raise ConnectionFailedError("the token endpoint", "is down")

    tokens = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": refuse}
    began = time.monotonic()
    with pytest.raises(ConnectionFailedError, match="the token endpoint: is down"):
        await ClusterAdmin(ClientConfig.from_librdkafka(NOWHERE | tokens)).topic_ids(["t"])
    assert time.monotonic() - began < 5, "librdkafka would wait ten seconds for a token"


@pytest.mark.safety
async def test_no_secret_is_in_a_log_or_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
    secrets = {"security.protocol": "SSL", "ssl.key.pem": key, "ssl.key.password": SECRET}
    with pytest.raises(ConfigurationError) as refused:
        await ClusterAdmin(ClientConfig.from_librdkafka(NOWHERE | secrets)).topic_ids(["t"])
    assert SECRET not in str(refused.value) + repr(refused.value.__cause__) + caplog.text


async def test_other_reports_do_not_end_it_and_are_in_the_error(client: ScriptedClient) -> None:
    client.topics = lambda topic: None
    client.reported = KafkaError(KafkaError._TRANSPORT, "b1 refused")
    began = time.monotonic()
    with pytest.raises(DeadlineExceededError, match=r"Metadata: no answer from b1:9092 .*b1 refused"):
        await admin(api_timeout=0.2).topic_ids(["t"])
    assert 0.2 <= time.monotonic() - began < 5


async def test_a_request_has_the_smaller_of_both_timeouts(client: ScriptedClient) -> None:
    client.topics = lambda topic: SimpleNamespace(topic_id="id")
    await admin(request_timeout=7, api_timeout=60).topic_ids(["t"])
    await admin(request_timeout=7, api_timeout=2).topic_ids(["t"])
    assert client.timeouts[0] == 7
    assert 1 < client.timeouts[1] <= 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"security.protocol": "SSL"}, "ca.pem"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/mine.pem"}, "/mine.pem"),
        ({"security.protocol": "PLAINTEXT"}, None),
    ],
)
async def test_authorities_of_the_environment_are_used_unless_the_connection_names_its_own(
    client: ScriptedClient, given: dict[str, str], expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    client.topics = lambda topic: SimpleNamespace(topic_id="id")
    await ClusterAdmin(ClientConfig.from_librdkafka({"bootstrap.servers": "b1:9092", **given})).topic_ids(["t"])
    found = client.settings.get("ssl.ca.location")
    assert found == (str(tmp_path / "ca.pem") if expected == "ca.pem" else expected)


CODES = sorted({value for name, value in vars(KafkaError).items() if name.isupper() and isinstance(value, int)})
LOCAL = {
    KafkaError._AUTHENTICATION: AuthenticationFailedError,
    KafkaError._SSL: AuthenticationFailedError,
    KafkaError._TIMED_OUT: RequestTimeoutError,
    KafkaError._TIMED_OUT_QUEUE: RequestTimeoutError,
    KafkaError._UNSUPPORTED_FEATURE: UnsupportedVersionError,
    KafkaError._BAD_MSG: RemoteProtocolError,
    KafkaError._UNDERFLOW: RemoteProtocolError,
    KafkaError._INVALID_ARG: ConfigurationError,
}


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_its_kind(code: int) -> None:
    error = translated(KafkaError(code), api="Metadata", servers="b1:9092", broker_id=3, subject="topic 't'")
    expected: type[KafkaGroupsError] = BrokerError if code >= -1 else LOCAL.get(code, ConnectionFailedError)
    assert type(error) is expected
    if isinstance(error, BrokerError):
        assert (error.code, error.api, error.broker_id, error.subject) == (code, "Metadata", 3, "topic 't'")


def test_there_are_many_codes() -> None:
    assert len(CODES) > 120
    assert set(LOCAL) <= set(CODES)


def test_a_broker_error_has_kafkas_name_and_an_unknown_one_its_code() -> None:
    assert "UNKNOWN_TOPIC_OR_PARTITION (3)" in str(translated(KafkaError(3), api="A", servers="s"))
    unknown = translated(KafkaError(30_000), api="A", servers="s")
    assert isinstance(unknown, BrokerError)
    assert unknown.code == 30_000


def test_a_timeout_names_the_servers_the_broker_and_the_last_connection_error() -> None:
    timeout = KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for broker: Local: Timed out")
    said = str(translated(timeout, api="DescribeConfigs", servers="b1:9092", broker_id=2, context="b2 refused"))
    assert said == (
        "broker 2 of b1:9092: DescribeConfigs: Failed while waiting for broker: Local: Timed out (b2 refused)"
    )


@pytest.mark.safety
@pytest.mark.parametrize("code", CODES)
def test_only_a_refused_login_is_final(code: int) -> None:
    assert refuses_login(KafkaError(code)) is (code in (KafkaError._AUTHENTICATION, KafkaError._SSL))


def test_refused_settings_are_a_configuration_error() -> None:
    error = configuration_error(KafkaError(KafkaError._INVALID_ARG, "ssl.ca.pem failed"))
    assert type(error) is ConfigurationError
    assert "ssl.ca.pem failed" in str(error)
    kerberos = KafkaError(KafkaError._INVALID_ARG, "No provider for SASL mechanism GSSAPI: recompile librdkafka")
    assert isinstance(configuration_error(kerberos), UnsupportedByClientError)
