"""The Airflow hook: a connection as an AdminClient."""
