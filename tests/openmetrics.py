"""OpenMetrics, as Prometheus' own client parses it."""

from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families


def read_openmetrics(text: str) -> list[Any]:
    """Return the metrics. Raises ``ValueError`` for text that is not OpenMetrics."""
    return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
