"""Metrics whose tags are a part of their names: Airflow drops one with a tag that no name can have."""

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import Stats

from airflow_kafka_groups.operators.support.telemetry import gauges_of_groups
from airflow_kafka_groups.report.metrics import Gauges, GroupMetrics


def test_where_tags_are_a_part_of_names_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name has the cluster and the group already; of ``team:orders``, Airflow would drop the metric."""
    sent: list[Any] = []
    monkeypatch.setattr(Stats, "gauge", lambda stat, value, tags: sent.append((stat, tags)))
    for name in ("STATSD_INFLUXDB_ENABLED", "STATSD_ON"):
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", "true")
    gauges_of_groups("prod", GroupMetrics(groups={"orders": Gauges(7, None, None)}, families={}, omitted=0))
    assert sent[0] == ("kafka_groups.prod.group.orders.lag", None)


@pytest.mark.parametrize("on", [["OTEL_ON"], ["STATSD_ON", "STATSD_DATADOG_ENABLED"]])
def test_where_tags_are_beside_the_names_each_is_sent(on: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Datadog and OpenTelemetry take any tag, and the setting for InfluxDB changes nothing there."""
    sent: list[dict[str, str]] = []
    monkeypatch.setattr(Stats, "gauge", lambda stat, value, tags: sent.append(tags))
    for name in ("STATSD_INFLUXDB_ENABLED", *on):
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", "true")
    gauges_of_groups("prod", GroupMetrics(groups={"team:a": Gauges(7, None, None)}, families={}, omitted=0))
    assert sent[0] == {"cluster": "prod", "group": "team:a"}
