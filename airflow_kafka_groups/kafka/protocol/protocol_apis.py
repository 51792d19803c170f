"""The Kafka APIs that this package uses, and the versions of each.

The last version is not always the newest. OffsetFetch v10 and OffsetCommit v10 take topic ids instead of names, and
answer UNKNOWN_TOPIC_ID for deleted topics of which a group still has offsets, so v9 is the last. OffsetFetch below v2
has neither "all topics" nor an error for the group, so v2 is the first.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Api:
    """One Kafka API.

    :param key: its number.
    :param name: its name in Kafka's documentation.
    :param min_version: the first version used.
    :param max_version: the last version used.
    :param first_flexible: the first version with tagged fields (KIP-482); ``None`` where no version has them.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    first_flexible: int | None

    def __repr__(self) -> str:
        return self.name

    def is_flexible(self, version: int) -> bool:
        """Return whether a version has the compact encoding and tagged fields (KIP-482)."""
        return self.first_flexible is not None and version >= self.first_flexible


LIST_OFFSETS = Api(2, "ListOffsets", 1, 9, 6)
METADATA = Api(3, "Metadata", 1, 12, 9)
OFFSET_COMMIT = Api(8, "OffsetCommit", 2, 9, 8)
OFFSET_FETCH = Api(9, "OffsetFetch", 2, 9, 6)
FIND_COORDINATOR = Api(10, "FindCoordinator", 0, 6, 3)
JOIN_GROUP = Api(11, "JoinGroup", 0, 9, 6)
HEARTBEAT = Api(12, "Heartbeat", 0, 4, 4)
LEAVE_GROUP = Api(13, "LeaveGroup", 0, 5, 4)
SYNC_GROUP = Api(14, "SyncGroup", 0, 5, 4)
DESCRIBE_GROUPS = Api(15, "DescribeGroups", 0, 6, 5)
LIST_GROUPS = Api(16, "ListGroups", 0, 5, 3)
API_VERSIONS = Api(18, "ApiVersions", 0, 3, 3)
DELETE_GROUPS = Api(42, "DeleteGroups", 0, 2, 2)
OFFSET_DELETE = Api(47, "OffsetDelete", 0, 0, None)
CONSUMER_GROUP_DESCRIBE = Api(69, "ConsumerGroupDescribe", 0, 1, 0)
SHARE_GROUP_DESCRIBE = Api(77, "ShareGroupDescribe", 1, 1, 0)
STREAMS_GROUP_DESCRIBE = Api(89, "StreamsGroupDescribe", 0, 0, 0)

CHANGES = frozenset({OFFSET_COMMIT, DELETE_GROUPS, OFFSET_DELETE})
"""Those by which this package changes groups that it is no member of."""
