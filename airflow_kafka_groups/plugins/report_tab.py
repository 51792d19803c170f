"""The Airflow plugin: a run's report as a tab of the DAG run, the trend as a tab of the DAG, and the menu's pages.

Every Airflow process imports this module, so it imports very little; the web app is built when the API server requests
it. ``[kafka_groups] report_tab = False`` removes tab, app and links.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

from airflow_kafka_groups.hooks.links import TAB, TAB_ROUTE, TREND_ROUTE, base_path, has_report_tab

APP_PREFIX = "/kafka-groups-report"
GROUPS_PREFIX, GROUPS_ROUTE = "/kafka-groups", "kafka-groups"


class ReportTabPlugin(AirflowPlugin):
    """The plugin that adds the report tab to DAG runs, the trend to DAGs, and "Kafka groups" to the menu."""

    name = "kafka_groups_report"

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]  # Airflow reads it as an attribute
        """The apps that serve reports and groups to users who may read the DAG's XComs."""
        if not has_report_tab():
            return []
        from airflow_kafka_groups.plugins.apps import make_app, make_groups_app

        return [
            {"app": make_app(), "url_prefix": APP_PREFIX, "name": "Kafka consumer groups: report"},
            {"app": make_groups_app(), "url_prefix": GROUPS_PREFIX, "name": "Kafka groups"},
        ]

    @property
    def external_views(self) -> list[Any]:  # type: ignore[override]
        """The tabs and the menu's entry."""
        if not has_report_tab():
            return []
        views = (
            ("Consumer groups", "dag_run", TAB_ROUTE, f"{APP_PREFIX}/{TAB}/{{DAG_ID}}/{{RUN_ID}}"),
            ("Consumer groups over time", "dag", TREND_ROUTE, f"{APP_PREFIX}/{TAB}/{{DAG_ID}}"),
            ("Kafka groups", "nav", GROUPS_ROUTE, f"{GROUPS_PREFIX}/{TAB}/"),
        )
        return [
            {"name": name, "href": base_path() + place, "destination": destination, "url_route": route}
            | ({"category": "browse"} if destination == "nav" else {})
            for name, destination, route, place in views
        ]
