"""Checks of the Airflow that this machine's configuration describes."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from airflow_kafka_groups.doctor.finding import Report

_OLDEST = (3, 2)
_EXTRAS = (
    (
        "airflow.providers.apache.spark",
        "apache-airflow-providers-apache-spark",
        "groups are judged without it, and other Spark jobs cannot be submitted",
    ),
    ("airflow.providers.standard.operators.hitl", "apache-airflow-providers-standard", "approvals cannot be requested"),
)


def examine_airflow(report: Report) -> None:
    """Check Airflow's version, providers and the settings that matter here."""
    try:
        found = version("apache-airflow-core")
    except PackageNotFoundError:
        report.warn("Airflow", "Airflow is not installed here.", "Nothing, if only the command line is used.")
        return
    release = tuple(int(part) for part in found.split(".")[:2])
    if release < _OLDEST:
        text = f"Airflow {found} is older than what this package supports."
        report.fail("Airflow", text, "Use Airflow 3.2 or later.")
    else:
        report.ok("Airflow", f"Airflow {found} is installed.")
    for module, package, consequence in _EXTRAS:
        if not _installed(module):
            report.warn("providers", f"{package} is missing: {consequence}.", f"pip install {package}")
    _examine_test_button(report)


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _examine_test_button(report: Report) -> None:
    from airflow.configuration import conf

    if conf.get("core", "test_connection", fallback="Disabled").lower() == "enabled":
        report.ok("Test button", "Connections can be tested in the UI.")
    else:
        text = "Connections cannot be tested in the UI ([core] test_connection)."
        report.warn("Test button", text, "Set AIRFLOW__CORE__TEST_CONNECTION=Enabled, or use this command.")


def executors_elsewhere() -> list[str]:
    """Return the executors of this Airflow that run tasks on other machines; none where Airflow is not installed."""
    if not _installed("airflow.configuration"):
        return []
    from airflow.configuration import conf

    named = re.split(r"[,;]", conf.get("core", "executor", fallback=""))
    names = [re.split(r"[.:=]", each.strip())[-1] for each in named]
    return [name for name in names if name not in ("", "LocalExecutor")]
