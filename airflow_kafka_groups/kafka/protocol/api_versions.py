"""The versions that one broker supports, and the version to use with it (KIP-35).

Nothing here is shared between brokers: one old broker must not change how the others are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import UnsupportedVersionError
from airflow_kafka_groups.kafka.protocol.protocol_apis import Api


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
