"""What the pages "Kafka groups" show. Everything is read from the site's storage: no broker is asked.

A name in a request is compared with those that the storage lists, and never becomes a part of a path before that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from markupsafe import Markup

from airflow_kafka_groups.exceptions import KafkaGroupsError, SnapshotError
from airflow_kafka_groups.hooks.floors import configured_floors, default_storage
from airflow_kafka_groups.hooks.storage import open_path
from airflow_kafka_groups.ledger.deletion_plan import find_in_plan, newest_plan, planned_columns
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.plan_rows import PlannedGroup
from airflow_kafka_groups.ledger.verdicts import load_verdicts, newest_judged
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, load_manifest, looked_for, snapshot_ids
from airflow_kafka_groups.report.charts import Series, columns, time_labels
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.arrow_values import in_one_piece, literal, release_unused
from airflow_kafka_groups.storage.file_storage import FILES, read_few
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import to_rows

PAGE = 100
"""The number of groups on a page."""
MOST_POINTS = 30
"""The number of snapshots in the charts of a group."""
_MOST_CHOICES = 200
_MOST_PLANS, _MOST_CHANGES, _MOST_RUNS = 10, 20, 20
_MOST_NAMELESS = 20
_LARGEST_RECORD = 5_000_000
FILTERS = ("verdict", "state", "type", "owner", "family", "rule")
SORTS = {"group": "group_id", "verdict": "verdict", "state": "state", "lag": "lag", "idle": "idle_seconds"}
SORTS |= {"owner": "owner", "family": "family"}
_JUDGED = ("group_id", "verdict", "state", "group_type", "lag", "idle_seconds", "reason")
_PLANNED = ("rule", "owner", "family")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """A cluster that the storage lists.

    :param newest: the manifest of its newest snapshot that can be read.
    :param dag_id: the DAG that took its newest snapshot, of those that a DAG took.
    :param counts: the number of groups by verdict, of the newest snapshot that is judged; empty if none is.
    """

    layout: Layout
    newest: SnapshotManifest
    dag_id: str | None
    counts: Mapping[str, int]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.layout.cluster


def site_storage() -> StoragePath | None:
    """Return the site's storage, ``None`` if Airflow's configuration names none.

    Raises ``ConfigurationError`` and ``StorageError``.
    """
    place = configured_floors().storage_path or default_storage()
    return None if place is None else open_path("storage_path", place)


def listed_clusters(base: StoragePath) -> list[SeenCluster]:
    """Return the clusters of a storage that have a snapshot, sorted by name. Raises ``StorageError``."""
    names = sorted(filter(paths.is_cluster_name, FILES.folders(base)))
    found = read_few(_cluster, [Layout(base, name) for name in names])
    return [cluster for cluster in found if cluster is not None]


def listed_cluster(base: StoragePath, name: str) -> SeenCluster | None:
    """Return a cluster, ``None`` unless the storage lists it. Raises ``StorageError``."""
    is_listed = paths.is_cluster_name(name) and name in set(FILES.folders(base))
    return _cluster(Layout(base, name)) if is_listed else None


def _cluster(layout: Layout) -> SeenCluster | None:
    manifests = _newest_manifests(layout)
    newest = next(manifests, None)
    if newest is None:
        return None
    dag_id = newest.airflow_dag or next((each.airflow_dag for each in manifests if each.airflow_dag), None)
    return SeenCluster(layout=layout, newest=newest, dag_id=dag_id, counts=_counts(layout))


def _newest_manifests(layout: Layout, most: int = _MOST_NAMELESS) -> Iterator[SnapshotManifest]:
    for snapshot_id in snapshot_ids(layout)[: -most - 1 : -1]:
        try:
            yield load_manifest(layout, snapshot_id)
        except SnapshotError:
            continue


def _counts(layout: Layout) -> Mapping[str, int]:
    try:
        judged = newest_judged(layout)
        found = None if judged is None else json.loads(FILES.read_text(layout.verdict_summary(judged)))["verdicts"]
    except (KafkaGroupsError, ValueError, KeyError, TypeError):
        return {}
    return {str(name): n for name, n in found.items() if type(n) is int and n} if isinstance(found, dict) else {}


class GroupsPage(NamedTuple):
    """A page of a cluster's groups.

    :param snapshot_id: the judged snapshot, and ``total`` the number of its groups.
    :param found: how many of them match, and ``pages`` how many pages these are.
    :param choices: the values of each filter, the most frequent ones.
    """

    snapshot_id: str
    total: int
    found: int
    pages: int
    page: int
    rows: list[dict[str, Any]]
    choices: Mapping[str, list[str]]


def groups_page(layout: Layout, asked: Mapping[str, str]) -> GroupsPage | None:
    """Return the groups that are asked for, ``None`` if no snapshot is judged.

    :param asked: ``search``, the ``FILTERS``, ``sort`` (a name of ``SORTS``, after ``-`` downwards) and ``page``.

    Raises ``SnapshotError``, ``PlanError`` and ``StorageError``.
    """
    import pyarrow.compute as pc

    if (snapshot_id := newest_judged(layout)) is None:
        return None
    table = every = _groups(layout, snapshot_id)
    choices = {name: _choices(table[name]) for name in FILTERS}
    for name in FILTERS:
        if value := asked.get(name):
            table = table.filter(pc.equal(table[name], literal(value)))
    if search := asked.get("search"):
        table = table.filter(pc.match_substring(table["group_id"], search, ignore_case=True))
    sort = asked.get("sort", "")
    order = "descending" if sort.startswith("-") else "ascending"
    if (column := SORTS.get(sort.removeprefix("-"))) is not None:
        keys = [(column, order), ("group_id", "ascending")][: 1 if column == "group_id" else 2]
        table = table.take(pc.sort_indices(table, sort_keys=keys))
    pages = max(1, -(-len(table) // PAGE))
    number = asked.get("page", "1")
    page = min(max(int(number) if number.isascii() and number.isdigit() and len(number) < 8 else 1, 1), pages)
    rows = to_rows(table.slice((page - 1) * PAGE, PAGE))
    found = GroupsPage(snapshot_id, len(every), len(table), pages, page, rows, choices)
    del table, every
    release_unused()
    return found


def _groups(layout: Layout, snapshot_id: str) -> Any:
    """Return the judged groups, with what the newest plan says of their rule, owner and family."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = load_verdicts(layout, snapshot_id).table.select(_JUDGED)
    plan_id = newest_plan(layout)
    if plan_id is None:
        columns = {name: pa.nulls(len(table), pa.string()) for name in _PLANNED}
    else:
        planned = planned_columns(layout, plan_id, ("group_id", *_PLANNED))
        places = pc.index_in(in_one_piece(table["group_id"]), in_one_piece(planned["group_id"]))
        columns = {name: planned[name].take(places) for name in _PLANNED}
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table.rename_columns(["type" if name == "group_type" else name for name in table.column_names])


