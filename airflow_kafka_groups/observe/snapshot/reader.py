"""Reading snapshots as blocks of complete groups: missing, incomplete, damaged or misplaced ones are refused.

A file can have very many rows, and a group's rows can lie in two batches of it. Readers decide about whole groups, so
the rows of a batch's last group wait for the next batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Any, NamedTuple

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.observe.cluster_view import ClusterView, recorded_view
from airflow_kafka_groups.observe.fingerprint import OFFSET_COLUMNS, fingerprints
from airflow_kafka_groups.observe.history.snapshot_rows import stored_rows
from airflow_kafka_groups.observe.history.snapshots import parse_manifest
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.storage.arrow_values import column, repeat
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest, has_patterns
from airflow_kafka_groups.storage.paths import time_of
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS, utc_times

BATCH_ROWS = 32_768
"""The number of rows to read or write at once: more are no faster, and take more memory."""


class GroupBlock:
    """The rows of some groups, each of them whole.

    :param rows: a ``pyarrow.RecordBatch``; the rows of a group are together.

    Raises ``ValueError`` for a row without a group id.
    """

    def __init__(self, rows: Any) -> None:
        import pyarrow.compute as pc

        if rows["group_id"].null_count:
            raise ValueError("a row lacks its group id")
        self.rows = rows
        runs = pc.run_end_encode(rows["group_id"])
        self.group_ids: list[str] = runs.values.to_pylist()
        self.ends: list[int] = runs.run_ends.to_pylist()

    def __len__(self) -> int:
        return len(self.group_ids)

    def first(self, name: str) -> Any:
        """Return a column with the value in the first row of each group."""
        import pyarrow as pa

        return self.rows[name].take(column([0, *self.ends[:-1]] if self.ends else [], pa.int64()))

    def errors(self) -> list[str | None]:
        """Return each group's first error; ``None`` where no row has one."""
        if self.rows["error"].null_count == len(self.rows):
            return [None] * len(self)
        values = self.rows["error"].to_pylist()
        return [
            next((value for value in values[start:end] if value is not None), None)
            for start, end in pairwise([0, *self.ends])
        ]

    def fingerprints(self) -> tuple[list[str], list[int]]:
        """Return the fingerprint and the number of committed partitions of each group; see ``fingerprints``."""
        return fingerprints(self.rows, self.ends)

    def repeated(self, values: list[str]) -> Any:
        """Return a column with a value for each group in all of its rows."""
        import pyarrow as pa

        numbers = column(range(len(self.ends)), pa.int32())
        return column(values, pa.string()).take(repeat(numbers, column(self.ends, pa.int32())))


def whole_groups(batches: Iterable[Any]) -> Iterator[GroupBlock]:
    """Cut record batches into blocks of whole groups. Nothing is sorted: a group is what is adjacent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    waiting: list[Any] = []
    for batch in batches:
        if not len(batch):
            continue
        last = batch["group_id"][-1]
        ends = pc.run_end_encode(batch["group_id"]).run_ends
        start = ends[-2].as_py() if len(ends) > 1 else 0  # where the rows of the last group begin
        if start == 0 and (not waiting or waiting[0]["group_id"][-1] == last):
            waiting.append(batch)  # one group, which may go on
            continue
        yield GroupBlock(_joined(pa, [*waiting, batch.slice(0, start)]))
        waiting = [batch.slice(start)]
    if waiting:
        yield GroupBlock(_joined(pa, waiting))


def _joined(pa: Any, batches: list[Any]) -> Any:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]


_FACTS = ("group_type", "protocol_type", "state", "members", "group_epoch")
MOST_PASSED = 1_000
"""The most manifests that are read to find one: some take named groups each ten minutes, which is one week's."""


class GroupSummary(NamedTuple):
    """A group in a snapshot without its offsets.

    :param error: the first reason why it could not be read completely; ``None`` if it could.
    :param partitions: the number of committed partitions.
    :param fingerprint: of these, see ``fingerprint``.
    """

    group_id: str
    group_type: str
    protocol_type: str
    state: str
    members: int | None
    group_epoch: int | None
    observed_at: datetime | None
    error: str | None
    partitions: int
    fingerprint: str


