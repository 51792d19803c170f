"""The page of a backlog that Spark processed: how far it came in each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_kafka_groups.report.html import write_report
from airflow_kafka_groups.report.page import SHOWN, render
from airflow_kafka_groups.report.svg import Series, bars
from airflow_kafka_groups.storage.layout import Layout, utc_now

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def write_taken_records(
    layout: Layout, backlog_id: str, group_id: str, taken: Sequence[Mapping[str, Any]], outcome: str, dag_id: str | None
) -> str:
    """Write the page, and return its path.

    :param taken: ``topic``, ``partition``, ``start`` and ``end`` (exclusive) of each range of offsets, of any slice.
    :param outcome: what became of the commit, in words.
    :param dag_id: the DAG whose runs show the page. ``None``: no run does.
    """
    offsets: dict[str, int] = {}
    for each in taken:
        name = f"{each['topic']}-{each['partition']}"
        offsets[name] = offsets.get(name, 0) + each["end"] - each["start"]
    largest = sorted(offsets, key=lambda name: (-offsets[name], name))[:SHOWN]
    chart = bars(
        "Largest partitions",
        largest,
        [Series("offsets", "c-live", [offsets[name] for name in largest])],
        what="offsets processed",
    )
    page = render(
        "taken.html.j2",
        dag_id=dag_id,
        title=f"Records that Spark took from {group_id}",
        chart=chart,
        backlog_id=backlog_id,
        group_id=group_id,
        partitions=len(offsets),
        total=sum(offsets.values()),
        outcome=outcome,
        now=utc_now(),
    )
    return str(write_report(layout, backlog_id, page))
