"""Verdicts and lag, from observations; policy rules. No I/O of brokers, no Spark, no Airflow."""
