"""The signs of life in all snapshots of a cluster, whichever connection took them, folded into one table.

``<storage>/_journal/<Kafka's cluster id>/signs.parquet`` has a row for each group and folder, and says up to which
entry of the cluster's log it is. It is made again where it is damaged or missing: then snapshots that were removed are
in doubt, for it alone knew what they showed. A snapshot may be found after a later one; each is folded as if it were
the newest, and what that leaves in doubt is a sign of life.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import BytesIO
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.staleness.lives import Ints, valid_of
from airflow_kafka_groups.judge.staleness.observations import reduced
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.ledger.life.signs import Sign, SignOfLife, keep_latest
from airflow_kafka_groups.ledger.records import Records
from airflow_kafka_groups.ledger.run_records import NOT_SENT, PROOF_OF_LIFE
from airflow_kafka_groups.ledger.settled_runs import GROUPS, RUNS, SettledRuns
from airflow_kafka_groups.ledger.verdicts import judged_with_log, load_verdicts, newest_judged
from airflow_kafka_groups.observe.cluster_log import KINDS, ClusterLog, TakenSnapshot
from airflow_kafka_groups.observe.history.snapshot_rows import stored_rows
from airflow_kafka_groups.observe.snapshot.cluster_folders import folders_with_snapshots
from airflow_kafka_groups.observe.snapshot.reader import (
    SnapshotReader,
    is_partial,
    load_manifest,
    looked_for,
    snapshot_ids,
)
from airflow_kafka_groups.storage.access import unless_warned
from airflow_kafka_groups.storage.arrow_values import column, fill_nulls, in_one_piece, literal, of_numpy, to_numpy
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import plain, read_model
from airflow_kafka_groups.storage.layout import Layout, utc_now
from airflow_kafka_groups.storage.paths import parse_time, time_of
from airflow_kafka_groups.storage.schemas import utc_times

log = logging.getLogger(__name__)

_FILE = "signs.parquet"
_NEVER = int(np.iinfo(np.int64).min)
_SIGNS = tuple(Sign)
_DIGEST = ("partitions", "digest_xor", "digest_sum")
_COLUMNS = {
    **dict.fromkeys((*_DIGEST, "has_digest"), 0),
    "kind": -1,
    **dict.fromkeys(("since", "seen_at", "absent_at", "used_at", "appeared_at"), _NEVER),
    **dict.fromkeys(("used_sign", "used_by", "appeared_sign", "appeared_by"), 0),
}
"""The columns of the table, all of them numbers, and the value of a group of which nothing is known.

The digest is that of the last readable observation, first seen at ``since``. ``absent_at`` is when a complete snapshot
lacked the group. A group was *used* where it was in use or moved, and *appeared* where it was absent before.
"""
_VERSION = {
    "signs": [sign.name for sign in _SIGNS],
    "kinds": [*map(str, KINDS)],
    "columns": ["group_id", *_COLUMNS, *GROUPS.names[1:], *RUNS.names],
    "proof_of_life": sorted(PROOF_OF_LIFE),
    "not_sent": sorted(NOT_SENT),
}
"""What a table says by numbers and by order: another version's may say something else."""
_GIVEN_UP = timedelta(days=1)
"""For so long, a snapshot that is in the log and has no manifest may be about to be finished."""
_REMOVED = "it is not there any more, and the table is lost that knew what it showed"


