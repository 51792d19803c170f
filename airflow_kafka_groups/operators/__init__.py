"""Airflow operators: validate, call the hook, return a small JSON."""
