"""The Kafka release of a broker, derived from the API versions that it announces: brokers do not announce a release.

Kafka-compatible brokers (Redpanda and others) get the release whose APIs they support.
"""

from __future__ import annotations

from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions

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
    ((2, 7), 22, 4),  # InitProducerId
    ((2, 6), 16, 4),  # ListGroups
    ((2, 5), 9, 7),  # OffsetFetch
    ((2, 4), 9, 6),  # OffsetFetch
    ((2, 3), 3, 8),  # Metadata
    ((2, 2), 2, 5),  # ListOffsets
    ((2, 1), 9, 5),  # OffsetFetch
    ((2, 0), 9, 4),  # OffsetFetch
    ((1, 1), 42, 0),  # DeleteGroups
)


def oldest_release(versions: ApiVersions) -> Release | None:
    """Return the first release with the versions of this broker; ``None`` before 1.1."""
    for release, key, version in _MARKS:
        lowest_highest = versions.ranges.get(key)
        if lowest_highest is not None and lowest_highest[1] >= version:
            return release
    return None