def _choices(column: Any) -> list[str]:
    import pyarrow.compute as pc

    counts = [(each["counts"], each["values"]) for each in pc.value_counts(column).to_pylist()]
    most = sorted(((n, value) for n, value in counts if value), key=lambda each: (-each[0], each[1]))
    return sorted(value for _, value in most[:_MOST_CHOICES])


class Event(NamedTuple):
    """A plan, notice, deletion or change that named a group.

    :param dag_id: the DAG of the run, and ``run_id`` the run; empty where the record has none.
    """

    at: datetime
    what: str
    outcome: str
    dag_id: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecords:
    """What is on record of one group.

    :param group_id: the group.
    :param rows: what ``explain`` says of it without a broker.
    :param offsets: its rows of the newest snapshot that has it, and ``seen_at`` when that was taken.
    :param restorable: the newest plan whose backup has it; ``None`` if none is.
    """

    group_id: str
    rows: list[Any]
    charts: list[Markup]
    offsets: list[dict[str, Any]]
    seen_at: datetime | None
    events: list[Event]
    restorable: str | None

    def named(self, check: str) -> str | None:
        """Return the evidence of a check, ``None`` if there is none."""
        return next((row.evidence for row in self.rows if row.check == check), None)


def group_facts(cluster: SeenCluster, group_id: str) -> GroupRecords | None:
    """Return what is on record of a group; ``None`` for one that neither a snapshot nor the journal nor a plan names.

    Raises ``KafkaGroupsError`` for records that are damaged.
    """
    from airflow_kafka_groups.change.explain import rows_on_record

    layout, kafka_cluster_id = cluster.layout, cluster.newest.kafka_cluster_id
    points = [point for point in _points(layout, group_id) if point is not None]
    events = sorted(_events(layout, kafka_cluster_id, group_id), key=lambda event: event.at, reverse=True)
    shown = [point for point in points if point.rows]
    if not shown and not events:
        return None
    last = shown[-1] if shown else None
    return GroupRecords(
        group_id=group_id,
        rows=list(rows_on_record(layout, kafka_cluster_id, group_id)),
        charts=_charts(points),
        offsets=[] if last is None else [row for row in last.rows if row["topic"] is not None],
        seen_at=None if last is None else last.at,
        events=events,
        restorable=_restorable(layout, group_id),
    )


class _Point(NamedTuple):
    at: datetime
    rows: list[dict[str, Any]]


_OFFSETS = ("state", "members", "topic", "partition", "committed_offset", "log_start", "log_end", "error")


def _points(layout: Layout, group_id: str) -> Iterator[_Point | None]:
    """Yield the group's rows in the newest snapshots that looked for it, oldest first; ``None`` for a damaged one."""

    def read(manifest: SnapshotManifest) -> _Point | None:
        try:
            blocks = SnapshotReader(layout, manifest.snapshot_id).blocks([group_id], _OFFSETS)
            rows = [row for block in blocks for row in to_rows(block.rows)]
        except SnapshotError:
            return None
        return _Point(manifest.observed_at, rows)

    manifests = [each for each in _newest_manifests(layout, MOST_POINTS) if looked_for(each, [group_id])]
    return read_few(read, manifests[::-1])


