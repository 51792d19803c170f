"""The reference of the metrics, from the lists by which they are sent and written."""

from airflow_kafka_groups.operators.support import base
from airflow_kafka_groups.report.metrics import METRIC_FAMILIES, PREFIX
from tests.reference.markdown import listing, page
from tests.reference.sent_metrics import SENT_METRICS
from tests.reference.tasks import classes

EXPORT = "ExportGroupMetricsOperator"


def metrics_page() -> str:
    return page(
        "Metrics",
        "Every metric. [Metrics, assets, logs](../howto/watch.md) shows how to turn them on.",
        "## Airflow's metrics",
        f"Sent through Airflow's `[metrics]`, to statsd or OpenTelemetry. A name begins with "
        f"`{base.PREFIX}.<cluster>.`, where the cluster is the operator's `cluster` or the connection's id, with "
        "`_` for what is no letter, digit, `_` or `-`. The tag `cluster` has the exact name.",
        "Gauges, and counters where it says so:",
        *(
            f"[`{operator}`](operators.md#{_place(operator)}):\n\n"
            + listing(
                (f"`{each.name}`", "counter" if each.kind == "counter" else "", each.meaning)
                for each in SENT_METRICS
                if each.operator == operator
            )
            for operator in dict.fromkeys(each.operator for each in SENT_METRICS)
        ),
        "## The OpenMetrics file",
        f"Written by [`{EXPORT}`](operators.md#{_place(EXPORT)}) and "
        "[`metrics`](command-line-options.md#metrics). All are gauges with the label `cluster`, and "
        "those in brackets. A value that is not known has no sample.",
        listing(
            (f"`{PREFIX}_{each.name}`", *(f"`{label}`" for label in each.labels), each.help) for each in METRIC_FAMILIES
        ),
    )


def _place(operator: str) -> str:
    """Return the anchor of an operator in the reference that mkdocstrings writes."""
    (found,) = (each for each in classes("operators") if each.__name__ == operator)
    return f"{found.__module__}.{operator}"
