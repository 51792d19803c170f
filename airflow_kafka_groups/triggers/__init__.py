"""Airflow triggers, all built on one poll loop."""
