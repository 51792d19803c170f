"""The description of a snapshot's observations, which binds them to the snapshot and to their bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from airflow_kafka_groups.observe.history.snapshots import History
from airflow_kafka_groups.storage.digest import digest_of
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.ids import parse_time
from airflow_kafka_groups.storage.manifest import SnapshotManifest

PARTITION = "snapshot_id"
"""The column that the folders of the table are named after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationManifest:
    """The description of a snapshot's observations.

    :param source: digest of what they were made of: the snapshot's manifest, and the sizes of its files.
    :param groups: the number of observations.
    :param oldest: time of the first one (ISO 8601); ``None`` for a snapshot without groups.
    :param newest: time of the last one.
    :param file: the file's name; ``None`` for a snapshot without groups.
    :param bytes: the file's size.
    :param sha256: the file's SHA-256.
    """

    snapshot_id: str
    cluster: str
    source: str
    groups: int
    oldest: str | None
    newest: str | None
    file: str | None
    bytes: int
    sha256: str | None
    format: int = FORMAT

    def describes(self, manifest: SnapshotManifest, source: str) -> bool:
        """Return whether these are the observations of a snapshot, in the present format.

        :param source: what ``source_of`` returns for it.
        """
        found = self.format, self.snapshot_id, self.cluster, self.source, self.file is None
        return found == (FORMAT, manifest.snapshot_id, manifest.cluster, source, self.groups == 0)


def source_of(manifest: SnapshotManifest, history: History) -> str:
    """Return the digest that binds observations to their snapshot."""
    sizes = {name: history.sizes.get((manifest.snapshot_id, name)) for name, _ in manifest.files}
    return digest_of({"manifest": manifest.to_json(), "sizes": sizes})


def parse(text: str) -> ObservationManifest | None:
    """Return the manifest, of any version; ``None`` for a string that is none."""
    try:
        manifest = ObservationManifest(**json.loads(text))
        for at in (manifest.oldest, manifest.newest):
            if at is not None:
                parse_time(at)
        if type(manifest.groups) is not int or (manifest.oldest is None) != (manifest.groups == 0):
            return None
    except (ValueError, TypeError):
        return None
    return manifest
