"""Metrics for each group, from the verdicts on a snapshot.

In: verdicts. Out: numbers for Airflow's metrics, and an OpenMetrics file for scrapers.
"""