_STATE_KINDS = {"Stable": "c-live", "Empty": "c-settling", "Dead": "c-bad"}


def _charts(points: list[_Point]) -> list[Markup]:
    if len(points) < 2:
        return []
    labels = time_labels([point.at for point in points])
    states = [point.rows[0]["state"] if point.rows else "not there" for point in points]
    of_states = [
        Series(state, _STATE_KINDS.get(state, "c-other"), [float(each == state) for each in states])
        for state in sorted({*states})
    ]
    members = [float(point.rows[0]["members"] or 0) if point.rows else 0.0 for point in points]
    lags = [_lag(point.rows) for point in points]
    unknown = {("lag", place) for place, lag in enumerate(lags) if lag is None}
    lag = Series("lag", "c-moving", [float(each or 0) for each in lags])
    return [
        columns("State", labels, of_states, over_time=True, numbers=False),
        columns("Lag", labels, [lag], over_time=True, unknown=unknown),
        *([columns("Members", labels, [Series("members", "c-live", members)], over_time=True)] if any(members) else []),
    ]


def lag_of(row: Mapping[str, Any]) -> int | None:
    """Return the number of records that a partition's row is behind, ``None`` if it is not known."""
    from airflow_kafka_groups.kafka.admin.lag import partition_lag

    start, end = row["log_start"], row["log_end"]
    return partition_lag(row["committed_offset"], None if start is None or end is None else (start, end)).messages


def _lag(rows: list[dict[str, Any]]) -> int | None:
    found = [lag for row in rows if (lag := lag_of(row)) is not None]
    return sum(found) if found else None


def _events(layout: Layout, kafka_cluster_id: str | None, group_id: str) -> Iterator[Event]:
    for plan_id in sorted(FILES.ids(layout.root / paths.PLANS), reverse=True)[:_MOST_PLANS]:
        if (found := find_in_plan(layout, plan_id, group_id)) is not None:
            verdict = getattr(found, "verdict", None)
            yield Event(paths.time_of(plan_id), f"plan {plan_id}", f"{verdict or 'planned'}: {found.reason}")
    ledger = Ledger(layout, kafka_cluster_id)
    for run in ledger.history().of_group(group_id, _MOST_RUNS):
        what = f"{'dry run of a deletion' if run.begun.get('dry_run') else 'deletion'} {run.run_id}"
        actor, outcome = run.begun.get("actor") or {}, run.outcomes[group_id]
        by = (str(actor.get("dag_id", "")), str(actor.get("run_id", "")))
        yield Event(paths.parse_time(run.begun["at"]), what, f"{outcome.outcome.value}: {outcome.reason}", *by)
    notice = ledger.notices().get(group_id)
    if notice is not None:
        yield Event(notice.marked_at, "mark", f"marked for a notice to {notice.owner or 'its owner'}")
        if notice.notified_at is not None:
            yield Event(notice.notified_at, "notice", f"sent to {notice.contact or notice.owner or 'its owner'}")
    names = [name for name in FILES.files(layout.root / paths.CHANGES) if name.endswith("-result.json")]
    newest = sorted(names, reverse=True)[:_MOST_CHANGES]
    for found_change in read_few(lambda name: _change(layout.root / paths.CHANGES / name, group_id), newest):
        if found_change is not None:
            yield found_change


def _change(path: StoragePath, group_id: str) -> Event | None:
    """Return what a restore, a keep-alive run or another change did to a group. Very large records are left out."""
    from airflow_kafka_groups.change.restore.earlier_tries import TASK_RUN

    try:
        if FILES.describe(path).size > _LARGEST_RECORD:
            return None
        record = json.loads(FILES.read_text(path))
        group = next((each for each in record["groups"] if each["group_id"] == group_id), None)
        if group is None:
            return None
        dag_id, _, rest = str(record.get(TASK_RUN) or "").partition("/")
        run_id = rest.rsplit("/", 2)[0] if rest.count("/") > 1 else ""
        dry = "dry run of a " if record.get("dry_run") else ""
        outcome = f"{group.get('outcome')}: {group['reason']}" if group.get("reason") else str(group.get("outcome"))
        return Event(
            paths.time_of(record["run_id"]), f"{dry}{record['what']} {record['run_id']}", outcome, dag_id, run_id
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # of another program; what decides reads these records itself, and refuses it


def _restorable(layout: Layout, group_id: str) -> str | None:
    for plan_id in sorted(FILES.ids(layout.root / paths.BACKUPS), reverse=True)[:_MOST_PLANS]:
        with suppress(KafkaGroupsError):  # of a backup without a plan
            if isinstance(find_in_plan(layout, plan_id, group_id), PlannedGroup):
                return plan_id
    return None