def load_manifest(layout: Layout, snapshot_id: str, *, may_be_copied: bool = False) -> SnapshotManifest:
    """Read a snapshot's manifest.

    :param may_be_copied: as of ``parse_manifest``.

    Raises ``SnapshotError`` if it is missing, damaged or of another cluster, and ``StorageError``.
    """
    if (content := FILES.read(path := layout.manifest(snapshot_id))) is not None:
        return parse_manifest(content, snapshot_id=snapshot_id, cluster=layout.cluster, may_be_copied=may_be_copied)
    if FILES.exists(layout.snapshot_data(snapshot_id)):
        raise SnapshotError(f"snapshot {snapshot_id} is incomplete (it has rows but no manifest): take a new one")
    raise SnapshotError(f"the snapshot's manifest is missing: there is no {path}")


def snapshot_ids(layout: Layout) -> list[str]:
    """Return the ids of all snapshots with a manifest, oldest first. Raises ``StorageError``.

    A file with another name, such as the copy that somebody made of a manifest, is no snapshot.
    """
    return FILES.ids(layout.manifests)


def is_partial(manifest: SnapshotManifest) -> bool:
    """Return whether a snapshot did not look for all groups, so that a group's absence means nothing."""
    return manifest.of_named_groups or has_patterns(manifest.scope)


def looked_for(manifest: SnapshotManifest, group_ids: Collection[str]) -> set[str]:
    """Return those of some groups that a snapshot looked for: if a complete one lacks them, they were gone."""
    scope = manifest.scope
    if not is_partial(manifest):
        return set(group_ids)
    if manifest.of_named_groups:  # whatever the patterns
        return set(group_ids).intersection(scope["group_ids"])
    patterns = GroupFilter(tuple(scope.get("include", ())), tuple(scope.get("exclude", ())))
    return set(filter(patterns.selects, group_ids))


def newest_manifest(layout: Layout) -> SnapshotManifest | None:
    """Return the newest snapshot, complete or not. Raises ``SnapshotError`` for a manifest that is damaged."""
    return next(_newest_first(layout), None)


def _newest_first(layout: Layout, until: datetime | None = None) -> Iterator[SnapshotManifest]:
    """Read manifests, each with a request; not those of a whole history."""
    ids = (id_ for id_ in reversed(snapshot_ids(layout)) if until is None or time_of(id_) <= until)
    return (load_manifest(layout, id_) for id_ in islice(ids, MOST_PASSED))


def latest_manifest(layout: Layout, *, to_judge: bool = False) -> SnapshotManifest:
    """Return the newest complete snapshot of the newest 1,000. Raises ``SnapshotError`` if there is none.

    A damaged manifest stops the search: using an older snapshot would hide the problem.

    :param to_judge: pass over snapshots of named groups, where there is another one: they show nothing of all others.
    """
    named, count = None, 0
    for manifest in _newest_first(layout):
        count += 1
        if manifest.complete and not (to_judge and manifest.of_named_groups):
            return manifest
        named = named or (manifest if manifest.complete else None)
    if named is not None:
        return named
    if not count:
        raise SnapshotError(f"there is no snapshot in {layout.manifests}: run the snapshot first")
    where = f"the newest {count} snapshots in {layout.manifests}"
    raise SnapshotError(f"none of {where} is complete: take one while all brokers answer")


def seen_before(layout: Layout, manifest: SnapshotManifest, ago: timedelta) -> datetime | None:
    """Return when the newest complete snapshot of the same groups was taken that is so much older than another one.

    :param manifest: the other one's.
    :param ago: how much older.

    ``None`` if there is none among the newest of that age, or if one that may be it cannot be read. Raises
    ``StorageError``.
    """
    latest, asked = manifest.observed_at - ago, (manifest.kafka_cluster_id, manifest.scope)
    with suppress(SnapshotError):
        for found in _newest_first(layout, latest):
            if found.complete and found.observed_at <= latest and (found.kafka_cluster_id, found.scope) == asked:
                return found.observed_at
    return None


