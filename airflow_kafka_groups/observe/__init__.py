"""Columns and values of Arrow, and what is computed of snapshots in it. Needs neither Spark nor Airflow."""
