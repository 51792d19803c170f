"""The file, as the parsers of Prometheus' own client read it."""

import os
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text_format

from airflow_kafka_groups.report.metrics import METRIC_FAMILIES, Gauges, GroupMetrics, openmetrics, write_openmetrics
from tests.fakes.groups import NOW
from tests.openmetrics import read_openmetrics
from tests.pages import DOCS

EVIL = 'a "b"\\ c\\n\nd{e="f"} 1\r\t\u2028é𝄞#'
METRICS = GroupMetrics(
    groups={EVIL: Gauges(7, 4.5, -0.25), "unknown": Gauges(None, None, None), "": Gauges(0, 0.0, 1e-7)},
    families={"report-<uuid>": (3, Gauges(9_007_199_254_740_993, None, None))},
    omitted=2,
    verdicts={"live": 1, "stale": 2},
    observed_at=NOW,
)


def samples(text: str) -> dict[str, dict[str, float]]:
    """Return the values by metric and by the label that is not ``cluster``."""
    found: dict[str, dict[str, float]] = {}
    for family in read_openmetrics(text):
        assert family.type == "gauge"
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("cluster") == "prod.eu"
            found.setdefault(sample.name, {})["".join(labels.values())] = sample.value
    return found


def test_every_value_and_every_id_survives_the_parser() -> None:
    found = samples(openmetrics("prod.eu", METRICS))
    assert found == {
        "kafka_groups_lag_records": {EVIL: 7, "": 0},
        "kafka_groups_since_movement_seconds": {EVIL: 4.5, "": 0},
        "kafka_groups_expiry_days": {EVIL: -0.25, "": 1e-7},
        "kafka_groups_family_groups": {"report-<uuid>": 3},
        "kafka_groups_family_lag_records": {"report-<uuid>": 9_007_199_254_740_993},
        "kafka_groups_groups_by_verdict": {"live": 1, "stale": 2},
        "kafka_groups_omitted_groups": {"": 2},
        "kafka_groups_snapshot_timestamp_seconds": {"": NOW.timestamp()},
    }


def test_metrics_are_described_with_their_units() -> None:
    read = {family.name: family for family in read_openmetrics(openmetrics("c", METRICS))}
    assert list(read) == [f"kafka_groups_{family.name}" for family in METRIC_FAMILIES]
    for family in METRIC_FAMILIES:
        assert (read[f"kafka_groups_{family.name}"].unit, read[f"kafka_groups_{family.name}"].documentation) == (
            family.unit,
            family.help,
        )


def test_node_exporters_older_format_reads_it_too() -> None:
    text = openmetrics("prod.eu", METRICS)
    read = {sample.name for family in read_text_format(text) for sample in family.samples}
    assert read == set(samples(text))


def test_a_file_without_groups_is_valid() -> None:
    assert samples(openmetrics("prod.eu", GroupMetrics())) == {"kafka_groups_omitted_groups": {"": 0}}


def test_the_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "textfile" / "groups.prom"
    write_openmetrics(path, "prod.eu", GroupMetrics())
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("the machine dies here")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(Exception, match="the machine dies here"):
            write_openmetrics(path, "prod.eu", METRICS)
        assert path.read_bytes() == before
        # node_exporter reads every *.prom of the folder
        assert [name for name in os.listdir(path.parent) if name.endswith(".prom")] == ["groups.prom"]
    write_openmetrics(path, "prod.eu", METRICS)
    assert path.read_bytes() == openmetrics("prod.eu", METRICS).encode()


@pytest.mark.parametrize(("hours_since_the_snapshot", "alerts"), [(0, False), (11, False), (13, True)])
def test_the_query_of_the_page_counts_the_days_from_now(hours_since_the_snapshot: int, alerts: bool) -> None:
    """Snapshots are judged once a day: offsets that had three days left then are forgotten a day before the alert."""
    (query,) = re.findall(r"^kafka_groups_expiry_days.*$", (DOCS / "howto" / "watch.md").read_text(), re.MULTILINE)
    for name, value in {
        "on(cluster) group_left()": "",
        "time()": NOW.timestamp() + hours_since_the_snapshot * 3_600,
        "kafka_groups_snapshot_timestamp_seconds": NOW.timestamp(),
        "kafka_groups_expiry_days": 2.5,
    }.items():
        query = query.replace(name, str(value))
    assert eval(query) is alerts
