"""Metrics whose tags are a part of their names: Airflow drops one with a tag that no name can have."""

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import Stats

from airflow_kafka_groups.operators.support.telemetry import gauges_of_groups
from airflow_kafka_groups.report.metrics import Gauges, GroupMetrics


class Client:
    """A client of statsd that keeps what it is to send."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def gauge(self, stat: str, *_: Any) -> None:
        """Keep the name."""
        self.sent.append(stat)


def test_each_group_and_family_is_sent_with_the_tags_that_airflow_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = pytest.importorskip("airflow.sdk._shared.observability.metrics.statsd_logger")
    client = Client()
    logger = shared.SafeStatsdLogger(client, influxdb_tags_enabled=True, statsd_influxdb_enabled=True)
    monkeypatch.setattr(Stats, "gauge", logger.gauge)
    for name in ("STATSD_INFLUXDB_ENABLED", "STATSD_ON"):
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", "true")
    lag, long = Gauges(7, None, None), "x" * 100
    metrics = GroupMetrics(
        groups={"orders": lag, "team:orders": lag, long: lag}, families={"report-<uuid>": (2, lag)}, omitted=0
    )
    gauges_of_groups("prod", metrics)
    sent = [stat.removeprefix("kafka_groups.prod.") for stat in client.sent]
    assert sent[0] == "group.orders.lag,cluster=prod,group=orders"
    assert [stat.partition("-")[0] for stat in sent[1:2]] == ["group.team_orders"]
    assert sent[1].endswith(".lag,cluster=prod")
    assert sent[2].startswith(f"group.{long}.lag,cluster=prod")
    assert [stat.rpartition(".")[2] for stat in sent[3:]] == [
        "groups,cluster=prod", "lag,cluster=prod", "omitted,cluster=prod",
    ]  # fmt: skip


@pytest.mark.parametrize("on", [["OTEL_ON"], ["STATSD_ON", "STATSD_DATADOG_ENABLED"]])
def test_where_tags_are_beside_the_names_each_is_sent(on: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Datadog and OpenTelemetry take any tag, and the setting for InfluxDB changes nothing there."""
    sent: list[dict[str, str]] = []
    monkeypatch.setattr(Stats, "gauge", lambda stat, value, tags: sent.append(tags))
    for name in ("STATSD_INFLUXDB_ENABLED", *on):
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", "true")
    gauges_of_groups("prod", GroupMetrics(groups={"team:a": Gauges(7, None, None)}, families={}, omitted=0))
    assert sent[0] == {"cluster": "prod", "group": "team:a"}
