"""Send a list of the groups that lag to a Slack channel: shown in docs/howto/recipes.md."""

# [START recipe_slack]
import json
import urllib.request
from datetime import datetime
from html import escape
from typing import Any

from airflow.sdk import DAG, BaseHook, task

from airflow_kafka_groups.operators.offsets import ListGroupLagOperator

with DAG(dag_id="lag_to_slack", schedule="*/10 * * * *", start_date=datetime(2026, 1, 1), catchup=False):
    measure = ListGroupLagOperator(task_id="measure", kafka_groups_conn_id="prod", max_lag=100_000)

    @task
    def post(found: dict[str, Any]) -> None:
        if not found["lagging"]:
            return
        most = sorted(found["lagging_groups"].items(), key=lambda item: -item[1])  # databases keep no order in XComs
        lines = [f"• `{escape(id_, quote=False)}`: {lag:,} messages" for id_, lag in most]
        text = f"{found['lagging']} of {found['groups']} Kafka groups lag:\n" + "\n".join(lines[:20])
        webhook = BaseHook.get_connection("slack_webhook").password  # the complete URL is a secret
        request = urllib.request.Request(
            str(webhook), json.dumps({"text": text}).encode(), {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=30).close()

    post(measure.output)  # type: ignore[arg-type]  # XComs are dicts at run time
# [END recipe_slack]
