"""The hook: from a connection id to an AdminClient, and a sync face that works everywhere."""

import asyncio
import json
import threading
from contextlib import suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_kafka_groups.change.keep_alive import KeepAliveRequest
from airflow_kafka_groups.change.remove_members import RemoveMembersRequest
from airflow_kafka_groups.change.restore.forget import DeleteOffsetsRequest
from airflow_kafka_groups.change.restore.reset import ResetRequest
from airflow_kafka_groups.exceptions import AuthenticationFailedError, BrokerError, ConfigurationError
from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
from airflow_kafka_groups.kafka.maintenance_client import OffsetsRetention
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup

SECRET = "s3cr3t-p4ss"


def define(monkeypatch: pytest.MonkeyPatch, conn_id: str = "kafka_groups_default", **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "kafka_groups", **fields}))


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin({"a": FakeGroup(), "b": FakeGroup(coordinator=2)})
    define(monkeypatch, host="b1:9092")
    monkeypatch.setattr(KafkaGroupsHook, "get_conn", lambda self: fake)
    return fake


def test_a_json_environment_variable_becomes_a_client_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    define(
        monkeypatch,
        "mine",
        host="b1,b2:9093",
        port=9095,
        login="u",
        password=SECRET,
        extra={"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "request_timeout_seconds": 7},
    )
    config = KafkaGroupsHook("mine").client_config()
    assert config.bootstrap_servers == (("b1", 9095), ("b2", 9093))
    assert (config.security.protocol, config.security.username) == ("SASL_PLAINTEXT", "u")
    assert config.security.password == SECRET
    assert config.request_timeout == 7
    assert SECRET not in repr(config)


def test_a_uri_in_the_environment_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MINE", "kafka-groups://b1%3A9092%2Cb2%3A9093/?read_only=true")
    hook = KafkaGroupsHook("mine")
    assert hook.client_config().bootstrap_servers == (("b1", 9092), ("b2", 9093))
    assert hook.settings.read_only


def test_a_connection_of_the_official_provider_works(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "b1:9092", "group.id": "x", "socket.timeout.ms": "5000", "sasl.password": None}
    define(monkeypatch, "mine", conn_type="kafka", extra=extra)
    config = KafkaGroupsHook("mine").client_config()
    assert config.bootstrap_servers == (("b1", 9092),)
    assert config.request_timeout == 5, "our defaults must not override what the connection says"


@pytest.mark.parametrize(
    ("conn_id", "said"), [("nowhere", "'nowhere'.*AIRFLOW_CONN_NOWHERE"), ("", ""), ("  ", ""), (None, ""), (5, "")]
)
def test_what_is_no_connections_id_is_a_clear_error(conn_id: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"kafka_groups_conn_id.*{said}"):
        KafkaGroupsHook(conn_id).get_conn()


@pytest.mark.safety
@pytest.mark.parametrize(
    "extra",
    [
        {"properties": json.dumps({"ssl.key.password": SECRET})},
        {"properties": {"sasl.jaas.config": f'org.x.PlainLoginModule required username="u" password="{SECRET}";'}},
        {"sasl.oauthbearer.config": SECRET},
        {"ssl.keystore.password": SECRET},
        {"sasl.oauthbearer.client.secret": SECRET},
        {"ssl_private_key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"},
        {"ssl.key.pem": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"},
        {"ssl.certificate.pem": f"-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END"},
    ],
)
def test_what_no_name_of_airflows_gives_away_is_masked_too(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any]
) -> None:
    """A key's lines on their own, too: that is how they stand in a traceback."""
    masked: list[Any] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", lambda value, name=None: masked.append(value))
    define(monkeypatch, host="b1:9092", extra=extra)
    with suppress(ConfigurationError):  # of what only Java's client reads
        _ = KafkaGroupsHook().settings
    assert SECRET in masked


def test_the_sync_methods_ask_with_one_client_each_and_close_it(admin: FakeAdmin) -> None:
    hook = KafkaGroupsHook()
    assert set(hook.list_groups()) == {"a", "b"}
    assert {g: b.broker_id for g, b in hook.find_coordinators(["a", "b"]).succeeded.items()} == {"a": 1, "b": 2}
    assert hook.describe_consumer_groups(["a"])["a"].unwrap().state == "Empty"
    assert len(hook.list_consumer_group_offsets("a")["a"].unwrap()) == 1
    assert not hook.delete_consumer_groups(["a"]).failed
    assert hook.offsets_retention().minutes == 43_200
    assert admin.closed == 6


async def test_the_sync_face_works_inside_a_running_loop(admin: FakeAdmin) -> None:
    assert set(KafkaGroupsHook().list_groups()) == {"a", "b"}
    async with KafkaGroupsHook().async_client() as client:
        assert set(await client.list_groups()) == {"a", "b"}


def test_the_client_is_closed_when_the_function_raises(admin: FakeAdmin) -> None:
    async def fail(client: object) -> None:
        await asyncio.sleep(0)
        raise KeyError("x")

    with pytest.raises(KeyError):
        KafkaGroupsHook().run(fail)
    assert admin.closed == 1


DENIED = BrokerError(31, "CLUSTER_AUTHORIZATION_FAILED", "no", api="DescribeConfigs", broker_id=2)


def test_the_connection_test_says_what_it_found_and_what_is_wrong(admin: FakeAdmin) -> None:
    admin.operations = frozenset({"describe", "read", "delete"})
    done, found = KafkaGroupsHook().test_connection()
    assert done
    assert f"Cluster {CLUSTER_ID}: 2 brokers" in found
    assert "2 groups listed, and the listing is complete." in found
    assert "Brokers keep the offsets of a group without members for 30d, the idle time is 7d." in found
    assert len(found.split()) < 55, "it is a toast of Airflow's"
    admin.operations = frozenset({"describe"})
    found = KafkaGroupsHook().test_connection()[1]
    assert "Delete groups: Allowed with 0 of 2 groups." in found
    assert "Lease: The lease airflow-kafka-groups-lease cannot be taken, so no deletion can begin." in found
    assert found.endswith("The command doctor has a remedy for each.")
    admin.retention = OffsetsRetention(by_broker={1: 10_080}, errors={})
    assert "Brokers forget most idle groups before they become stale." in KafkaGroupsHook().test_connection()[1]
    admin.retention = OffsetsRetention(by_broker={1: 60}, errors={2: DENIED})
    assert f"idle groups is not known: {DENIED}." in KafkaGroupsHook().test_connection()[1], "and no number"


def test_the_connection_test_says_in_one_sentence_what_is_wrong(admin: FakeAdmin) -> None:
    admin.fails_with = AuthenticationFailedError("b1:9092", "wrong password")
    assert KafkaGroupsHook().test_connection() == (False, "b1:9092: wrong password")
    assert KafkaGroupsHook("nowhere").test_connection()[0] is False


@pytest.mark.parametrize("floors", [{"max_group": 5}, {"max_groups": "many"}])
def test_the_connection_test_fails_for_a_floor_that_no_task_can_read(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, floors: Any
) -> None:
    define(monkeypatch, host="b1:9092", extra={"floors": floors})
    done, sentence = KafkaGroupsHook().test_connection()
    assert not done
    assert "floors" in sentence
    define(monkeypatch, host="b1:9092", extra={"floors": {"max_groups": 5}})
    assert KafkaGroupsHook().test_connection()[0]


def test_airflow_finds_the_hook_by_the_connections_type(admin: FakeAdmin) -> None:
    hook = Connection(conn_id="kafka_groups_default", conn_type="kafka_groups").get_hook()  # type: ignore[no-untyped-call]  # Airflow's own
    assert isinstance(hook, KafkaGroupsHook)
    assert hook.kafka_groups_conn_id == "kafka_groups_default"


class BadRequest(BaseRequestHandler):
    """Answer as a web server answers what is no HTTP."""

    def handle(self) -> None:
        self.request.recv(1024)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def test_what_is_no_broker_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingTCPServer(("127.0.0.1", 0), BadRequest) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        define(monkeypatch, host=address, extra={"api_timeout_seconds": 5})
        done, sentence = KafkaGroupsHook().test_connection()
        server.shutdown()
    assert (done, "is this a Kafka listener" in sentence) == (False, True)
    done, sentence = KafkaGroupsHook().test_connection()  # nobody listens any more
    assert (done, address in sentence, "refused" in sentence.lower()) == (False, True, True)


def test_a_python_user_changes_offsets_with_the_checks_and_records_of_the_operators(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    admin.log = (0, 10)
    admin.groups["live"] = FakeGroup(members=2)
    hook = KafkaGroupsHook()
    request = ResetRequest(group_ids=["a", "live"], to="latest")
    dry = hook.change(request, storage_path=str(tmp_path), dry_run=True)
    assert (dry.summary()["counts"]["would_change"], dry.summary()["skips"]) == (1, 5)
    assert hook.change(request, storage_path=str(tmp_path)).summary()["counts"]["changed"] == 1
    assert list(admin.groups["a"].positions.values()) == [10]
    removed = hook.change(RemoveMembersRequest(group_id="live", all_members=True), storage_path=str(tmp_path))
    assert (removed.summary()["counts"]["changed"], admin.groups["live"].members) == (2, 0)
    assert len(list((tmp_path / "kafka_groups_default" / "changes").glob("*-before.json"))) == 2
    sleeping = KeepAliveRequest(group_ids=("a",), allow_membership=True, observe_seconds=0)
    assert hook.change(sleeping, storage_path=str(tmp_path)).summary()["counts"]["kept_alive"] == 1
    for extra, refused in (({"read_only": True}, "read-only"), ({"floors": {"storage_path": "/else"}}, "storage")):
        define(monkeypatch, host="b1:9092", extra=extra)
        with pytest.raises(ConfigurationError, match=refused):
            KafkaGroupsHook().change(request, storage_path=str(tmp_path))
    with pytest.raises(ConfigurationError, match="group_ids"):
        ResetRequest(group_ids=[], to="latest")
    with pytest.raises(ConfigurationError, match="topics"):
        DeleteOffsetsRequest(group_ids=["a"], topics="t")