class SnapshotReader:
    """A reader of one snapshot. Reading raises ``SnapshotError`` for files that contradict its manifest."""

    def __init__(self, layout: Layout, snapshot_id: str, *, may_be_copied: bool = False) -> None:
        self.layout = layout
        self.manifest = load_manifest(layout, snapshot_id, may_be_copied=may_be_copied)

    def summaries(self) -> Iterator[GroupSummary]:
        """Yield each group once, sorted by id, decoded a column at a time."""
        for block in whole_groups(self._batches(None, [*_FACTS, "observed_at", "error", *OFFSET_COLUMNS])):
            digests, partitions = block.fingerprints()
            times = utc_times(block.first("observed_at"))
            facts = [block.first(fact).to_pylist() for fact in _FACTS]
            rows = zip(block.group_ids, *facts, times, block.errors(), partitions, digests, strict=True)
            yield from map(tuple.__new__, itertools.repeat(GroupSummary), rows)  # sooner than the constructor

    def blocks(self, group_ids: Collection[str], columns: Collection[str]) -> Iterator[GroupBlock]:
        """Return the rows of the given groups, sorted by id.

        :param columns: the columns to read beside the group's id.
        """
        return whole_groups(self._batches(group_ids, columns))

    def topics(self) -> dict[str, frozenset[str]]:
        """Return the topics with committed offsets of each group that has any."""
        import pyarrow.compute as pc

        found: dict[str, set[str]] = {}
        for batch in self._batches(None, ["topic", "committed_offset"]):
            rows = batch.filter(pc.is_valid(batch["committed_offset"]))
            for group_id, topic in {*zip(rows["group_id"].to_pylist(), rows["topic"].to_pylist(), strict=True)}:
                found.setdefault(group_id, set()).add(topic)
        return {group_id: frozenset(topics) for group_id, topics in found.items()}

    def topics_of(self, group_ids: Collection[str]) -> set[str]:
        """Return all topics that the given groups have rows of."""
        import pyarrow.compute as pc

        batches = self._batches(group_ids, ["topic"])
        return {topic for batch in batches for topic in pc.unique(batch["topic"]).drop_null().to_pylist()}

    def _batches(self, group_ids: Collection[str] | None, columns: Collection[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        keep = None if group_ids is None else column(sorted(group_ids), pa.string())
        asked = tuple(each for each in SNAPSHOT_COLUMNS if each.name == "group_id" or each.name in columns)
        name = self.manifest.snapshot_id
        for file in self.manifest.files:
            path = self.layout.snapshot_data(name) / file.name
            for rows in stored_rows(FILES, name, file, path, asked, BATCH_ROWS):
                yield rows if keep is None else rows.filter(pc.is_in(rows["group_id"], value_set=keep))


SLOWEST = timedelta(hours=6)
"""A snapshot may take so long: those that began in this time before another one may have ended after it."""


def is_news(manifest: SnapshotManifest, snapshot_id: str, idle_since: datetime | None) -> bool:
    """Return whether the judgement by another snapshot may not know what a later one shows of a group.

    :param snapshot_id: the other one.
    :param idle_since: since when the group is idle by the plan: by that judgement, or from a restore, of which the
        judgement knows as little; ``None`` if it is not known.
    """
    return manifest.observed_at >= time_of(snapshot_id) or idle_since is None or idle_since < manifest.observed_at


def may_see_less(reader: SnapshotReader, layout: Layout, view: ClusterView | None) -> bool:
    """Return whether a snapshot in another folder is another user's: brokers hide from one what it may not describe.

    So what it lacks may be there: groups, and, where it does not see all topics, offsets.

    :param layout: the folder of the judged snapshot.
    :param view: what the judged snapshot's connection saw of the cluster; ``None`` if it is not known.

    Raises ``PlanError`` for a damaged view.
    """
    if reader.layout == layout or view is None:
        return False
    other = recorded_view(reader.manifest.view, f"snapshot {reader.manifest.snapshot_id}")
    return other is not None and other.connection.identity != view.connection.identity
