"""Rights and retention, each with a remedy."""

import pytest

from airflow_kafka_groups.doctor.cluster import examine_retention, examine_rights
from airflow_kafka_groups.doctor.finding import Finding, Report, Status
from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError
from airflow_kafka_groups.kafka.maintenance_client import OffsetsRetention
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.pages import DOCS

LEASE = "airflow-kafka-groups-lease"
DENIED = BrokerError(31, "CLUSTER_AUTHORIZATION_FAILED", "no", api="DescribeConfigs", broker_id=2)
ALL = frozenset({"read", "describe", "delete"})
DAY = 86_400.0


async def found(admin: FakeAdmin) -> dict[str, Finding]:
    report = Report()
    await examine_rights(admin, list(admin.groups), LEASE, report)  # the fake obeys its rules
    return {finding.check: finding for finding in report.findings}


@pytest.fixture
def admin() -> FakeAdmin:
    fake = FakeAdmin({"a": FakeGroup(), "b": FakeGroup()})
    fake.operations = ALL
    return fake


async def test_everything_is_allowed(admin: FakeAdmin) -> None:
    checks = await found(admin)
    assert {finding.status for finding in checks.values()} == {Status.OK}
    assert list(checks) == ["all topics", "read offsets", "delete groups", "restore groups", "lease", "log of commits"]


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (None, dict.fromkeys(("delete groups", "restore groups", "lease", "log of commits"), Status.UNKNOWN)),
        (ALL - {"delete"}, {"delete groups": Status.WARNING}),
        (ALL - {"read"}, {"restore groups": Status.WARNING, "lease": Status.FAILED, "log of commits": Status.WARNING}),
    ],
)
async def test_each_right_is_looked_at(
    admin: FakeAdmin, operations: frozenset[str] | None, expected: dict[str, Status]
) -> None:
    admin.operations = operations
    assert {name: of.status for name, of in (await found(admin)).items() if of.status is not Status.OK} == expected


async def test_the_first_steps_name_what_their_user_lacks(admin: FakeAdmin) -> None:
    """A user with Describe is asked for, and nobody is to give it more for a rehearsal."""
    admin.operations = frozenset({"describe"})
    lacking = {name: of.status for name, of in (await found(admin)).items() if of.status is not Status.OK}
    assert [name for name, status in lacking.items() if status is Status.FAILED] == ["lease"]
    page = " ".join((DOCS / "start" / "get-started.md").read_text().split())
    assert "every `failed` line but `lease`" in page
    assert [name for name in lacking if f"`{name}`" not in page] == []


async def test_hidden_topics_stop_everything_and_the_finding_says_so(admin: FakeAdmin) -> None:
    admin.sees_topics = False
    topics = (await found(admin))["all topics"]
    assert (topics.status, "Describe on all topics" in topics.remedy) == (Status.FAILED, True)


LOOK, READ = frozenset({"describe"}), frozenset({"read"})


@pytest.mark.parametrize(
    ("of_topic", "of_spark", "status"),
    [
        ({"__consumer_offsets": LOOK}, ALL, Status.WARNING),
        ({"__consumer_offsets": None}, ALL, Status.UNKNOWN),
        ({"__consumer_offsets": READ}, ALL, Status.OK),
        ({}, ALL, Status.WARNING),  # it is hidden
        ({"__consumer_offsets": READ}, LOOK, Status.WARNING),
        ({"__consumer_offsets": READ}, None, Status.UNKNOWN),
    ],
)
async def test_the_log_of_commits_needs_read_on_the_topic_and_on_spark_s_groups(
    admin: FakeAdmin,
    monkeypatch: pytest.MonkeyPatch,
    of_topic: dict[str, frozenset[str] | None],
    of_spark: frozenset[str] | None,
    status: Status,
) -> None:
    """docs/howto/connection.md has it in the table of ACLs: without it, the job goes on without the log."""

    async def authorized_operations(topics: list[str]) -> MetadataAnswer:
        return MetadataAnswer("x", (), cluster_operations=frozenset({"create"}), topic_operations=of_topic)

    async def group_operations(group_id: str) -> frozenset[str] | None:
        return of_spark if group_id.startswith("spark-kafka-") else ALL

    monkeypatch.setattr(admin, "authorized_operations", authorized_operations)
    monkeypatch.setattr(admin, "group_operations", group_operations)
    checks = await found(admin)
    finding = checks["log of commits"]
    assert finding.status is status
    assert ("Read on groups whose names begin with spark-kafka-" in finding.remedy) is (of_spark == LOOK)
    assert status is Status.UNKNOWN or "members of classic groups that come and go" in finding.text
    assert checks["all groups"].status is Status.WARNING, "without Describe on the cluster"


async def test_rights_that_cannot_be_asked_about_are_unknown(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    async def authorized_operations(topics: list[str]) -> MetadataAnswer:
        raise DENIED

    monkeypatch.setattr(admin, "authorized_operations", authorized_operations)
    checks = await found(admin)
    assert [(name, of.status) for name, of in checks.items()] == [("rights", Status.UNKNOWN)]


async def test_without_groups_there_is_nothing_to_ask_about(admin: FakeAdmin) -> None:
    admin.groups.clear()
    assert (await found(admin))["delete groups"].status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("retention", "status"),
    [
        (OffsetsRetention(by_broker={1: 7 * 1440}, errors={}), Status.WARNING),
        (OffsetsRetention(by_broker={1: 7 * 1440 + 1}, errors={}), Status.OK),
        (OffsetsRetention(by_broker={1: 60 * 1440, 2: 1440}, errors={}), Status.WARNING),
        (OffsetsRetention(by_broker={1: 60 * 1440}, errors={2: DENIED}), Status.UNKNOWN),
        (DENIED, Status.UNKNOWN),
    ],
)
async def test_a_retention_that_ends_before_the_idle_time_is_a_warning(
    retention: OffsetsRetention | KafkaGroupsError, status: Status
) -> None:
    async def ask() -> OffsetsRetention:
        if isinstance(retention, KafkaGroupsError):
            raise retention
        return retention

    report = Report()
    await examine_retention(ask, 7 * DAY, report)
    (finding,) = report.findings
    assert (finding.check, finding.status) == ("offsets retention", status)


async def test_an_idle_time_of_an_hour_is_not_0_days() -> None:
    async def ask() -> OffsetsRetention:
        return OffsetsRetention(by_broker={1: 7 * 1440}, errors={})

    report = Report()
    await examine_retention(ask, 3600, report)
    assert report.findings[0].text.endswith("for 7d, the idle time is 1h.")


async def test_groups_that_may_not_be_described_are_not_allowed() -> None:
    admin = FakeAdmin({f"g{n:02}": FakeGroup() for n in range(50)})
    admin.operations = ALL
    for n in range(1, 50):
        admin.errors[f"g{n:02}"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    right = (await found(admin))["delete groups"]
    assert right.status is Status.WARNING
    assert "Allowed with 1 of 50 groups; 49 cannot be described" in right.text


async def test_where_no_group_may_be_described_it_is_not_said_that_there_is_none(admin: FakeAdmin) -> None:
    for name in admin.groups:
        admin.errors[name] = broker_error("GROUP_AUTHORIZATION_FAILED")
    assert "Allowed with 0 of 2 groups" in (await found(admin))["delete groups"].text
