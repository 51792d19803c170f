"""Spark jobs, transforms and the data source, shipped by spark-submit. They import no Airflow."""
