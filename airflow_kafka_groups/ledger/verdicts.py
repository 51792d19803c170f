"""The Spark job's verdicts on a snapshot. The job is a program of its own: its rows are checked, not trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, repeat
from typing import Any, NamedTuple, cast

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.evidence import NOT_REPORTED, Evidence
from airflow_kafka_groups.judge.policy.plan_policy import PLANNED_WITHIN
from airflow_kafka_groups.observe.snapshot.reader import MOST_PASSED, latest_manifest, load_manifest, snapshot_ids
from airflow_kafka_groups.storage.access import is_of_storage, storage_errors
from airflow_kafka_groups.storage.arrow_values import in_one_piece, literal, release_unused
from airflow_kafka_groups.storage.file_storage import FILES, read_few
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import TableName, is_data_file, summaries, time_of
from airflow_kafka_groups.storage.schemas import FORECAST_COLUMNS, VERDICT_COLUMNS, arrow_schema, read_known, utc_times

_COLUMNS = tuple(
    each._replace(nullable=True, added=True) if each in FORECAST_COLUMNS else each for each in VERDICT_COLUMNS
)
"""A job need not make forecasts."""
_TIMES = ("idle_since", "observed_at")
_AT_ONCE = 4_096


class Verdict(NamedTuple):
    """What decides of the job's verdict on one group, see docs/formats.md."""

    group_id: str
    group_type: str
    idle_since: datetime | None
    idle_seconds: float | None
    observations: int
    observed_at: datetime
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBy:
    """How the job judged, by its own summary.

    :param max_gap_seconds: the longest gap between snapshots that it bridged, 0 for no limit; ``None``: not known.
    :param evidence: whether it read the log of commits.
    """

    max_gap_seconds: float | None = None
    evidence: Evidence = Evidence(not_read=NOT_REPORTED)  # noqa: RUF009  # frozen

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any]) -> JudgedBy:
        """Read the job's summary: what it does not report is not known."""
        policy = summary.get("policy")
        gap = policy.get("max_gap_seconds") if isinstance(policy, Mapping) else None
        known = isinstance(gap, int | float) and not isinstance(gap, bool) and gap >= 0
        return cls(max_gap_seconds=gap if known else None, evidence=Evidence.from_json(summary.get("evidence")))


class Verdicts:
    """Verdicts as columns, sorted by group id; iterated over, they are objects.

    :param table: a ``pyarrow.Table`` with the columns of ``VERDICT_COLUMNS``.
    :param judged_by: how the job judged. Default: not known.
    """

    def __init__(self, table: Any, judged_by: JudgedBy | None = None) -> None:
        import pyarrow.compute as pc

        ids = in_one_piece(table["group_id"])
        is_sorted = pc.all(pc.less_equal(ids[:-1], ids[1:]), min_count=0).as_py()  # as the job writes a file
        self.table = table if is_sorted else table.sort_by("group_id")
        self.judged_by = judged_by or JudgedBy()

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Verdict]:
        for start in range(0, len(self), _AT_ONCE):
            rows = self.table.slice(start, _AT_ONCE)
            columns = (utc_times(rows[name]) if name in _TIMES else rows[name].to_pylist() for name in Verdict._fields)
            yield from map(tuple.__new__, repeat(Verdict), zip(*columns, strict=True))  # sooner than the constructor

    @property
    def group_ids(self) -> list[str]:
        """The ids of the judged groups."""
        return cast("list[str]", self.table["group_id"].to_pylist())

    def counts(self) -> dict[str, int]:
        """Count the groups by verdict."""
        import pyarrow.compute as pc

        return {each["values"]: each["counts"] for each in pc.value_counts(self.table["verdict"]).to_pylist()}

    def twice(self) -> str | None:
        """Return a group that is judged twice."""
        import pyarrow.compute as pc

        ids = in_one_piece(self.table["group_id"])
        again = pc.index(pc.equal(ids[1:], ids[:-1]), literal(True)).as_py()  # the value, not a switch
        return None if again < 0 else str(ids[again])


def is_judged(layout: Layout, snapshot_id: str) -> bool:
    """Return whether there are verdicts on a snapshot. Raises ``StorageError``."""
    return _summary_if_whole(layout.verdict_summary(snapshot_id)) is not None


def _summary_if_whole(path: StoragePath) -> Mapping[str, Any] | None:
    """Read the summary of a judgement.

    Return ``None`` for what a job has left that was killed: a part of a summary, or one without the number of groups.
    """
    try:
        summary = _summary(path)
    except SnapshotError:
        return None
    return None if summary.get("groups") is None else summary


def newest_judged(layout: Layout) -> str | None:
    """Return the newest complete snapshot if it is judged, otherwise the newest that is; ``None`` if none is.

    Between two clean-ups, other DAGs take snapshots that nobody judges. One of named groups counts if no other one is
    judged.

    Raises ``SnapshotError`` without a snapshot, and for a judged one that is damaged, and ``StorageError``.
    """
    newest, named = latest_manifest(layout, to_judge=True).snapshot_id, None
    # Listed: most snapshots are not judged, and each question about one is a request or two.
    judged = set(FILES.ids(layout.root / summaries(TableName.VERDICTS)))
    older = filter(judged.__contains__, reversed(snapshot_ids(layout)))
    for snapshot_id in (newest, *islice(older, MOST_PASSED)):
        if is_judged(layout, snapshot_id):
            if not load_manifest(layout, snapshot_id).of_named_groups:
                return snapshot_id
            named = named or snapshot_id
    return named


