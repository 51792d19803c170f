"""Airflow sensors: the operators' questions, waiting for an answer."""
