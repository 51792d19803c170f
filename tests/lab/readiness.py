"""When is a broker ready? When it answers, knows all the others, and every group has a coordinator."""

from tests.lab.machine.ports import HOST
from tests.lab.properties import Node
from tests.lab.wire import OFFSETS_TOPIC, Connection, leaders

_TIMEOUT_S = 2.0


def knows(node: Node, expected: frozenset[int]) -> bool:
    """Return whether this broker answers and sees all the expected ones."""
    try:
        with Connection(HOST, node.port, timeout=_TIMEOUT_S) as connection:
            seen = {int(broker.node_id) for broker in connection.metadata().brokers}
    except OSError:
        return False
    return expected <= seen


def has_coordinators(node: Node) -> bool:
    """Return whether every offsets partition has a leader; asks for a group first, which creates the topic."""
    try:
        with Connection(HOST, node.port, timeout=_TIMEOUT_S) as connection:
            if int(connection.find_group_coordinator("lab-ready").error_code) != 0:
                return False
            metadata = connection.metadata((OFFSETS_TOPIC,))
    except OSError:
        return False
    partitions = sum(len(topic.partitions) for topic in metadata.topics)
    return 0 < partitions == len(leaders(metadata, OFFSETS_TOPIC))