def judged_with_log(layout: Layout, since: datetime | None) -> Iterator[str]:
    """Yield the snapshots whose judgements read the log of commits, newest first, until one read it from a time on.

    :param since: that time: judgements of snapshots from long before are not looked at. ``None``: from its beginning.

    Raises ``StorageError``.
    """
    judged = reversed(FILES.ids(layout.root / summaries(TableName.VERDICTS)))
    first = None if since is None else since - PLANNED_WITHIN
    wanted = [snapshot_id for snapshot_id in judged if first is None or time_of(snapshot_id) >= first]
    for snapshot_id, summary in zip(
        wanted, read_few(_summary_if_whole, list(map(layout.verdict_summary, wanted))), strict=True
    ):
        evidence = JudgedBy.from_summary(summary or {}).evidence
        if evidence.commits_until is None:
            continue
        yield snapshot_id
        if evidence.commits_since is None or (since is not None and evidence.commits_since <= since):
            return


def load_verdicts(layout: Layout, snapshot_id: str) -> Verdicts:
    """Read all verdicts about a snapshot.

    Raises ``SnapshotError`` if the job has not finished (no summary), or judges again meanwhile, its summary is about
    another snapshot, a file cannot be read, or a group is judged twice; and ``StorageError``.
    """
    import pyarrow as pa

    path, folder = layout.verdict_summary(snapshot_id), layout.verdicts(snapshot_id)
    if (summary := _summary_if_whole(path)) is None:
        raise SnapshotError(
            f"snapshot {snapshot_id} is not judged: no complete summary of it in {layout.root}; run the Spark job first"
        )
    for name, wanted in (("snapshot_id", snapshot_id), ("cluster", layout.cluster)):
        if summary.get(name, wanted) != wanted:
            raise SnapshotError(f"{path} does not belong to snapshot {snapshot_id} of cluster {layout.cluster!r}")
    with storage_errors("read", folder):
        files = [folder / name for name in FILES.names(folder) if is_data_file(name)]
        if not files:
            raise SnapshotError(f"{folder} is empty, or not there: run the Spark job again")
        # Of two jobs at once, one may have replaced the verdicts before the other wrote its summary.
        named = summary.get("files")
        if not isinstance(named, list) or sorted(map(str, named)) != [file.name for file in files]:
            raise SnapshotError(f"{path} does not name the files in {folder}: two jobs judged at once. Run one again")
        table = pa.concat_tables([_read(file) for file in files])
    # A job deletes it first and writes it last. Verdicts of another run may rest on less than this summary says.
    if _summary(path) != summary:
        raise SnapshotError(f"snapshot {snapshot_id} was judged again while its verdicts were read: plan again")
    verdicts = Verdicts(table, JudgedBy.from_summary(summary))
    del table
    release_unused()  # of the unsorted one
    if (group_id := verdicts.twice()) is not None:
        raise SnapshotError(f"group {group_id!r} is judged twice in {folder}")
    if len(verdicts) != summary.get("groups"):
        raise SnapshotError(
            f"{path} has {summary.get('groups')} groups, but there are verdicts of {len(verdicts)}: run the job again"
        )
    said = summary.get("verdicts")
    if isinstance(said, Mapping) and (counts := verdicts.counts()) != {name: n for name, n in said.items() if n}:
        raise SnapshotError(
            f"{path} counts {dict(said)}, but {folder} has {counts}: two jobs judged at once. Run one again"
        )
    return verdicts


def _summary(path: StoragePath) -> Mapping[str, Any]:
    return read_json(path, "the summary of the Spark job", SnapshotError, has_format=False)


def _read(path: StoragePath) -> Any:
    """Return a file's columns as the contract has them."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    schema = arrow_schema(VERDICT_COLUMNS)
    try:
        with path.open("rb") as file, pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            table = read_known(parquet, _COLUMNS, of_any_type=True)
        columns = {field.name: _cast(table[field.name], field.type) for field in schema}
    except (OSError, KeyError, ValueError, pa.ArrowException) as exc:
        if is_of_storage(exc):
            raise
        raise SnapshotError(f"{path} cannot be read: {exc}") from exc
    for column in _COLUMNS:
        if not column.nullable and (row := pc.index(pc.is_null(columns[column.name]), literal(True)).as_py()) >= 0:
            raise SnapshotError(f"{path}: group {columns['group_id'][row].as_py()!r} has no {column.name}")
    return pa.table(columns)


def _cast(column: Any, kind: Any) -> Any:
    """Return a column with the type of the contract."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.cast(kind, safe=not pa.types.is_timestamp(kind))
    if not pa.types.is_floating(kind):
        return column
    return pc.if_else(pc.is_finite(column), column, literal(None, kind))