@dataclass(slots=True)
class _Folder:
    """What the snapshots in one folder show.

    :param folded: the ids of those that were read.
    :param full_at: when the newest complete snapshot of all groups was taken, in microseconds.
    :param identity: as whom its connection was logged in for the newest one; ``None`` if that is not known.
    """

    ids: Any = field(default_factory=lambda: pa.nulls(0, pa.string()))
    numbers: dict[str, Ints] = field(default_factory=lambda: {name: np.empty(0, np.int64) for name in _COLUMNS})
    folded: set[str] = field(default_factory=set)
    full_at: int = _NEVER
    newest: str = ""
    identity: str | None = None

    def places_of(self, group_ids: Any) -> tuple[Ints, Ints]:
        """Return the places of groups, and those of new ones, which get a row each."""
        group_ids = in_one_piece(group_ids)
        places = pc.index_in(group_ids, self.ids)
        new = group_ids.filter(places.is_null())
        size, more = len(self.ids), len(new)
        if more:
            self.ids = pa.concat_arrays([self.ids, new])
            for name, null in _COLUMNS.items():
                self.numbers[name] = np.append(self.numbers[name], np.full(more, null, np.int64))
            places = pc.index_in(group_ids, self.ids)
        return to_numpy(places.cast(pa.int64())), np.arange(size, size + more)

    def note(self, kind: str, rows: Ints, at: Ints | int, sign: Sign, by: int) -> None:
        """Note a sign of groups where it is the latest. ``kind`` is ``used`` or ``appeared``."""
        times = np.broadcast_to(at, rows.shape)
        later = times > self.numbers[f"{kind}_at"][rows]
        rows = rows[later]
        self.numbers[f"{kind}_at"][rows] = times[later]
        self.numbers[f"{kind}_sign"][rows] = _SIGNS.index(sign)
        self.numbers[f"{kind}_by"][rows] = by


@dataclass(slots=True)
class _State:
    """The folded snapshots, up to an entry of the log.

    :param names: the ids of snapshots, by number.
    :param kinds: the types and protocol types of groups, by number.
    :param unread: the snapshots that are to be read still, with the reason; ``""`` where there is no manifest yet.
    :param since: when the oldest of them was taken.
    :param is_new: whether no earlier table was read: what was removed since then was in that one.
    """

    is_new: bool = False
    entries: int = 0
    head: str | None = None
    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    unread: dict[tuple[str, str], tuple[TakenSnapshot, str]] = field(default_factory=dict)
    since: datetime | None = None
    folders: dict[str, _Folder] = field(default_factory=dict)
    records: Records = field(default_factory=Records)

    def fold(self, taken: TakenSnapshot, reader: SnapshotReader) -> None:
        """Add a snapshot. Raises ``SnapshotError`` for one that is damaged, and ``StorageError``."""
        manifest = reader.manifest
        rows = _reduced(reader)
        folder = self.folders.setdefault(taken.folder, _Folder())
        by = len(self.names)
        self.names.append(taken.snapshot_id)
        if taken.snapshot_id > folder.newest:
            folder.newest, folder.identity = taken.snapshot_id, taken.identity
        self.since = manifest.started_at if self.since is None else min(self.since, manifest.started_at)
        taken_at = _micros(manifest.observed_at)
        known = len(folder.ids)
        where, new = folder.places_of(rows["group_id"])
        of = folder.numbers
        at = to_numpy(rows["observed_at"].cast(pa.int64()))
        readable = ~valid_of(rows["error"])
        # In use:
        has_members = to_numpy(fill_nulls(pc.not_equal(rows["members"], literal(0)), False))
        folder.note("used", where[has_members], at[has_members], Sign.MEMBER, by)
        in_use = _is_not_idle(rows)
        folder.note("used", where[in_use], at[in_use], Sign.STATE, by)
        # Moved, or of another kind. What is found after a newer one differs from what followed, or lies in between:
        digest = np.stack([to_numpy(rows[name].cast(pa.int64())) for name in _DIGEST])
        kind = self._kinds_of(rows)
        before, since = of["seen_at"][where], of["since"][where]
        is_newer, when = at > before, np.maximum(at, before)
        compared = readable & (of["has_digest"][where] == 1)
        moved = compared & (np.stack([of[name][where] for name in _DIGEST]) != digest).any(axis=0)
        other = compared & (kind >= 0) & (of["kind"][where] >= 0) & (of["kind"][where] != kind)
        folder.note("used", where[other], when[other], Sign.KIND, by)
        folder.note("used", where[moved], np.where(at < since, since, when)[moved], Sign.MOVED, by)
        # There again, or for the first time:
        back = (of["absent_at"][where] != _NEVER) & (of["absent_at"][where] < at)
        folder.note("appeared", where[back], at[back], Sign.CAME_BACK, by)
        of["absent_at"][where[back]] = _NEVER
        if len(new) and folder.full_at != _NEVER:
            is_new = where >= known
            first = is_new & (at > folder.full_at)
            folder.note("appeared", where[first], at[first], Sign.FIRST_SEEN, by)
            of["absent_at"][where[is_new & ~first]] = folder.full_at
        # What is known from now on:
        starts = readable & ((is_newer & moved) | (of["has_digest"][where] == 0))
        of["since"][where[starts]] = at[starts]
        latest = readable & (is_newer | (of["has_digest"][where] == 0))
        for name, values in zip(_DIGEST, digest, strict=True):
            of[name][where[latest]] = values[latest]
        of["has_digest"][where[latest]] = 1
        kinds = latest & (kind >= 0)
        of["kind"][where[kinds]] = kind[kinds]
        of["seen_at"][where] = when
        if manifest.complete:
            self._lack(folder, where, manifest, taken_at, by)
            if not is_partial(manifest):
                folder.full_at = max(folder.full_at, taken_at)
        folder.folded.add(taken.snapshot_id)

    @staticmethod
    def _lack(folder: _Folder, where: Ints, manifest: Any, taken_at: int, by: int) -> None:
        """Note which groups a complete snapshot lacked that it had looked for."""
        absent = np.ones(len(folder.ids), np.bool_)
        absent[where] = False
        rows = np.flatnonzero(absent)
        if is_partial(manifest):
            ids = folder.ids.take(of_numpy(rows)).to_pylist()
            wanted = looked_for(manifest, ids)
            rows = rows[[group_id in wanted for group_id in ids]]
        seen_at = folder.numbers["seen_at"][rows]
        later = seen_at > taken_at
        folder.note("appeared", rows[later], seen_at[later], Sign.CAME_BACK, by)
        gone = rows[~later]
        folder.numbers["absent_at"][gone] = np.maximum(folder.numbers["absent_at"][gone], taken_at)

    def _kinds_of(self, rows: Any) -> Ints:
        found = pc.binary_join_element_wise(rows["group_type"], rows["protocol_type"], literal("\t"))
        encoded = in_one_piece(found).dictionary_encode()
        numbers = []
        for name in encoded.dictionary.to_pylist():
            if name.startswith(f"{GroupType.UNKNOWN.value}\t"):
                numbers.append(-1)
                continue
            if name not in self.kinds:
                self.kinds.append(name)
            numbers.append(self.kinds.index(name))
        kinds: Ints = np.array(numbers, np.int64)[to_numpy(encoded.indices)] if numbers else np.empty(0, np.int64)
        return kinds


