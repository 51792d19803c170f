"""A clean-up every Monday, which asks before it deletes: shown in docs/howto/recipes.md."""

# [START recipe_weekly]
from datetime import datetime

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

with DAG(dag_id="weekly_cleanup", schedule="0 9 * * 1", start_date=datetime(2026, 1, 1), catchup=False):
    TriggerDagRunOperator(
        task_id="clean_up",
        trigger_dag_id="cleanup_stale_groups",
        conf={
            "min_idle_seconds": "21d",
            "max_groups": 200,
            "exclude": ["payments-*"],
            "dry_run": False,
            "require_approval": True,  # the run waits for an answer, at most 12 hours
        },
    )
# [END recipe_weekly]
