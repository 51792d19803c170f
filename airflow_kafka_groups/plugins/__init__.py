"""What Airflow's API server loads: the report tab."""
