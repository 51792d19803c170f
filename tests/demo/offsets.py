"""What brokers have of a group's offsets, read by another client than ours."""

from collections.abc import Iterable

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from tests.lab.workload.topics import quiet

_TIMEOUT_S = 60.0


def committed_offsets(bootstrap: str, group_ids: Iterable[str]) -> dict[str, dict[tuple[str, int], int]]:
    """Return the committed offsets of groups; none for a group that is not there."""
    admin = AdminClient(quiet(bootstrap))
    found: dict[str, dict[tuple[str, int], int]] = {}
    for group_id in group_ids:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)])
        read = asked[group_id].result(_TIMEOUT_S).topic_partitions or ()
        found[group_id] = {(at.topic, at.partition): at.offset for at in read if at.offset >= 0}
    return found
