"""Kafka's own command lines, run from the cluster's jars: the second opinion in cross-checks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab import jars
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.jars import parse_version
from tests.lab.machine.java import find_java
from tests.lab.machine.process import JavaProgram, LabProcess, run_tool
from tests.lab.workload.groups import list_groups

TIMEOUT_S = 120.0
_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_GROUPS_TOOL_OLD = "kafka.admin.ConsumerGroupCommand"
_SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_SHARE_GROUPS_FROM = (4, 1, 0)
_STREAMS_PROGRAM = Path(__file__).with_name("StreamsGroup.java")


def consumer_groups(
    cluster: KafkaCluster, *arguments: str, timeout: float = TIMEOUT_S, options: Sequence[str] = _OPTIONS
) -> str:
    """Return what ``kafka-consumer-groups.sh --bootstrap-server … <arguments>`` prints.

    :param options: of its JVM. Default: those of a quick start.

    Raises LabError with the tool's own words when it exits with an error; many errors it only prints.
    """
    main_class = _GROUPS_TOOL if parse_version(cluster.version) >= (3, 9, 0) else _GROUPS_TOOL_OLD
    program = JavaProgram(
        libs=cluster.libs,
        main_class=main_class,
        arguments=("--bootstrap-server", cluster.bootstrap, *arguments),
        options=tuple(options),
    )
    done = run_tool(program, timeout=timeout)
    if done.returncode != 0:
        raise LabError(f"kafka-consumer-groups {' '.join(arguments)} failed:\n{(done.stdout + done.stderr).strip()}")
    return done.stdout


@contextmanager
def share_consumer(cluster: KafkaCluster, group_id: str, topic: str) -> Iterator[LabProcess]:
    """Run a console share consumer (KIP-932) as a member of a share group for the length of the ``with`` block.

    The group outlives its member: afterwards it is an empty share group. Raises LabError below Kafka 4.1.
    """
    if parse_version(cluster.version) < _SHARE_GROUPS_FROM:
        raise LabError(f"Kafka {cluster.version} has no share groups; take 4.1.0 or newer.")
    program = JavaProgram(
        libs=cluster.libs,
        main_class=_SHARE_CONSUMER,
        arguments=("--bootstrap-server", cluster.bootstrap, "--group", group_id, "--topic", topic),
        options=_OPTIONS,
    )
    process = cluster.start_process(f"share-{group_id}", program.command())
    try:
        process.wait_until(lambda: list_groups(cluster.bootstrap).get(group_id) == ("share", "Stable"), TIMEOUT_S)
        yield process
    finally:
        process.terminate()


@contextmanager
def streams_application(cluster: KafkaCluster, group_id: str, topic: str) -> Iterator[LabProcess]:
    """Run a Kafka Streams application (KIP-1071) for the length of the ``with`` block; it prints what it reads.

    The group outlives it: afterwards it is an empty streams group. A broker of 4.1 must have it switched on.
    """
    streams = jars.fetch_streams(cluster.version)
    options = (*_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    state = cluster.folder / f"state-{group_id}"
    arguments = (cluster.bootstrap, group_id, topic, str(state))
    command = [find_java(), *options, "-cp", f"{cluster.libs}/*:{streams}/*", str(_STREAMS_PROGRAM), *arguments]
    process = cluster.start_process(f"streams-{group_id}", command)
    try:
        yield process
    finally:
        process.terminate()
