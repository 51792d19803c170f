"""The folders that the connections to one cluster have in a storage, and the snapshots that are later than another one.

A storage may have the folders of hundreds of clusters. The clocks of two workers may differ by some minutes, so that a
snapshot seems to be from before the plan's and is not. Of what other connections have taken, in folders of their own,
the judgement knows nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.observe.snapshot.reader import SLOWEST, SnapshotReader, load_manifest, snapshot_ids
from airflow_kafka_groups.storage.access import unless_warned
from airflow_kafka_groups.storage.file_storage import FILES, read_few
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import CLOCK_SLACK, is_cluster_name, time_of, time_prefix

_MOST_DAMAGED = 10


def other_folders(layout: Layout, without: Collection[str] = (), warning: str = "") -> list[Layout]:
    """Return the other clusters' folders of the storage: they may be of the same Kafka cluster.

    :param without: names of folders to leave out. Default: none.
    :param warning: as of ``unless_warned``, for a storage that cannot be listed. Default: it raises ``StorageError``.
    """
    names = list[str]()
    with unless_warned(warning):
        names = FILES.folders(layout.base)
    chosen = {*filter(is_cluster_name, names)} - {layout.cluster, *without}
    return [Layout(layout.base, name) for name in sorted(chosen)]


def may_be_of(layout: Layout, kafka_cluster_id: str | None, ids: Sequence[str]) -> bool:
    """Return whether a folder's runs may be on this cluster, by its newest snapshot that is whole: in doubt they may.

    One that names no cluster is in doubt: brokers that start may not know their id yet.

    :param ids: its snapshots.
    """
    for snapshot_id in ids[: -_MOST_DAMAGED - 1 : -1]:
        with suppress(SnapshotError):
            return load_manifest(layout, snapshot_id, may_be_copied=True).kafka_cluster_id in (kafka_cluster_id, None)
    return True


def folders_with_snapshots(
    layout: Layout, kafka_cluster_id: str | None, warning: str = ""
) -> Iterator[tuple[Layout, list[str]]]:
    """Yield the other folders of the storage whose newest snapshot may be of the same cluster, with their snapshots.

    :param kafka_cluster_id: the id that the brokers report; ``None`` yields none.
    :param warning: as of ``unless_warned``, for a folder that cannot be read, which is left out. Default: it raises.

    Raises ``StorageError``.
    """

    def of_this_cluster(other: Layout) -> list[str]:
        with unless_warned(warning):
            if (ids := snapshot_ids(other)) and may_be_of(other, kafka_cluster_id, ids):
                return ids
        return []

    others = other_folders(layout, warning=warning) if kafka_cluster_id else []
    for other, ids in zip(others, read_few(of_this_cluster, others), strict=True):
        if ids:
            yield other, ids


_BEFORE = 10
"""So many snapshots that began before are asked when they ended, and all that began in ``SLOWEST``."""


class KnownSnapshots(set[str]):
    """The ids of snapshots that were looked at.

    ``noted`` are the names of folders that have snapshots of the cluster, or get some, by its log; ``looked_at`` those
    of the other folders that were looked at, and ``elsewhere`` are those of them that may have some.
    """

    def __init__(self) -> None:
        super().__init__()
        self.noted: set[str] = set()
        self.looked_at: set[str] = set()
        self.elsewhere: list[Layout] = []


def later_snapshots(
    layout: Layout,
    snapshot_id: str,
    kafka_cluster_id: str,
    known: KnownSnapshots | None = None,
    *,
    elsewhere_since: datetime | None = None,
) -> Iterator[SnapshotReader]:
    """Yield the snapshots of a cluster that ended after another one began, oldest first, without that one.

    Ids have the time at which a snapshot began. A slow one that began before may have seen a group later. So may one
    that ended some minutes before, by another worker's clock: ``is_news`` says what of it counts. Those in other
    folders of the storage come last.

    :param snapshot_id: the other one.
    :param known: ids to leave out; those that were looked at are added. Default: none.
    :param elsewhere_since: yield those in other folders that ended since then, too: no judgement knows them.

    Raises ``SnapshotError`` for a snapshot that is damaged: what it shows is not known. So it does if the other one is
    gone: whatever removed it, such as a pruning of files, may have removed later ones. Its name alone does not count,
    for anything can be called so; its manifest is read once.
    """
    known = KnownSnapshots() if known is None else known
    ids = snapshot_ids(layout)
    place = bisect_left(ids, snapshot_id)
    # A listing may be late: what it lacks is asked for by its name.
    if snapshot_id not in known or ids[place : place + 1] != [snapshot_id]:
        try:
            load_manifest(layout, snapshot_id)
        except SnapshotError as exc:
            raise SnapshotError(
                f"{exc}. Later ones may be gone, too, and what they showed is not known: take a new one, and plan again"
            ) from exc
        known.add(snapshot_id)
    yield from _later(layout, ids, snapshot_id, kafka_cluster_id, known)
    noted = known.noted.difference(other.cluster for other in known.elsewhere)
    new = other_folders(layout, known.looked_at - noted)
    may_have_some = read_few(partial(_may_have_some, snapshot_id, kafka_cluster_id), new)
    for other, has_some in zip(new, may_have_some, strict=True):
        if has_some or other.cluster in noted:
            known.elsewhere.append(other)
        known.looked_at.add(other.cluster)
    for other in known.elsewhere:
        yield from _later(
            other, snapshot_ids(other), snapshot_id, kafka_cluster_id, known, elsewhere_since, copied=True
        )


def _may_have_some(snapshot_id: str, kafka_cluster_id: str, other: Layout) -> bool:
    """Return whether another folder may have snapshots of the cluster, or get some."""
    ids = snapshot_ids(other)
    until_first = ids[: bisect_right(ids, snapshot_id) + 1]  # its connection may have been switched since
    return may_be_of(other, kafka_cluster_id, ids) or (
        len(until_first) < len(ids) and may_be_of(other, kafka_cluster_id, until_first)
    )


def _later(
    layout: Layout,
    ids: Sequence[str],
    snapshot_id: str,
    kafka_cluster_id: str,
    known: set[str],
    since: datetime | None = None,
    *,
    copied: bool = False,
) -> Iterator[SnapshotReader]:
    place, began_at = bisect_left(ids, snapshot_id), min(time_of(snapshot_id), since or time_of(snapshot_id))
    before = bisect_left(ids, time_prefix(began_at - SLOWEST))
    for id_ in ids[max(min(place - _BEFORE, before), 0) :]:
        if id_ in known:
            continue
        if id_ > snapshot_id or load_manifest(layout, id_, may_be_copied=copied).observed_at >= began_at - CLOCK_SLACK:
            reader = SnapshotReader(layout, id_, may_be_copied=copied)
            if reader.manifest.kafka_cluster_id in (kafka_cluster_id, None):
                yield reader
        known.add(id_)
