"""Airflow sensors: wait for groups, offsets, coordinators and deletions."""
