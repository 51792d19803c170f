"""Share groups (KIP-932) and streams groups (KIP-1071), from a snapshot to their restore, by the commands.

They are deleted only by a rule that names their type, and where their brokers can restore them.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from tests.integration.conftest import config_of, connection_client
from tests.integration.test_command_line import CommandLine
from tests.lab.cluster import KafkaCluster
from tests.lab.machine.process import JavaProgram, run_tool
from tests.lab.machine.waiting import until
from tests.lab.tools import share_consumer, streams_application
from tests.lab.workload.groups import list_groups
from tests.lab.workload.topics import create_topics, delete_records, produce

pytestmark = pytest.mark.safety

RULE = "version: 1\nrules: [{{name: old, match: {{{}}}, action: delete, idle: 1s}}]\n"
PREVIEW = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
    "unstable.api.versions.enable": "true",
    "unstable.feature.versions.enable": "true",
}
"""What switches streams groups on in Kafka 4.1."""


@pytest.fixture
def lab(kafka44: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return lab_on(kafka44, tmp_path, monkeypatch)


def lab_on(cluster: KafkaCluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    lab = CommandLine(home, cluster.bootstrap)
    lab.stay(monkeypatch)
    return lab


def positions(lab: CommandLine, group_id: str) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["partition"]): row["offset"] for row in lab("offsets", group_id)}


def set_start(cluster: KafkaCluster, group_id: str, topic: str, *offsets: int) -> Any:
    """Set where a share group starts, which makes one; return the result."""
    starts = {TopicPartition(topic, number): OffsetAndMetadata(offset) for number, offset in enumerate(offsets)}

    async def alter() -> Any:
        async with connection_client(config_of(cluster)) as admin:
            return await admin.alter_consumer_group_offsets({group_id: starts}, share_groups=[group_id])

    return asyncio.run(alter())[group_id]


def survives(lab: CommandLine, group_id: str, kind: str, after: dict[tuple[str, int], int] | None = None) -> str:
    """Delete a group by a policy that names its type, after one that does not kept it; bring it back, and say how."""
    before = positions(lab, group_id)
    lab.stored("snapshot")
    time.sleep(1.5)
    lab.stored("snapshot")
    lab.stored("judge", "--min-idle", "1s")
    policy = lab.storage / "policy.yaml"
    words = ("--policy-file", str(policy), "--include", group_id, "--max-share", "1")
    policy.write_text(RULE.format(f"groups: {group_id}"))
    unnamed = {row["group_id"]: row["reason"] for row in lab.stored("plan", *words, "--kept")["kept"]}
    assert unnamed[group_id] == f"rule 'old' does not name the type '{kind}'"
    policy.write_text(RULE.format(f"groups: {group_id}, types: {kind}"))
    plan = lab.stored("plan", *words)
    assert [row["group_id"] for row in plan["groups"]] == [group_id]
    lab.stored("backup", "--plan-id", plan["plan_id"], "--digest", plan["digest"])
    assert lab.stored("apply", plan["plan_id"], "--digest", plan["digest"], "--yes")["counts"]["deleted"] == 1
    assert lab("list", "--include", group_id) == []
    restored = lab.stored("restore", plan["plan_id"], "--yes")
    assert restored["counts"]["changed"] == 1
    assert positions(lab, group_id) == (before if after is None else after)
    return str(restored["groups"][0]["reason"])


def test_a_share_group_survives_its_deletion(lab: CommandLine, kafka44: KafkaCluster) -> None:
    create_topics(kafka44.bootstrap, {"types-share": 2})
    produce(kafka44.bootstrap, {("types-share", 0): 10, ("types-share", 1): 4})
    assert set_start(kafka44, "types.share", "types-share", 3, 4).ok
    assert [row["lag"] for row in lab("lag", "types.share")] == [7]
    survives(lab, "types.share", "share")
    assert [row["type"] for row in lab("list", "--include", "types.share")] == ["share"]
    with share_consumer(kafka44, "types.share", "types-share") as consumer:
        until(lambda: "record 9" in consumer.log_tail())
        assert "record 2" not in consumer.log_tail()
        assert not set_start(kafka44, "types.share", "types-share", 0, 0).ok


def test_a_share_group_behind_its_log_comes_back_at_the_logs_start(lab: CommandLine, kafka44: KafkaCluster) -> None:
    create_topics(kafka44.bootstrap, {"types-behind": 1})
    produce(kafka44.bootstrap, {("types-behind", 0): 10})
    assert set_start(kafka44, "types.behind", "types-behind", 2).ok
    delete_records(kafka44.bootstrap, {("types-behind", 0): 5})
    said = survives(lab, "types.behind", "share", {("types-behind", 0): 5})
    assert said == "committed and verified"
    with share_consumer(kafka44, "types.behind", "types-behind") as consumer:
        until(lambda: "record 9" in consumer.log_tail())
        assert "record 4" not in consumer.log_tail()


def test_a_named_share_group_is_deleted_if_its_type_is_named(lab: CommandLine, kafka44: KafkaCluster) -> None:
    create_topics(kafka44.bootstrap, {"types-named": 1})
    produce(kafka44.bootstrap, {("types-named", 0): 5})
    assert set_start(kafka44, "types.named", "types-named", 2).ok
    delete = ("delete", "types.named", "--observe", "1s", "--ignore-signs-of-life", "--yes")
    assert lab.stored(*delete, code=3)["kept_reasons"] == {"wrong_type": 1}
    assert lab.stored(*delete, "--type", "share")["counts"]["deleted"] == 1


def test_a_share_group_is_kept_where_brokers_cannot_restore_it(
    kafka41: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = lab_on(kafka41, tmp_path, monkeypatch)
    create_topics(kafka41.bootstrap, {"types-share": 1})
    produce(kafka41.bootstrap, {("types-share", 0): 5})
    with share_consumer(kafka41, "types.share", "types-share") as consumer:

        def reads() -> bool:
            produce(kafka41.bootstrap, {("types-share", 0): 1})
            return "record" in consumer.log_tail()

        until(reads)
    until(lambda: list_groups(kafka41.bootstrap)["types.share"].state == "Empty")
    assert not set_start(kafka41, "types.share", "types-share", 1).ok
    until(lambda: positions(lab, "types.share"))
    words = ("types.share", "--observe", "1s", "--ignore-signs-of-life", "--type", "share", "--yes")
    assert "that takes Kafka 4.2" in lab.stored("delete", *words, code=3)["outcomes"][0]["reason"]


def test_a_streams_group_survives_its_deletion(lab: CommandLine, kafka44: KafkaCluster) -> None:
    of_streams(lab, kafka44)
    survives(lab, "types.streams", "streams")
    produce(kafka44.bootstrap, {("types-streams", 1): 1})
    with streams_application(kafka44, "types.streams", "types-streams") as application:
        until(lambda: application.log_tail(99).count("read ") == 11)  # the log goes on: one more, and none again
        until(lambda: sum(positions(lab, "types.streams").values()) == 22)
        assert application.log_tail(99).count("read ") == 11
        assert list_groups(kafka44.bootstrap)["types.streams"].type == "streams"


def test_a_streams_group_is_kept_where_its_application_could_not_join_a_restored_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaCluster(version="4.1.0", brokers=1, config=PREVIEW) as cluster:
        words = ("--bootstrap-server", cluster.bootstrap, "upgrade", "--feature", "streams.version=1")
        tool = JavaProgram(libs=cluster.libs, main_class="org.apache.kafka.tools.FeatureCommand", arguments=words)
        assert run_tool(tool, timeout=60).returncode == 0
        lab = lab_on(cluster, tmp_path, monkeypatch)
        of_streams(lab, cluster)
        delete = ("delete", "types.streams", "--observe", "1s", "--ignore-signs-of-life", "--type", "streams", "--yes")
        assert "that takes Kafka 4.2" in lab.stored(*delete, code=3)["outcomes"][0]["reason"]

        async def delete_and_restore() -> None:
            async with connection_client(config_of(cluster)) as admin:
                offsets = await admin.list_consumer_group_offsets("types.streams")
                (await admin.delete_consumer_groups(["types.streams"], types=["streams"])).raise_for_errors()
                commits = {where: commit for where, commit in offsets.items() if commit is not None}
                (await admin.alter_consumer_group_offsets({"types.streams": commits})).raise_for_errors()

        asyncio.run(delete_and_restore())
        with streams_application(cluster, "types.streams", "types-streams") as application:
            until(lambda: "Group types.streams is not a streams group" in application.log_tail(99))


def of_streams(lab: CommandLine, cluster: KafkaCluster) -> None:
    """Let an application make a streams group, and look at it."""
    where = cluster.bootstrap
    create_topics(where, {"types-streams": 2})
    produce(where, {("types-streams", 0): 6, ("types-streams", 1): 4})
    with streams_application(cluster, "types.streams", "types-streams") as application:
        until(lambda: application.log_tail(99).count("read ") == 10)
        until(lambda: sum(positions(lab, "types.streams").values()) == 20)
    until(lambda: list_groups(where)["types.streams"] == ("streams", "Empty"))
    (described,) = lab("describe", "types.streams")
    internal = [f"types.streams-counts-{each}" for each in ("changelog", "repartition")]
    assert described["internal_topics"] == internal
    assert {topic for topic, _ in positions(lab, "types.streams")} == {"types-streams", internal[1]}
