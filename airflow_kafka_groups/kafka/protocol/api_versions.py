"""The APIs and versions that one broker supports (KIP-35), the version to use, and the release that they show.

Nothing here is shared between brokers: one old broker must not change how the others are asked. OffsetFetch v10 and
OffsetCommit v10 take topic ids, and answer UNKNOWN_TOPIC_ID for deleted topics of which a group still has offsets, so
v9 is the last. OffsetFetch below v7 cannot be asked for stable offsets only, so v7 is the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import UnsupportedVersionError


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


FETCH = Api(1, "Fetch", 12, 12, 12)
LIST_OFFSETS = Api(2, "ListOffsets", 1, 9, 6)
METADATA = Api(3, "Metadata", 1, 12, 9)
OFFSET_COMMIT = Api(8, "OffsetCommit", 2, 9, 8)
OFFSET_FETCH = Api(9, "OffsetFetch", 7, 9, 6)
FIND_COORDINATOR = Api(10, "FindCoordinator", 1, 6, 3)
JOIN_GROUP = Api(11, "JoinGroup", 5, 9, 6)
HEARTBEAT = Api(12, "Heartbeat", 0, 4, 4)
LEAVE_GROUP = Api(13, "LeaveGroup", 3, 5, 4)
SYNC_GROUP = Api(14, "SyncGroup", 0, 5, 4)
DESCRIBE_GROUPS = Api(15, "DescribeGroups", 0, 6, 5)
LIST_GROUPS = Api(16, "ListGroups", 3, 5, 3)
API_VERSIONS = Api(18, "ApiVersions", 0, 3, 3)
DESCRIBE_CONFIGS = Api(32, "DescribeConfigs", 1, 4, 4)
DELETE_GROUPS = Api(42, "DeleteGroups", 0, 2, 2)
OFFSET_DELETE = Api(47, "OffsetDelete", 0, 0, None)
CONSUMER_GROUP_DESCRIBE = Api(69, "ConsumerGroupDescribe", 0, 1, 0)
SHARE_GROUP_DESCRIBE = Api(77, "ShareGroupDescribe", 1, 1, 0)
STREAMS_GROUP_DESCRIBE = Api(89, "StreamsGroupDescribe", 0, 0, 0)
DESCRIBE_SHARE_OFFSETS = Api(90, "DescribeShareGroupOffsets", 0, 1, 0)
ALTER_SHARE_OFFSETS = Api(91, "AlterShareGroupOffsets", 0, 0, 0)

CHANGES = frozenset({OFFSET_COMMIT, DELETE_GROUPS, OFFSET_DELETE, ALTER_SHARE_OFFSETS})
"""Those by which this package changes groups that it is no member of."""


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """The version range of every API key that a broker announced."""

    ranges: Mapping[int, tuple[int, int]]

    def choose(self, api: Api) -> int:
        """Return the newest version that both sides support.

        Raises ``UnsupportedVersionError`` when there is none.
        """
        if api.key not in self.ranges:
            raise UnsupportedVersionError(f"the broker does not know the API {api.name} (key {api.key})")
        lowest, highest = self.ranges[api.key]
        version = min(highest, api.max_version)
        if version < max(lowest, api.min_version):
            raise UnsupportedVersionError(
                f"{api.name}: the broker speaks v{lowest}-{highest}, this client v{api.min_version}-{api.max_version}"
            )
        return version

    def supports(self, api: Api, version: int) -> bool:
        """Return whether the broker and this client can use at least this version of an API."""
        try:
            return self.choose(api) >= version
        except UnsupportedVersionError:
            return False


Release = tuple[int, int]

# Newest first: the release, and an API (by its key) with the version that came with it.
_MARKS: tuple[tuple[Release, int, int], ...] = (
    ((4, 4), 42, 3),  # DeleteGroups
    ((4, 3), 35, 5),  # DescribeLogDirs
    ((4, 2), 9, 10),  # OffsetFetch
    ((4, 1), 1, 18),  # Fetch
    ((4, 0), 3, 13),  # Metadata
    ((3, 9), 1, 17),  # Fetch
    ((3, 8), 16, 5),  # ListGroups
    ((3, 7), 1, 16),  # Fetch
    ((3, 5), 1, 15),  # Fetch
    ((3, 1), 1, 13),  # Fetch
    ((3, 0), 9, 8),  # OffsetFetch, KIP-709
    ((2, 8), 60, 0),  # DescribeCluster
)


def oldest_release(versions: ApiVersions) -> Release | None:
    """Return the first release with the versions of this broker; ``None`` before 2.8."""
    for release, key, version in _MARKS:
        lowest_highest = versions.ranges.get(key)
        if lowest_highest is not None and lowest_highest[1] >= version:
            return release
    return None
