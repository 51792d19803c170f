"""What is computed from snapshots in Arrow: observations, lives and verdicts. Needs neither Spark nor Airflow."""
