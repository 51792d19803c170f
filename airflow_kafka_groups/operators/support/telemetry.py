"""Metrics through Airflow's stats, counts in asset events, and lineage.

None of it may fail a task: the outcome of a deletion must be reported even if a metric cannot be sent.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_kafka_groups.shown import storable

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
    from airflow_kafka_groups.report.metrics import Gauges, GroupMetrics

log = logging.getLogger(__name__)

PREFIX = "kafka_groups"
MAX_LINEAGE_TOPICS = 1_000
_LONGEST_STAT = 100
_STAT = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_SWITCHES = ("statsd_influxdb_enabled", "statsd_on", "statsd_datadog_enabled")
_NOT_IN_STATS = re.compile(r"[^A-Za-z0-9_-]")


def gauges(cluster: str, values: Mapping[str, float | None]) -> None:
    """Send gauges ``kafka_groups.<cluster>.<name>``, tagged with the cluster. ``None`` is omitted."""
    _send("gauge", cluster, ((name, value, {}) for name, value in values.items()))


def counters(cluster: str, values: Mapping[str, float | None]) -> None:
    """Add to the counters ``kafka_groups.<cluster>.<name>``. 0 and ``None`` are omitted."""
    _send("incr", cluster, ((name, value, {}) for name, value in values.items() if value))


def gauges_of_groups(cluster: str, metrics: GroupMetrics) -> None:
    """Send gauges for each group and family, ``group.<id>.<name>`` and ``family.<name>.<name>``, tagged with it."""
    _send("gauge", cluster, _of_groups(metrics))


def _of_groups(metrics: GroupMetrics) -> Iterator[tuple[str, float | None, Mapping[str, str]]]:
    for group_id, numbers in metrics.groups.items():
        yield from _numbers("group", group_id, numbers)
    for family, (groups, numbers) in metrics.families.items():
        yield f"family.{_stat_name(family)}.groups", groups, {"family": family}
        yield from _numbers("family", family, numbers)
    yield "group_metrics.omitted", metrics.omitted, {}


def _numbers(kind: str, name: str, numbers: Gauges) -> Iterator[tuple[str, float | None, Mapping[str, str]]]:
    stat, tags = f"{kind}.{_stat_name(name)}", {kind: name}
    yield f"{stat}.lag", numbers.lag, tags
    yield f"{stat}.seconds_since_movement", None if numbers.idle is None else round(numbers.idle, 3), tags
    yield f"{stat}.days_to_expiry", None if numbers.expiry_days is None else round(numbers.expiry_days, 3), tags


def _stat_name(name: str) -> str:
    """Return a name that metrics may have, and that no other name has: a changed one ends with its digest."""
    if len(name) <= _LONGEST_STAT and _STAT.fullmatch(name):
        return name
    return f"{_NOT_IN_STATS.sub('_', name)[:_LONGEST_STAT]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _send(kind: str, cluster: str, values: Iterable[tuple[str, float | None, Mapping[str, str]]]) -> None:
    try:
        from airflow.providers.common.compat.sdk import Stats

        in_names = _has_tags_in_names()
        for name, value, tags in values:
            if value is not None:
                # Plain statsd has no tags, so the name must distinguish clusters and groups.
                stat = f"{PREFIX}.{_stat_name(cluster.replace('.', '_'))}.{name}"
                # Airflow drops a metric whose tags, where they are a part of its name, no name can have.
                getattr(Stats, kind)(stat, value, tags=None if in_names else {"cluster": cluster, **tags})
    except Exception:
        log.warning("metrics could not be sent", exc_info=True)


def _has_tags_in_names() -> bool:
    """Return whether Airflow makes tags a part of names. Datadog and OpenTelemetry have them beside names."""
    from airflow.sdk import conf

    is_on = {name: conf.getboolean("metrics", name, fallback=False) for name in _SWITCHES}
    return is_on["statsd_influxdb_enabled"] and is_on["statsd_on"] and not is_on["statsd_datadog_enabled"]


def update_asset_events(operator: BaseOperator, context: Context, facts: Mapping[str, Any]) -> None:
    """Add facts to the event of every asset that is an outlet of the task: ``event.extra``."""
    from airflow.sdk import Asset
    from airflow.sdk.definitions.asset import AssetRef

    events = context.get("outlet_events")
    if events is not None:
        for outlet in operator.outlets or ():
            try:
                if isinstance(outlet, Asset | AssetRef):
                    events[outlet].extra.update(storable(dict(facts)))
            except Exception:  # Airflow asks its API server what a reference is of
                log.warning("the event of %s has no facts", outlet, exc_info=True)


def file_lineage(path: str, rows: int | None) -> Any:
    """Return the OpenLineage dataset of a written file, named by OpenLineage's naming convention."""
    from airflow.providers.common.compat.openlineage.facet import OutputDataset, OutputStatisticsOutputDatasetFacet

    namespace, name = dataset_name(path)
    statistics = OutputStatisticsOutputDatasetFacet(rowCount=rows, fileCount=1)
    return OutputDataset(namespace=namespace, name=name, outputFacets={"outputStatistics": statistics})


def dataset_name(path: str) -> tuple[str, str]:
    """Return OpenLineage's namespace and name of a path or URL, without a connection id in it."""
    parts = urlsplit(path)
    if not parts.scheme or parts.scheme == "file":
        return "file", parts.path
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"{scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.lstrip("/")


def topics_lineage(hook: KafkaGroupsHook, topics: Iterable[str]) -> list[Any]:
    """Return the OpenLineage datasets of topics whose offsets were read, the first 1,000 by name."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    host, port = hook.client_config().bootstrap_servers[0]
    return [Dataset(namespace=f"kafka://{host}:{port}", name=name) for name in sorted(topics)[:MAX_LINEAGE_TOPICS]]


def offsets_lineage(hook: KafkaGroupsHook, data: str, rows: int | None) -> Any:
    """Return the lineage of a Parquet file of committed offsets: from its topics to the file.

    :param data: the file, or a folder of files.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage(
        inputs=topics_lineage(hook, _topics_of(data)), outputs=[file_lineage(data, rows)], run_facets={}, job_facets={}
    )


def _topics_of(data: str) -> set[str]:
    """Read the topics of a file of offsets. On errors the lineage has no topics."""
    import pyarrow.parquet as pq

    from airflow_kafka_groups.hooks.storage import open_path

    topics: set[str] = set()
    try:
        path: Any = open_path("data", data)
        files = [file for file in path.iterdir() if file.name.endswith(".parquet")] if path.is_dir() else [path]
        for file in files:
            with file.open("rb") as source:
                for batch in pq.ParquetFile(source).iter_batches(columns=["topic"]):
                    topics.update(batch.column(0).unique().to_pylist())
    except Exception:
        log.warning("the topics of %s could not be read for the lineage", data, exc_info=True)
    return {topic for topic in topics if topic}  # a group without offsets has one row without a topic
