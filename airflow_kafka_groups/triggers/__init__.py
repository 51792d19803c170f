"""Airflow triggers: one poll loop, configured."""
