"""Servers and programs beside the brokers: an object store, a distance, a browser."""
