"""What is found out about a cluster, without changing anything."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from airflow_kafka_groups.doctor import cluster
from airflow_kafka_groups.doctor.cluster import examine_cluster
from airflow_kafka_groups.doctor.finding import Finding, Report, Status
from airflow_kafka_groups.exceptions import ConnectionFailedError, KafkaGroupsError
from airflow_kafka_groups.kafka.admin.client.listing import ClusterDescription
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.models import Broker, ListedOffset, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup

LEASE = "airflow-kafka-groups-lease"
NEW = ApiVersions({2: (0, 9), 9: (1, 9), 10: (0, 6), 15: (0, 6), 16: (0, 5), 42: (0, 2)})
OLD = ApiVersions({2: (0, 6), 9: (1, 7), 10: (0, 3), 15: (0, 5), 16: (0, 4), 42: (0, 2)})
NOW = 1_000_000.0
DOWN = ConnectionFailedError("b2:9092", "refused")


async def found(admin: FakeAdmin) -> dict[str, Finding]:
    report = Report()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster, "utc_now", lambda: datetime.fromtimestamp(NOW, UTC))
        await examine_cluster(admin, LEASE, report, watch_seconds=0)  # the fake obeys its rules
    return {finding.check: finding for finding in report.findings}


@pytest.fixture
def admin() -> FakeAdmin:
    fake = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()})
    fake.api_versions = {1: NEW, 2: NEW}
    return fake


async def test_a_sound_cluster(admin: FakeAdmin) -> None:
    checks = await found(admin)
    assert {name: of.status for name, of in checks.items()} == {
        "brokers": Status.OK,
        "API versions": Status.OK,
        "groups": Status.OK,
        "clock": Status.UNKNOWN,
    }
    assert checks["groups"].text == "2 groups listed, and the listing is complete."
    assert admin.call_names == ["list"], "nothing is changed"


async def test_a_broker_that_cannot_be_reached(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    described = await admin.describe_cluster()
    lame = ClusterDescription(described.cluster_id, described.brokers, {1: NEW}, {2: DOWN})

    async def describe_cluster() -> ClusterDescription:
        return lame

    monkeypatch.setattr(admin, "describe_cluster", describe_cluster)
    brokers = (await found(admin))["brokers"]
    assert (brokers.status, "b2:9092" in brokers.text, "advertised.listeners" in brokers.remedy) == (
        Status.FAILED,
        True,
        True,
    )


async def test_a_cluster_that_cannot_delete_groups_has_failed(admin: FakeAdmin) -> None:
    admin.api_versions = {1: ApiVersions({key: of for key, of in NEW.ranges.items() if key != 42})}
    versions = (await found(admin))["API versions"]
    assert (versions.status, "DeleteGroups" in versions.text) == (Status.FAILED, True)


@pytest.mark.parametrize(
    ("where", "remedy"), [(2, "Start the brokers"), (TopicPartition(OFFSETS_TOPIC, 3), "a leader")]
)
async def test_an_incomplete_listing_says_what_is_missing(admin: FakeAdmin, where: object, remedy: str) -> None:
    admin.missing_brokers = {where: DOWN}
    groups = (await found(admin))["groups"]
    assert (groups.status, "there may be more" in groups.text, remedy in groups.remedy) == (Status.FAILED, True, True)


async def test_another_lease_is_a_warning(admin: FakeAdmin) -> None:
    admin.groups[f"team-{LEASE}"] = FakeGroup()
    assert (await found(admin))["other leases"].status is Status.WARNING
    del admin.groups[f"team-{LEASE}"]
    admin.groups[LEASE] = FakeGroup()
    assert "other leases" not in await found(admin)


@pytest.mark.parametrize(
    ("cluster_id", "host", "status"),
    [("redpanda.x", "b1", Status.OK), ("x", "ns.servicebus.windows.net", Status.FAILED)],
)
async def test_the_product_is_named(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, cluster_id: str, host: str, status: Status
) -> None:
    async def describe_cluster() -> ClusterDescription:
        return ClusterDescription(cluster_id, (Broker(broker_id=1, host=host, port=9092),), {1: NEW}, {})

    monkeypatch.setattr(admin, "describe_cluster", describe_cluster)
    assert (await found(admin))["product"].status is status


@pytest.fixture
def newest(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the newest timestamp (or the error) of each partition of the offsets topic."""

    def put(*times: float | KafkaGroupsError) -> None:
        async def authorized_operations(topics: object) -> MetadataAnswer:
            return MetadataAnswer("x", (), partition_counts={OFFSETS_TOPIC: len(times)})

        monkeypatch.setattr(admin, "authorized_operations", authorized_operations)
        for number, at in enumerate(times):
            where = TopicPartition(OFFSETS_TOPIC, number)
            admin.ends[where] = (0, 1)
            admin.by_time[where] = at if isinstance(at, KafkaGroupsError) else ListedOffset(0, int(at * 1000))

    return put


@pytest.mark.parametrize(
    ("times", "status"),
    [
        ((NOW - 9000, NOW + 5.0), Status.OK),
        ((NOW - 9000, NOW + 5.1), Status.FAILED),
        ((NOW - 60, DOWN), Status.OK),
        ((NOW - 61,), Status.UNKNOWN),  # nobody may have committed, or this clock is behind
        ((DOWN,), Status.UNKNOWN),
        ((-0.001,), Status.UNKNOWN),
        ((), Status.UNKNOWN),
    ],
)
async def test_a_clock_behind_the_newest_commit_is_wrong(
    admin: FakeAdmin, newest: Callable[..., None], times: tuple[float, ...], status: Status
) -> None:
    newest(*times)
    assert (await found(admin))["clock"].status is status


async def test_a_broker_whose_clock_is_behind_is_found_while_somebody_commits(
    admin: FakeAdmin, newest: Callable[..., None]
) -> None:
    """Its newest record is old by this clock, and was written a moment ago."""
    newest(NOW - 700_000, NOW - 1)
    asked: list[int] = []

    def commits(call: str) -> None:
        if call == "list_offsets":
            asked.append(1)
            admin.ends[TopicPartition(OFFSETS_TOPIC, 0)] = (0, len(asked))

    admin.before = commits
    finding = (await found(admin))["clock"]
    assert (finding.status, "700,000 s behind this machine's" in finding.text) == (Status.FAILED, True)


async def test_brokers_that_do_not_tell_the_time_of_records_are_not_asked(
    admin: FakeAdmin, newest: Callable[..., None]
) -> None:
    newest(NOW + 100)
    admin.api_versions = {1: NEW, 2: OLD}
    assert (await found(admin))["clock"].status is Status.UNKNOWN
    assert "list_offsets" not in admin.call_names


def test_only_the_named_errors_are_findings() -> None:
    report = Report()
    with report.checking("files", "try again", OSError):
        raise FileNotFoundError("gone")
    (finding,) = report.findings
    assert (finding.status, finding.text, finding.remedy) == (Status.FAILED, "FileNotFoundError: gone", "try again")
    with pytest.raises(KeyError), report.checking("files", "try again", OSError):
        raise KeyError("a bug is no finding")
