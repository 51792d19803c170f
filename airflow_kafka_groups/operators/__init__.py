"""Airflow operators: validate arguments, call the hook, return a small JSON."""
