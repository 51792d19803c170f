"""A driver on this machine leaves the optimising compiler out, unless somebody wants it."""

import pytest

from airflow_kafka_groups.spark.requirements import SUBMIT_OPTIONS, quick_driver

QUICK = "-XX:TieredStopAtLevel=1"


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, QUICK),
        ({SUBMIT_OPTIONS: ""}, QUICK),
        ({SUBMIT_OPTIONS: "-Dsite=1 -XX:TieredStopAtLevel=4"}, f"{QUICK} -Dsite=1 -XX:TieredStopAtLevel=4"),
    ],
)
def test_options_of_the_environment_come_later_and_count(environment: dict[str, str], options: str) -> None:
    assert quick_driver(environment | {"PATH": "/bin"}) == {SUBMIT_OPTIONS: options}
