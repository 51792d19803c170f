"""DAGs that start by what becomes of groups: shown in docs/howto/watch.md, run by test_watching.py."""

# [START howto_trigger_asset]
from datetime import datetime
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_kafka_groups.triggers.events import GroupsEventTrigger

lagging = GroupsEventTrigger(
    event="lagging", max_lag=1000, include=["watched.*"], kafka_groups_conn_id="my_cluster", poll_interval=60
)
lagging_groups = Asset("lagging_groups", watchers=[AssetWatcher(name="lagging", trigger=lagging)])

with DAG(dag_id="groups_lag", schedule=lagging_groups, start_date=datetime(2026, 1, 1), catchup=False):

    @task
    def tell(triggering_asset_events: Any = None) -> list[str]:
        """Print the groups that began to lag."""
        events = [event.extra["payload"] for event in triggering_asset_events[lagging_groups]]
        return [f"{group_id}: {reason}" for event in events for group_id, reason in event["reasons"].items()]

    tell()
# [END howto_trigger_asset]
