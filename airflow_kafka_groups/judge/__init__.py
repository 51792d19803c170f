"""Verdicts and lag, computed from observations, and the policy that decides by them. No Airflow, no Spark."""
