"""The Airflow connection as an AdminClient."""
