"""A connection of Airflow: its fields, what they mean for each client, and the Test button."""
