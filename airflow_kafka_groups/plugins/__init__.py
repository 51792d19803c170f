"""Plugins of Airflow's API server: the report tab."""