def _is_not_idle(rows: Any) -> Any:
    idle = column([GroupState.EMPTY.value, GroupState.UNKNOWN.value], pa.string())
    return ~to_numpy(pc.is_in(rows["state"].cast(pa.string()), value_set=idle))


def _reduced(reader: SnapshotReader) -> Any:
    """Return a row for each group of a snapshot. Raises ``SnapshotError`` and ``StorageError``."""
    snapshot_id = reader.manifest.snapshot_id
    folder = reader.layout.snapshot_data(snapshot_id)
    parts = (stored_rows(FILES, snapshot_id, file, folder / file.name) for file in reader.manifest.files)
    return reduced(chain.from_iterable(parts), snapshot_id)


def _micros(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


def _time(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


class SnapshotSigns:
    """The signs of life in the snapshots of one cluster.

    :param layout: the folder of the asking connection.
    :param kafka_cluster_id: the id that the brokers report.

    Raises ``JournalError`` when the cluster reports no usable id.
    """

    def __init__(self, layout: Layout, kafka_cluster_id: str | None) -> None:
        self._layout = layout
        self._kafka_cluster_id = kafka_cluster_id
        self.log = ClusterLog(layout.base, kafka_cluster_id)
        """The log, up to the last entry that was read."""
        self._place = self.log.folder.parent
        self._state = _State()
        self._damaged: list[str] = []

    def update(self, *, durable: bool = False) -> None:
        """Fold what was logged and taken since, and write the table if anything was.

        :param durable: raise where the table cannot be written. Default false: the next one folds it again.

        Raises ``JournalError`` for a log that is damaged or was changed, and ``StorageError``.
        """
        new, found = self._read_log()
        state = self._state
        logged = {(each.folder, each.snapshot_id) for each in found}
        found += self._not_logged(logged)
        again = [taken for taken, _ in state.unread.values()]
        changed = bool(new or found)
        for taken in sorted([*found, *again], key=lambda each: each.snapshot_id):
            changed = self._take(taken) or changed
        here = set[str]().union(*(folder.folded for folder in state.folders.values()))
        for key in [key for key, (_, why) in state.unread.items() if why == _REMOVED and key[1] in here]:
            del state.unread[key]  # somebody renamed its folder
        if changed:
            with unless_warned("" if durable else "The folded signs of life could not be written: %s"):
                FILES.replace(self._place / _FILE, _content(self._state))

    def read_records(self) -> Records:
        """Return what the log says besides snapshots, by the table and the log alone: no snapshot is read.

        Raises as ``update``.
        """
        self._read_log()
        return self._state.records

    def _read_log(self) -> tuple[int, list[TakenSnapshot]]:
        """Read the table, then the entries that it does not know; return how many, and the snapshots among them."""
        self._state = state = self._read()
        self.log = ClusterLog(self._layout.base, self._kafka_cluster_id, state.entries, state.head)
        self.log.require_known()
        taken = [found for entry in self.log.read() if (found := state.records.fold(entry)) is not None]
        new, state.entries, state.head = self.log.count - state.entries, self.log.count, self.log.head
        return new, taken

    @property
    def folders(self) -> set[str]:
        """The names of the folders that have, or had, snapshots of the cluster, or are about to get their first."""
        return {*self._state.folders, *(folder for folder, _ in self._state.unread)}

    @property
    def records(self) -> Records:
        """What the log says besides snapshots."""
        return self._state.records

    def _not_logged(self, logged: Collection[tuple[str, str]]) -> list[TakenSnapshot]:
        """Return the snapshots that nobody has folded, and that are not in the log.

        Their process died, the log could not be written, or the brokers did not know their cluster's id. They are
        looked for in the asking connection's folder, in those that have another one in the log, and in those whose
        newest one may be of this cluster.
        """
        state, found = self._state, list[TakenSnapshot]()
        listed = {other.cluster: ids for other, ids in folders_with_snapshots(self._layout, self._kafka_cluster_id)}
        for name in sorted({self._layout.cluster, *state.folders, *(folder for folder, _ in logged), *listed}):
            folded = state.folders[name].folded if name in state.folders else set()
            ids = listed[name] if name in listed else snapshot_ids(Layout(self._layout.base, name))
            folded.intersection_update(ids)  # the others were removed
            found += [
                TakenSnapshot(name, id_, time_of(id_))
                for id_ in ids
                if not (id_ in folded or (name, id_) in logged or (name, id_) in state.unread)
            ]
        return found

    def _take(self, taken: TakenSnapshot) -> bool:
        """Fold a snapshot, or note why it cannot be read; return whether the table changed."""
        state, key = self._state, (taken.folder, taken.snapshot_id)
        before = state.unread.pop(key, None)
        try:
            layout = Layout(self._layout.base, taken.folder)
            if not FILES.exists(layout.manifest(taken.snapshot_id)):
                is_young = utc_now() - taken.at < _GIVEN_UP and not (before and before[1])
                if is_young or state.is_new or (before and before[1] == _REMOVED):
                    # About to be finished, killed, or removed since.
                    state.unread[key] = taken, "" if is_young else _REMOVED
                return before != state.unread.get(key)
            reader = SnapshotReader(layout, taken.snapshot_id, may_be_copied=True)
            if reader.manifest.kafka_cluster_id not in (self._kafka_cluster_id, None):
                state.folders.setdefault(taken.folder, _Folder()).folded.add(taken.snapshot_id)
                return True
            state.fold(taken, reader)
        except SnapshotError as exc:
            state.unread[key] = taken, str(exc)
            return before != state.unread[key]
        return True

    def _read(self) -> _State:
        """Read the table; an empty one where it is missing or damaged, so that everything is folded again."""
        content = FILES.read(self._place / _FILE)
        if content is not None:
            try:
                return _parsed(content)
            except (pa.ArrowException, ValueError, KeyError, TypeError, OSError) as exc:
                log.warning("%s is damaged, and is made again: %s", self._place / _FILE, exc)
        return _State(is_new=True)

    def unread_in(self, folder: str) -> dict[str, str]:
        """Return the snapshots in a folder that could not be read, with the reason."""
        return {id_: why for (name, id_), (_, why) in self._state.unread.items() if why and name == folder}

    @property
    def since(self) -> datetime | None:
        """When the oldest snapshot was taken; ``None`` if there is none."""
        return self._state.since

    @property
    def until(self) -> datetime | None:
        """When the newest snapshot was taken; ``None`` if there is none."""
        newest = (folder.newest for folder in self._state.folders.values() if folder.newest)
        return max(map(time_of, newest), default=None)

    def unread(self, since: datetime | None = None) -> list[str]:
        """Return why snapshots could not be read, of those that were taken since a time. Default: of all.

        Why ``signs`` could not read a judgement comes first: it may know of later commits than its snapshot shows.
        """
        return self._damaged + [
            f"snapshot {taken.snapshot_id} in the folder {taken.folder!r}: {why}"
            for taken, why in self._state.unread.values()
            if why and (since is None or taken.at >= since)
        ]

    def signs(self, since: datetime | None = None, group_ids: Iterable[str] | None = None) -> dict[str, SignOfLife]:
        """Return the last sign of each group that has one since a time. Default: ever, and of all groups.

        What another user's snapshot lacked may have been there: that a group appeared counts for the same user only.
        """
        found: dict[str, SignOfLife] = {}
        self._damaged = []
        own = self._state.folders.get(self._layout.cluster, _Folder()).identity
        wanted = None if group_ids is None else column(sorted(set(group_ids)), pa.string())
        least = _NEVER + 1 if since is None else _micros(since)
        for name, folder in self._state.folders.items():
            is_own = name == self._layout.cluster
            where = "" if is_own else f" in the folder {name!r}"
            is_same = is_own or own is None or folder.identity is None or own == folder.identity
            for kind in ("used", "appeared") if is_same else ("used",):
                times = folder.numbers[f"{kind}_at"]
                asked = times >= least
                if wanted is not None:
                    asked &= to_numpy(pc.is_in(folder.ids, value_set=wanted))
                rows = np.flatnonzero(asked)
                ids = folder.ids.take(of_numpy(rows)).to_pylist()
                signs, by = folder.numbers[f"{kind}_sign"][rows], folder.numbers[f"{kind}_by"][rows]
                names = [f"snapshot {self._state.names[number]}{where}" for number in by]
                kinds, at = [_SIGNS[sign] for sign in signs], map(_time, times[rows].tolist())
                keep_latest(found, zip(ids, map(SignOfLife, kinds, at, names), strict=True))
            by_judgement = f"a judgement{where}"
            try:
                judged = self._judged(Layout(self._layout.base, name), wanted, least)
                keep_latest(found, ((group_id, SignOfLife(Sign.COMMIT, at, by_judgement)) for group_id, at in judged))
            except SnapshotError as exc:
                self._damaged.append(f"{by_judgement}: {exc}")
        return found

    def _judged(self, folder: Layout, wanted: Any, least: int) -> Iterator[tuple[str, datetime]]:
        """Yield the groups with the time of the last movement, commit or membership that a judgement knows.

        Those are the newest one, and those that read the log of commits, back to one that read it from long enough ago:
        a judgement without the log knows nothing of what it showed. While a job writes a judgement, or where a job was
        killed, there is no summary: snapshots have what it was made of.
        Raises ``SnapshotError`` for one that has a summary and cannot be read.
        """
        judged = list(judged_with_log(folder, None if least <= _NEVER + 1 else _time(least)))
        with suppress(SnapshotError):
            judged = [*filter(None, [newest_judged(folder)]), *judged]
        for snapshot_id in dict.fromkeys(judged):
            if load_manifest(folder, snapshot_id, may_be_copied=True).kafka_cluster_id != self._kafka_cluster_id:
                continue
            table = load_verdicts(folder, snapshot_id).table
            kind = table.schema.field("last_moved_at").type
            times = pc.max_element_wise(*(table[name].cast(pa.int64()) for name in ("last_moved_at", "last_record_at")))
            asked = pc.greater_equal(times, literal(least))
            if wanted is not None:
                asked = pc.and_(asked, pc.is_in(table["group_id"], value_set=wanted))
            yield from zip(
                table["group_id"].filter(asked).to_pylist(), utc_times(times.filter(asked).cast(kind)), strict=True
            )


def _content(state: _State) -> bytes:
    """Return the table as Parquet, with the rest of the state in its metadata."""
    settled = state.records.deletions.settle()
    meta = {
        "version": _VERSION,
        "entries": state.entries,
        "head": state.head,
        "names": state.names,
        "kinds": state.kinds,
        "since": None if state.since is None else state.since.isoformat(),
        "records": state.records.to_json(),
        "unread": [[plain(taken), why] for taken, why in state.unread.values()],
        "settled": [len(settled.groups), len(settled.runs)],
        "folders": {
            name: {
                "rows": len(each.ids),
                "folded": sorted(each.folded),
                "full_at": each.full_at,
                "newest": each.newest,
                "identity": each.identity,
            }
            for name, each in state.folders.items()
        },
    }
    folders = list(state.folders.values())
    columns = {"group_id": pa.concat_arrays([pa.nulls(0, pa.string()), *(each.ids for each in folders)])}
    for name in _COLUMNS:
        columns[name] = of_numpy(np.concatenate([np.empty(0, np.int64), *(each.numbers[name] for each in folders)]))
    signs = pa.Table.from_arrays(list(columns.values()), names=list(columns))
    table = pa.concat_tables([signs, settled.groups, settled.runs], promote_options="default")
    table = table.replace_schema_metadata(sealed_meta(meta))
    with BytesIO() as stream:
        pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
        return stream.getvalue()


def sealed_meta(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata of a table with its SHA-256: checksums of pages do not cover the end of a Parquet file."""
    text = json.dumps(meta)
    return {"ledger": text, "sha256": sha256(text.encode()).hexdigest()}


def _parsed(content: bytes) -> _State:
    most = (1 << 31) - 1  # Parquet's own limit would end with a million groups that somebody ever wanted
    how = {"page_checksum_verification": True, "thrift_string_size_limit": most}
    with pq.ParquetFile(pa.BufferReader(content), **how) as file:
        table = file.read(use_threads=False)
    text = table.schema.metadata[b"ledger"]
    if sha256(text).hexdigest().encode() != table.schema.metadata[b"sha256"]:
        raise ValueError("its metadata are not those that were written")
    meta = json.loads(text)
    if meta["version"] != _VERSION or table.column_names != _VERSION["columns"]:
        raise ValueError("another version wrote it")  # made again, it stops at an entry that is not known here
    state = _State(
        entries=int(meta["entries"]),
        head=meta["head"],
        names=list(meta["names"]),
        kinds=list(meta["kinds"]),
        since=None if meta["since"] is None else parse_time(meta["since"]),
        records=Records.from_json(meta["records"], _settled(table, *meta["settled"])),
    )
    for each, why in meta["unread"]:
        taken = read_model(TakenSnapshot, each)
        state.unread[taken.folder, taken.snapshot_id] = taken, why
    start = 0
    for name, each in meta["folders"].items():
        some = table.slice(start, each["rows"])
        start += each["rows"]
        state.folders[name] = _Folder(
            ids=in_one_piece(some["group_id"]),
            numbers={name: to_numpy(some[name]).copy() for name in _COLUMNS},
            folded=set(each["folded"]),
            full_at=int(each["full_at"]),
            newest=each["newest"],
            identity=each["identity"],
        )
    if start + sum(meta["settled"]) != table.num_rows:
        raise ValueError("it has other rows than it says")
    return state


def _settled(table: Any, groups: int, runs: int) -> SettledRuns:
    """Return the runs that ended, which are behind the rows of the folders: first their groups, then themselves."""
    parts = table.slice(table.num_rows - runs - groups, groups), table.slice(table.num_rows - runs)
    return SettledRuns(*(part.select(of.names).cast(of) for part, of in zip(parts, (GROUPS, RUNS), strict=True)))
