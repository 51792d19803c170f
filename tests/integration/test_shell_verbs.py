"""The verbs that change groups, as commands on real brokers, old and new; and killed in the middle."""

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.conftest import each_of
from tests.integration.test_command_line import CommandLine
from tests.lab.cluster import KafkaCluster
from tests.lab.machine.waiting import until
from tests.lab.tools import consumer_groups
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce
from tests.unit.operators.scene import CLUSTER

pytestmark = pytest.mark.safety

TOPIC = "shell-verbs"
kafka = each_of("kafka44", "kafka28", scope="session")


class Shell(CommandLine):
    """The command line, and groups of its own on a cluster with twenty records in each of two partitions."""

    def __init__(self, home: Path, cluster: KafkaCluster, topic: str = TOPIC) -> None:
        super().__init__(home, cluster.bootstrap)
        self.cluster, self.topic, self.prefix = cluster, topic, f"verbs-{uuid4().hex[:6]}"

    def group(self, name: str, *offsets: int) -> str:
        group_id = f"{self.prefix}.{name}"
        commits = {(self.topic, partition): offset for partition, offset in enumerate(offsets)}
        commit_offsets(self.cluster.bootstrap, {group_id: commits})
        return group_id

    def offsets(self, *group_ids: str) -> list[int]:
        """Return what is committed; a group without any offset is dropped by the brokers."""
        done = self.run("offsets", *group_ids, "--conn-id", "lab", "-o", "json")
        rows = sorted(json.loads(done.stdout), key=lambda row: (group_ids.index(row["group_id"]), row["partition"]))
        return [row["offset"] for row in rows]  # brokers answer in any order

    def killed_after(self, method: str, *words: str) -> None:
        """Run a command whose process is killed by SIGKILL as soon as the brokers have done it."""
        self.all_killed({method: words})

    def all_killed(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Run commands, each of which is killed after a method; all are forked from one that has loaded Airflow."""
        code = """
            import json, os, signal, sys
            import airflow_kafka_groups.hooks.kafka_groups
            from airflow_kafka_groups.kafka import AdminClient
            from airflow_kafka_groups.cli.main import main
            ended = []
            for method, words in json.loads(sys.argv[1]).items():
                if not (process := os.fork()):
                    real = getattr(AdminClient, method)
                    async def done(*args, **options):
                        await real(*args, **options)
                        os.kill(os.getpid(), signal.SIGKILL)
                    setattr(AdminClient, method, done)
                    os._exit(main(words))
                ended.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
            sys.exit(set(ended) != {-signal.SIGKILL})
        """
        options = ["--conn-id", "lab", "--storage-path", str(self.storage), "--cluster", CLUSTER]
        given = json.dumps({method: [*words, *options] for method, words in commands.items()})
        program = [sys.executable, "-c", textwrap.dedent(code), given]
        ended = subprocess.run(program, capture_output=True, text=True, env=self.environment, check=False)
        assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def seeded() -> set[str]:
    return set()


@pytest.fixture
def shell(kafka: KafkaCluster, tmp_path: Path, seeded: set[str]) -> Shell:
    return shell_on(kafka, tmp_path, seeded)


def shell_on(cluster: KafkaCluster, home: Path, seeded: set[str]) -> Shell:
    if cluster.bootstrap not in seeded:
        create_topics(cluster.bootstrap, {TOPIC: 2})
        produce(cluster.bootstrap, {(TOPIC, 0): 20, (TOPIC, 1): 20})
        seeded.add(cluster.bootstrap)
    return Shell(home, cluster)


def test_offsets_are_reset_set_and_deleted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.stay(monkeypatch)
    a, b = shell.group("a", 5, 7), shell.group("b", 3)
    dry = shell.stored("reset", a, b, "--to", "latest")
    assert [(row["skips"], row["rereads"]) for row in dry["groups"]] == [(15 + 13, 0), (17, 0)]
    assert shell.offsets(a, b) == [5, 7, 3]
    for words, moved in (
        (("--to", "latest"), [20, 20, 20]),
        (("--shift-by=-4",), [16, 16, 16]),
        (("--ago", "1h"), [0, 0, 0]),
        (("--timestamp", "2100-01-01T00:00:00+00:00"), [20, 20, 20]),
        (("--to", "earliest", "--topic", TOPIC), [0, 0, 0]),
    ):
        assert shell.stored("reset", a, b, *words, "--yes")["counts"]["changed"] == 2, words
        assert shell.offsets(a, b) == moved, words
    assert shell.stored("set", a, f"{TOPIC}:0=9", f"{TOPIC}:1=99", "--yes")["counts"]["changed"] == 1
    assert shell.offsets(a) == [9, 20]
    with LiveConsumer(shell.cluster.bootstrap, b, [TOPIC]):
        assert shell.stored("reset", b, "--to", "latest", "--yes", code=3)["counts"]["kept"] == 1
        assert "a member reads" in shell.stored("delete-offsets", b, "--topic", TOPIC, code=1)["groups"][0]["reason"]
    assert shell.stored("delete-offsets", a, "--topic", TOPIC, "--yes")["partitions"] == 2
    assert shell.offsets(a) == []


def test_offsets_are_copied_to_another_group_also_by_a_command_that_was_killed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = shell.group("green", 5, 7), f"{shell.prefix}.blue"
    shell.killed_after("alter_consumer_group_offsets", "copy", source, target, "--yes")
    assert shell.offsets(target) == [5, 7]
    shell.stay(monkeypatch)
    assert shell.stored("copy", source, target, "--yes")["counts"]["unchanged"] == 1
    shell.group("green", 9, 3)
    assert shell.stored("copy", source, target, "--yes", code=3)["counts"]["kept"] == 1
    assert shell.stored("copy", source, target, "--existing", "lower", "--yes")["counts"]["changed"] == 1
    assert shell.offsets(target) == [5, 3]
    with LiveConsumer(shell.cluster.bootstrap, target, [TOPIC]):
        done = shell.stored("copy", source, target, "--existing", "replace", "--yes", code=3)
        assert done["counts"]["kept"] == 1


def test_named_groups_are_deleted_and_come_back(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.stay(monkeypatch)
    a = shell.group("gone", 5, 7)
    assert shell.stored("delete", a, "--observe", "0.5")["counts"]["would_delete"] == 1
    done = shell.stored("delete", a, "--observe", "0.5", "--yes")
    assert (done["counts"]["deleted"], shell("list", "--include", a)) == (1, [])
    assert shell.stored("restore", done["plan_id"], "--yes")["counts"]["changed"] == 1
    assert shell.offsets(a) == [5, 7]


def test_a_shift_whose_process_is_killed_moves_no_group_twice(shell: Shell) -> None:
    a, b = shell.group("killed", 5, 7), shell.group("killed-too", 3, 3)
    words = ("reset", a, b, "--shift-by", "2", "--yes")
    shell.killed_after("alter_consumer_group_offsets", *words)
    assert shell.offsets(a, b) == [7, 9, 5, 5]
    again = shell.stored(*words)
    assert (again["counts"]["unchanged"], shell.offsets(a, b)) == (2, [7, 9, 5, 5])
    assert shell.stored(*words)["counts"]["changed"] == 2, "the next one is a new one"
    assert shell.offsets(a, b) == [9, 11, 7, 7]


def test_offsets_whose_deletion_is_killed_are_on_record(shell: Shell) -> None:
    a = shell.group("forgotten", 5, 7)
    words = ("delete-offsets", a, "--topic", TOPIC, "--yes")
    shell.killed_after("delete_consumer_group_offsets", *words)
    assert shell.offsets(a) == []
    assert shell.stored(*words)["counts"]["unchanged"] == 1
    first = min((shell.storage / CLUSTER / "changes").glob("*-before.json"))
    (group,) = json.loads(first.read_text())["groups"]
    assert group["before"][0]["offsets"] == [5, 7]


def test_a_deletion_that_is_killed_has_its_backup(shell: Shell) -> None:
    a = shell.group("deleted", 5, 7)
    shell.killed_after("delete_consumer_groups", "delete", a, "--observe", "0.5", "--yes")
    assert shell("list", "--include", a) == []
    (backup,) = (shell.storage / CLUSTER / "plans").glob("*.json")
    plan_id = backup.name.partition(".")[0].removesuffix("-plan")
    assert shell.stored("restore", plan_id, "--yes")["counts"]["changed"] == 1
    assert shell.offsets(a) == [5, 7]


def test_kafkas_own_tool_reads_what_is_written_and_writes_what_is_read(
    kafka28: KafkaCluster, tmp_path: Path, seeded: set[str]
) -> None:
    """Both forms of its CSV: of one group, and of several. The jars of newer brokers in this lab write no CSV."""
    shell = shell_on(kafka28, tmp_path, seeded)
    a, b = shell.group("csv-a", 5, 7), shell.group("csv-b", 3)
    before, one = tmp_path / "before.csv", tmp_path / "one.csv"
    before.write_text(shell.run("offsets", a, b, "--conn-id", "lab", "-o", "csv").stdout)
    one.write_text(shell.run("offsets", a, "--conn-id", "lab", "-o", "csv").stdout)
    assert sorted(one.read_text().splitlines()) == [f"{TOPIC},0,5", f"{TOPIC},1,7"]
    assert sorted(before.read_text().splitlines()) == [f"{a},{TOPIC},0,5", f"{a},{TOPIC},1,7", f"{b},{TOPIC},0,3"]

    def tool(*words: str) -> str:
        done = consumer_groups(shell.cluster, "--timeout", "60000", "--reset-offsets", *words)
        assert "Error" not in done, done  # of which it only prints many
        return done

    exported = tool("--group", a, "--group", b, "--all-topics", "--to-latest", "--export", "--dry-run")
    plan = tmp_path / "plan.csv"
    plan.write_text("".join(line for line in exported.splitlines(keepends=True) if line.count(",") == 3))
    assert shell.stored("reset", "--from-file", str(plan), "--yes")["counts"]["changed"] == 2
    assert shell.offsets(a, b) == [20, 20, 20]
    exported = tool("--group", a, "--topic", f"{TOPIC}:1", "--shift-by", "-3", "--export", "--dry-run")
    plan.write_text("".join(line for line in exported.splitlines(keepends=True) if line.count(",") == 2))
    assert shell.stored("reset", a, "--from-file", str(plan), "--yes")["counts"]["changed"] == 1
    assert shell.offsets(a) == [20, 17]
    tool("--group", a, "--group", b, "--from-file", str(before), "--execute")
    assert shell.offsets(a, b) == [5, 7, 3]
    tool("--group", a, "--from-file", str(one), "--execute")
    assert shell.offsets(a) == [5, 7]


def test_kafkas_own_tool_alone_restores_a_backup(kafka28: KafkaCluster, tmp_path: Path, seeded: set[str]) -> None:
    shell = shell_on(kafka28, tmp_path, seeded)
    a, b = shell.group("out-a", 5, 7), shell.group("out-b", 3)
    backup = shell.stored("backup", a, b)["plan_id"]
    assert shell.stored("delete", a, b, "--observe", "0.5", "--yes")["counts"]["deleted"] == 2

    def export(*words: str) -> str:
        done = shell.run("export-backup", backup, *words, "--storage-path", str(shell.storage), "--cluster", CLUSTER)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = [json.loads(line) for line in export("-o", "jsonl").splitlines()]
    assert sorted((row["group_id"], row["partition"], row["offset"]) for row in lines) == [
        (a, 0, 5),
        (a, 1, 7),
        (b, 0, 3),
    ]
    (both := tmp_path / "both.csv").write_text(export("-o", "csv"))
    (one := tmp_path / "one.csv").write_text(export(a, "-o", "csv"))
    words = ["--reset-offsets", "--execute", "--timeout", "60000"]
    consumer_groups(shell.cluster, *words, "--group", a, "--group", b, "--from-file", str(both))
    assert shell.offsets(a, b) == [5, 7, 3]
    consumer_groups(shell.cluster, *words, "--group", a, "--to-earliest", "--topic", TOPIC)
    assert shell.offsets(a) == [0, 0]
    consumer_groups(shell.cluster, *words, "--group", a, "--from-file", str(one))
    assert shell.offsets(a) == [5, 7]


@contextmanager
def static_member(shell: Shell, group_id: str, instance_id: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a consumer with a ``group.instance.id`` as a process of its own; it prints each assignment."""
    code = """
        import sys
        from confluent_kafka import Consumer
        servers, group, instance, topic, *more = sys.argv[1:]
        options = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
        options |= dict(each.split("=") for each in more) | ({"group.instance.id": instance} if instance else {})
        consumer = Consumer(options)
        consumer.subscribe([topic], on_assign=lambda _, got: print("assigned", len(got), flush=True))
        while True:
            consumer.poll(0.2)
    """
    words = [shell.cluster.bootstrap, group_id, instance_id, shell.topic, *(f"{k}={v}" for k, v in options.items())]
    program = [sys.executable, "-c", textwrap.dedent(code), *words]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("assigned")
        yield process
    finally:
        process.kill()
        process.wait()


def members(shell: Shell, group_id: str) -> dict[str, str | None]:
    return {row["member_id"]: row["group_instance_id"] for row in shell("describe", group_id) if row["member_id"]}


LONG = {"session.timeout.ms": 300_000, "max.poll.interval.ms": 300_000}


def test_a_static_member_that_is_gone_is_removed_and_rejoins(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pod was moved: for five minutes nobody would read its partitions. Its next process gets them at once."""
    shell.stay(monkeypatch)
    group_id = f"{shell.prefix}.static"
    with static_member(shell, group_id, "pod-1", **LONG):
        (first,) = members(shell, group_id)
    assert members(shell, group_id) == {first: "pod-1"}, "a static member that ends does not leave"
    dry = shell.stored("remove-members", group_id, "--instance-id", "pod-1")
    assert [(row["group_instance_id"], row["outcome"]) for row in dry["members"]] == [("pod-1", "would_change")]
    assert members(shell, group_id) == {first: "pod-1"}
    done = shell.stored("remove-members", group_id, "--instance-id", "pod-1", "--reason", "pod moved", "--yes")
    assert (done["counts"]["changed"], members(shell, group_id)) == (1, {})
    with static_member(shell, group_id, "pod-1", **LONG):
        (second,) = members(shell, group_id)
        assert second != first
        kept = shell.stored("remove-members", group_id, "--member-id", first, "--yes")
        assert kept["counts"]["unchanged"] == 1, "the membership of before is no member any more"
        assert members(shell, group_id) == {second: "pod-1"}


def test_a_zombie_is_removed_and_joins_again_when_it_wakes_up(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.stay(monkeypatch)
    group_id = f"{shell.prefix}.zombie"
    with static_member(shell, group_id, "", **LONG) as process:
        (first,) = members(shell, group_id)
        process.send_signal(signal.SIGSTOP)
        assert shell.stored("remove-members", group_id, "--all-members", "--yes")["counts"]["changed"] == 1
        assert members(shell, group_id) == {}
        process.send_signal(signal.SIGCONT)
        until(lambda: members(shell, group_id))
        assert first not in members(shell, group_id)


def test_a_removal_whose_process_is_killed_removes_nobody_who_came_back(shell: Shell) -> None:
    group_id = f"{shell.prefix}.came-back"
    words = ("remove-members", group_id, "--instance-id", "pod-1", "--yes")
    with static_member(shell, group_id, "pod-1", **LONG):
        pass
    shell.killed_after("remove_members_from_consumer_group", *words)
    with static_member(shell, group_id, "pod-1", **LONG):
        there = members(shell, group_id)
        again = shell.stored(*words, code=3)
        assert "has joined since" in again["members"][0]["reason"]
        assert members(shell, group_id) == there


def test_members_of_the_new_protocol_are_kept(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    if shell.cluster.version.startswith("2."):
        return  # nobody can have such members there
    shell.stay(monkeypatch)
    group_id = f"{shell.prefix}.modern"
    with LiveConsumer(shell.cluster.bootstrap, group_id, [TOPIC], protocol="consumer"):
        there = members(shell, group_id)
        done = shell.stored("remove-members", group_id, "--all-members", "--yes", code=3)
        assert "KIP-848" in done["members"][0]["reason"]
        assert members(shell, group_id) == there
