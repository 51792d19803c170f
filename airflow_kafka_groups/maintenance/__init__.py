"""What to do with groups: snapshot, plan, fence, backup, deletion, report. Knows no Airflow."""
