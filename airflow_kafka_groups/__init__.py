"""Maintain Kafka consumer groups in bulk from Apache Airflow.

This module imports nothing: Airflow's provider discovery, DAG parsing and Spark workers all load it.
"""

__version__ = "0.1.0"
